"""`/api/v1/simulate`: what the stored jobs will do, without running one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ...core.forecast.json_forms import clock_changes_json, job_forecast_json, run_json, totals_json
from ...core.render.entities import instant_text
from ...model.errors import InvalidValue
from ...model.time.instants import to_datetime
from ...model.values.reading import duration, zone, zone_name
from ..access import GuardedRoute
from ..errors import respond
from ..models.simulate import SimulationJson, SimulationQuery
from ..request import Viewing, in_turns, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL

router = APIRouter(prefix="/api/v1", tags=["simulate"], route_class=GuardedRoute)


@router.get(
    "/simulate",
    operation_id="simulate",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (SimulationJson, "The runs to come, and their totals.")}, 404),
)
async def simulate(call: Viewing, wanted: Annotated[SimulationQuery, Query()]) -> Response:
    """A forecast of the runs of all jobs as they are now, in order, with overlaps, crowded minutes and clock changes.
    It runs nothing. Paused jobs have no runs. For a job that runs very often, the forecast covers only the next runs
    and lists the job in `unfinished`."""
    where = zone_name(zone("timezone", wanted.timezone or call.application.settings.timezone, warn=False))
    durations = dict(_named_duration(text) for text in wanted.duration or ())
    found = await call.engine.simulations.run(
        duration("span", wanted.span), zone=where, names=wanted.job or (), queue=wanted.queue, durations=durations
    )
    forecast = found.forecast
    rendered = {
        "from": instant_text(to_datetime(forecast.begin)),
        "to": instant_text(to_datetime(forecast.end)),
        "timezone": forecast.zone,
        "totals": totals_json(forecast),
        "unfinished": sorted(found.unfinished),
        "left_out": found.left_out,
        "on_demand": forecast.on_demand,
        "clock_changes": clock_changes_json(forecast),
        "jobs": await in_turns(forecast.jobs, lambda job: job_forecast_json(job, found.sources)),
        "runs": [run_json(run) for run in forecast.page(wanted.offset, wanted.limit)],
        "total": sum(len(job.ticks) for job in forecast.jobs),
        "limit": wanted.limit,
        "offset": wanted.offset,
    }
    return respond(json(rendered))


def _named_duration(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidValue("duration", text, "a job and a duration, such as report=5m")
    return name, duration("duration", value, allow_zero=True)
