"""What the stored jobs will do from now on, as they are now: with pauses, edits and moved runs.

`mainspring simulate` forecasts the jobs that code declares; this forecasts those of the database, for a server that
others wait for. So it is bounded: the jobs that run next, each followed for a limited number of runs, one job after the
other so that none holds the event loop for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from ...model.errors import InvalidValue, JobNotFound
from ...model.time.instants import seconds_to_micros
from ...model.values.reading import duration_text
from ..filters.jobs import job_filter
from ..jobs.calendars import Calendars
from ..queries.job_lists import JobLists
from ..queries.queries import Queries
from ..views.job import JobView, job_of
from .forecast import Forecast, change_forecasts
from .timeline import forecast_of, goes_on, usual_seconds

MOST_JOBS = 200
"""How many jobs are forecast: those that run next."""
LONGEST_SPAN = 31 * 86_400.0
GIVEN, MEAN = "given", "mean of the past"


class Simulation(msgspec.Struct, frozen=True):
    """`sources` says where the duration of a job is from. `unfinished` are jobs that have more runs than they were
    followed for, `left_out` is how many jobs were not forecast at all."""

    forecast: Forecast
    sources: Mapping[str, str]
    unfinished: frozenset[str]
    left_out: int


class Simulations:
    def __init__(self, queries: Queries, job_lists: JobLists, calendars: Calendars) -> None:
        self._queries, self._job_lists, self._calendars = queries, job_lists, calendars

    async def run(
        self,
        span: float,
        *,
        zone: str,
        names: Sequence[str] = (),
        queue: str | None = None,
        durations: Mapping[str, float] | None = None,
    ) -> Simulation:
        """The runs of the next `span` seconds, of all jobs or of those named. `durations` are seconds that a run of
        a job would take; the mean of the past is used for the others."""
        if span > LONGEST_SPAN:
            remedy = "`mainspring simulate` looks further ahead"
            raise InvalidValue("span", duration_text(span), f"at most {duration_text(LONGEST_SPAN)}", remedy)
        now = await self._queries.now()
        end = now + seconds_to_micros(span)
        views, total = await self._jobs(names, queue)
        given = durations or {}
        for name in given:
            if all(view.name != name for view in views):
                raise JobNotFound(name, [view.name for view in views])
        calendars = await self._calendars.of([job_of(view) for view in views])
        found, sources = Forecast(begin=now, end=end, zone=zone), dict[str, str]()
        for view in views:
            job = job_of(view)
            if not job.ticking:
                found.on_demand.append(view.name)
                continue
            takes = given.get(view.name, usual_seconds(view))
            if takes is not None:
                sources[view.name] = GIVEN if view.name in given else MEAN
            found.add(forecast_of(job, now, end, takes, calendars))
            await asyncio.sleep(0)
        found.changes = change_forecasts(found.jobs, now, end)
        unfinished = frozenset(each.name for each in found.jobs if goes_on(each))
        return Simulation(found, sources, unfinished, max(0, total - len(views)))

    async def _jobs(self, names: Sequence[str], queue: str | None) -> tuple[list[JobView], int]:
        """The jobs to forecast, and how many there are."""
        if names:
            views = [await self._queries.job(name) for name in dict.fromkeys(names)]
            chosen = [view for view in views if queue is None or view.queue == queue]
            return chosen, len(chosen)
        wanted = job_filter({"queue": queue})
        page = await self._job_lists.page(wanted, sort="next_run_at", limit=MOST_JOBS)
        return page.jobs, page.total if isinstance(page.total, int) else MOST_JOBS
