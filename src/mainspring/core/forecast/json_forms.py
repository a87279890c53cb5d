"""The JSON form of a forecast: of `mainspring simulate -o json` and of the HTTP interface."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from ...model.time.instants import maybe_datetime, to_datetime
from ..render.entities import Instant, JsonForm, OccurrenceJson, instant_text, occurrence_json
from ..views.job import occurrence_view
from .forecast import Forecast, ForecastRun, JobForecast
from .overlaps import BESIDE, CANCELS, SKIPPED, WAITS

OUTCOMES = {"skipped": SKIPPED, "waiting": WAITS, "cancelling": CANCELS, "beside_another": BESIDE}


class BusiestJson(JsonForm):
    at: Instant
    runs: int


class OverlapCountsJson(JsonForm):
    """Ticks that would find an earlier run of their job still running, by what the overlap policy makes of them."""

    skipped: int
    waiting: int
    cancelling: int
    beside_another: int


class ForecastTotalsJson(OverlapCountsJson):
    jobs: int
    runs: int
    busiest_hour: BusiestJson | None
    busiest_minute: BusiestJson | None


class ClockChangeJson(JsonForm):
    at: Instant
    timezone: str
    direction: Literal["forward", "back"]
    local_before: str
    local_after: str
    jobs: Annotated[dict[str, str], Meta(description="What the change does to which job.")]


class JobForecastJson(OverlapCountsJson):
    name: str
    schedule: str | None
    schedule_description: str | None
    timezone: str
    overlap: str
    duration_s: Annotated[float | None, Meta(description="How long a run takes: given, or the mean of the past.")]
    duration_from: str | None
    runs: int
    most_at_once: int
    occurrences: Annotated[list[OccurrenceJson], Meta(description="Single runs that operators skipped or moved.")]
    first_run_at: Instant | None
    last_run_at: Instant | None


class ForecastRunJson(JsonForm):
    job: str
    utc: Instant
    local: Annotated[datetime, Meta(description="In the zone of the job.")]
    outcome: Annotated[str, Meta(description="`runs`, or what an earlier run that is still running makes of it.")]
    note: str | None


def totals_json(found: Forecast) -> dict[str, Any]:
    return {
        "jobs": len(found.jobs),
        "runs": found.runs,
        **_outcome_counts(found.jobs),
        "busiest_hour": _busiest_json(found.busiest(60)),
        "busiest_minute": _busiest_json(found.busiest(1)),
    }


def clock_changes_json(found: Forecast) -> list[dict[str, Any]]:
    return [
        {
            "at": instant_text(change.at),
            "timezone": zone,
            "direction": "forward" if change.kind == "gap" else "back",
            "local_before": change.shown_before.isoformat(),
            "local_after": change.shown_after.isoformat(),
            "jobs": touched,
        }
        for change, zone, touched in found.changes
    ]


def job_forecast_json(job: JobForecast, sources: Mapping[str, str]) -> dict[str, Any]:
    trigger, ticks = job.job.trigger, job.ticks
    return {
        "name": job.name,
        "schedule": trigger.expression() if trigger is not None else None,
        "schedule_description": trigger.describe() if trigger is not None else None,
        "timezone": job.zone,
        "overlap": job.job.spec.overlap,
        "duration_s": job.duration,
        "duration_from": sources.get(job.name),
        "runs": job.runs,
        **_outcome_counts([job]),
        "most_at_once": job.overlaps.most_at_once,
        "occurrences": [occurrence_json(occurrence_view(each)) for each in job.exceptions],
        "first_run_at": instant_text(maybe_datetime(ticks[0] if ticks else None)),
        "last_run_at": instant_text(maybe_datetime(ticks[-1] if ticks else None)),
    }


def run_json(run: ForecastRun) -> dict[str, Any]:
    return {
        "job": run.job,
        "utc": instant_text(to_datetime(run.at)),
        "local": run.local.isoformat(),
        "outcome": run.outcome,
        "note": run.note or None,
    }


def _outcome_counts(jobs: list[JobForecast]) -> dict[str, int]:
    return {name: sum(job.overlaps.count(outcome) for job in jobs) for name, outcome in OUTCOMES.items()}


def _busiest_json(busiest: tuple[datetime, int] | None) -> dict[str, Any] | None:
    return None if busiest is None else {"at": instant_text(busiest[0]), "runs": busiest[1]}
