"""How far a walk over all jobs has come. The place is stored, so that a restart does not begin again with the first
job, and shared, so that several nodes divide the work."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...model.job import Job
from ...model.store.entries import Entry, EntryWrite
from ..ports import Store


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of the entry: the walk continues after this job."""

    after: str = ""


class WalkPlace:
    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name

    async def next_jobs(self, count: int) -> Sequence[Job]:
        """The next jobs by name, for this node alone: the place moves on before they are returned. Empty if another
        node moved it first. If the node dies, its jobs wait for the next round. While one page holds all jobs, nothing
        is stored, and every node gets them."""
        found = await self._store.entries("place", "", [self._name])
        entry = found[0] if found else Entry(kind="place", key=self._name)
        place = entry.read(Place) or Place()
        jobs = await self._store.jobs_after(place.after, count)
        moved = Place(jobs[-1].name if len(jobs) == count else "")
        if moved == place:
            return jobs
        body = msgspec.json.encode(moved).decode()
        write = EntryWrite(entry=msgspec.structs.replace(entry, body=body), seen_version=entry.version)
        [won] = await self._store.write_entries([write])
        return jobs if won else ()
