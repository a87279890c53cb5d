"""How long the jobs of an application took in the past, from its database, which is read and never changed."""

from __future__ import annotations

import asyncio
import logging

from ..app import Mainspring
from ..config import parse_url
from ..databases import standing

PATIENCE = 5.0


def past_durations(url: str) -> tuple[dict[str, float], str]:
    """Mean seconds of the timed runs by job; and, where there are none, why not."""
    if parse_url(url).scheme == "memory":
        return {}, "a store in memory has no past"
    try:
        return asyncio.run(_durations(url))
    except Exception as error:  # whatever is wrong with the database, the schedule can be told without it
        return {}, f"the database could not be asked ({type(error).__name__}: {error})"


async def _durations(url: str) -> tuple[dict[str, float], str]:
    """Opening a store would make or migrate its tables: only one that stands as this release wants it is opened."""
    logging.getLogger("mainspring").addHandler(logging.NullHandler())
    async with asyncio.timeout(PATIENCE):
        found = await standing(url)
        if found.current == 0:
            return {}, "the database holds no tables of Mainspring yet"
        if found.pending:
            return {}, "the database is not migrated to this release"
        app = Mainspring(url, prune=False)
        try:
            views = await app.jobs()
        finally:
            await app.close()
    means = {view.name: view.stats.average_duration_ms for view in views}
    return {name: mean / 1000 for name, mean in means.items() if mean is not None}, ""
