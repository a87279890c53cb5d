"""What the database of an application knows of its jobs, for a forecast: how long they took in the past, and which
single occurrences were skipped or moved. It is read and never changed."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from ..admin.schema import status
from ..app.mainspring import Mainspring
from ..core.jobs.calendars import CalendarView
from ..core.views.job import job_of
from ..model.job import Job
from ..model.values.database_url import parse_url

PATIENCE = 5.0


class Past(msgspec.Struct, frozen=True):
    """Mean seconds of the timed runs by job; the jobs with single occurrences that were skipped or moved; the
    calendars that are stored; and, where nothing could be found out, why not."""

    durations: dict[str, float] = {}
    excepted: dict[str, Job] = {}
    calendars: tuple[CalendarView, ...] = ()
    why: str = ""


def past_of(url: str) -> Past:
    if parse_url(url).scheme == "memory":
        return Past(why="a store in memory has no past")
    try:
        return asyncio.run(_past(url))
    except Exception as error:  # whatever is wrong with the database, the schedule can be told without it
        return Past(why=f"the database could not be asked ({type(error).__name__}: {error})")


async def _past(url: str) -> Past:
    """Opening a store would make or migrate its tables: only one that stands as this release wants it is opened."""
    logging.getLogger("mainspring").addHandler(logging.NullHandler())
    async with asyncio.timeout(PATIENCE):
        found = await status(url)
        if found.current == 0:
            return Past(why="the database holds no tables of Mainspring yet")
        if found.pending:
            return Past(why="the database is not migrated to this release")
        app = Mainspring(url, prune=False)
        try:
            views, calendars = await app.jobs(), await app.calendars.all()
        finally:
            await app.close()
    means = {view.name: view.stats.average_duration_ms for view in views}
    return Past(
        {name: mean / 1000 for name, mean in means.items() if mean is not None},
        {view.name: job_of(view) for view in views if view.occurrences},
        tuple(calendars),
    )
