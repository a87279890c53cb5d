"""Keeping the links between jobs as they should be (`core.dependencies.links` says what they are): now and then, a few.

A link that its job needs no more is removed, and a parent that feeds nobody any more stops paying for it. Nothing is
lost by that, however many nodes and versions of the code run beside each other:

- A link goes only after it has been useless for an hour, and only if nobody has laid it anew since it was looked at.
- The mark of a parent goes before its last link does, and only if nobody has written the parent since it was looked at.
  Whoever lays a link writes the parent after that.
- A link or a mark that is missing is made good: whoever should have set it may have died.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import msgspec

from ...model.job import Job
from ...model.store.entries import Entry, EntryWrite
from ...model.store.messages import JobWrite
from ...model.time.instants import SECOND, Micros
from ..loops import Emit, trouble
from ..ports import Store
from .joins import KIND, forget_joins
from .links import LINKS, Dependents, Link, link_body, link_key, link_of, with_feeds

AT_ONCE = 500
KEPT_USELESS: Micros = 3_600 * SECOND


class LinkCare:
    def __init__(self, store: Store, emit: Emit) -> None:
        self._store, self._emit = store, emit
        self._dependents = Dependents(store)
        self._up_to = ""

    async def tend(self, jobs: Sequence[Job], now: Micros) -> None:
        """Make good what is missing for these jobs, and look at the next links."""
        for step in (partial(self._mend, jobs), partial(self._tidy, now)):
            try:
                await step()
            except Exception as error:
                self._emit(trouble("links between jobs", error))

    async def _mend(self, jobs: Sequence[Job]) -> None:
        needed = {(parent, job.name) for job in jobs for parent in _parents(job) or ()}
        if needed:
            found = await self._store.entries(KIND, LINKS, sorted(link_key(*link) for link in needed))
            await self._dependents.lay(needed - {link_of(entry) for entry in found})
            await self._dependents.mark({parent for parent, _ in needed})

    async def _tidy(self, now: Micros) -> None:
        page = await self._store.list_entries(KIND, LINKS, after=self._up_to, limit=AT_ONCE)
        self._up_to = page[-1].key if len(page) == AT_ONCE else ""
        children = {job.name: job for job in await self._jobs({link_of(entry)[1] for entry in page})}
        over: dict[str, list[Entry]] = defaultdict(list)
        for entry in page:
            parent, child = link_of(entry)
            since = link_body(entry).useless_since
            if _needs(children.get(child), parent):
                if since is not None:
                    await self._write(entry, Link())
            elif since is None:
                await self._write(entry, Link(useless_since=now))
            elif since < now - KEPT_USELESS:
                over[parent].append(entry)
        for parent, entries in over.items():
            await self._remove(parent, entries, children, now)

    async def _remove(self, parent: str, over: list[Entry], children: dict[str, Job], now: Micros) -> None:
        found = await self._jobs({parent})
        left = await self._store.list_entries(KIND, LINKS, after=f"{parent}/", before=f"{parent}0", limit=len(over) + 1)
        if (
            found
            and found[0].spec.feeds
            and {(each.key, each.version) for each in left} <= {(each.key, each.version) for each in over}
        ):
            write = JobWrite(job=with_feeds(found[0], False), seen_version=found[0].version)
            if not (await self._store.write_jobs([write]))[0].won:
                return
        for _, child in map(link_of, over):
            if child not in children or len(_parents(children[child]) or ()) < 2:
                await forget_joins(self._store, child, now - KEPT_USELESS)
        await self._store.write_entries(
            [EntryWrite(entry=each, seen_version=each.version, remove=True) for each in over]
        )

    async def _write(self, entry: Entry, link: Link) -> None:
        changed = msgspec.structs.replace(entry, body=msgspec.json.encode(link).decode())
        await self._store.write_entries([EntryWrite(entry=changed, seen_version=entry.version)])

    async def _jobs(self, names: set[str]) -> list[Job]:
        return await self._store.jobs(sorted(names)) if names else []


def _parents(job: Job) -> tuple[str, ...] | None:
    """None for a job that this release cannot read."""
    try:
        return job.spec.after
    except Exception:
        return None


def _needs(child: Job | None, parent: str) -> bool:
    """When in doubt, it does."""
    if child is None:
        return False
    parents = _parents(child)
    return parents is None or parent in parents
