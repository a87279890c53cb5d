"""Lists of executions: filtered, newest or oldest first, in pages.

Filters without an index are checked row by row, on at most `BUDGET` rows for one page. A page that ends early for this
reason says how far it came and where to continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ...model.errors import InvalidValue, nearest
from ...model.execution import ExecutionRow
from ...model.store.entries import Entry
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros, to_datetime
from ...model.values.ids import time_of_id
from ...model.values.reading import SYSTEM_JOBS, SYSTEM_PREFIX, whole, words
from ..deploys.records import ProcessRecord
from ..filters.executions import ExecutionFilter, bulk_execution_filter, execution_filter, execution_query
from ..ports import Store

MAX_PAGE = 1_000
MAX_OFFSET = 10_000
MAX_FILTER = 500
BUDGET = 10_000
"""How many executions a page checks if a filter has no index."""
COUNTED = 10_000
"""Counts are exact up to here; a higher one is "10000+"."""

LONGEST_RUNNING = 200
"""How many running executions are read to find those that have run longest."""

Total: TypeAlias = int | str


class ExecutionPage(msgspec.Struct, frozen=True):
    """`next` is where the next page begins, if there may be more: the `before` of a list that begins with the newest,
    the `after` of one that begins with the oldest. `searched_until` is set if the page ended early because it has
    checked as many executions as it may: it is the time of the last of them."""

    rows: list[ExecutionRow]
    next: str | None = None
    searched_until: datetime | None = None

    @property
    def complete(self) -> bool:
        return self.searched_until is None


class ExecutionLists:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def filter(self, given: Mapping[str, Any], *, system: bool = False) -> ExecutionFilter:
        """Check the given filter."""
        return execution_filter(given, await self._now(given), system=system)

    async def bulk_filter(self, given: Mapping[str, Any]) -> ExecutionFilter:
        """The same for a bulk action, which needs at least one field."""
        return bulk_execution_filter(given, await self._now(given))

    async def page(
        self,
        wanted: ExecutionFilter,
        *,
        limit: int = 50,
        offset: int = 0,
        cursor: str | None = None,
        oldest_first: bool = False,
    ) -> ExecutionPage:
        """One page, live and finished executions together."""
        whole("limit", limit, 1, MAX_PAGE)
        whole("offset", offset, 0, MAX_OFFSET)
        place = None if cursor is None else words("cursor" if oldest_first else "before", cursor, MAX_FILTER)
        query = await self.query(wanted)
        if query is None:
            return ExecutionPage([])
        paging = {"after": place} if oldest_first else {"before": place}
        query = replace(query, limit=limit, offset=offset, oldest_first=oldest_first, **paging)
        if not looks_at_rows(query):
            rows = await self._store.find(query)
            return ExecutionPage(rows, rows[-1].id if len(rows) == limit else None)
        found = await self._store.search(query, BUDGET)
        if found.searched_to is not None:
            return ExecutionPage(found.rows, found.searched_to, to_datetime(time_of_id(found.searched_to)))
        return ExecutionPage(found.rows, found.rows[-1].id if len(found.rows) == limit else None)

    async def longest_running(self, queue: str | None = None, limit: int = LONGEST_RUNNING) -> list[ExecutionRow]:
        """Executions that run, the longest first. Ids are ordered by time: those that were created first have usually
        run longest, so of very many only the oldest are read."""
        wanted = await self.filter({"status": "running", "queue": queue})
        rows = (await self.page(wanted, limit=limit, oldest_first=True)).rows
        return sorted(rows, key=lambda row: row.started or row.created)

    async def total(
        self, wanted: ExecutionFilter, page: ExecutionPage, *, offset: int = 0, cursor: str | None = None
    ) -> Total | None:
        """How many executions match, on this and all other pages; None if counting would take too long."""
        await asyncio.sleep(0)  # the memory store never yields by itself, and has just searched the page
        query = await self.query(wanted)
        if query is None:
            return 0
        if page.complete and cursor is None and page.next is None and (page.rows or not offset):
            return offset + len(page.rows)
        if not page.complete:
            return None
        return await self.counted(query)

    async def counted(self, query: ExecutionQuery, most: int | None = None) -> Total | None:
        """How many match, counted along an index or by checking up to `BUDGET` executions; None if there are more to
        check. With `most`, up to that many are counted, and also checked if each filter has an index of its own."""
        plain = replace(query, without_system=False)
        budget = BUDGET if most is None or plain.checks_rows else most
        most = COUNTED if most is None else most
        if looks_at_rows(plain):
            few = await self._store.count(_led(query), budget + 1) <= budget
            return total_of(await self._store.count(query, most + 1), most) if few else None
        if query.without_system:
            return await self._total_without_system(plain, most)
        return total_of(await self._store.count(query, most + 1), most)

    async def walked(self, query: ExecutionQuery, seconds: float) -> tuple[int, bool]:
        """How many match, up to `COUNTED`, counted page by page for about this many seconds; and whether that is all of
        them."""
        counted, place = 0, None
        clock = asyncio.get_running_loop().time
        end = clock() + seconds
        while True:
            found = await self._store.search(replace(query, before=place, limit=MAX_PAGE), BUDGET)
            counted += len(found.rows)
            place = found.searched_to or (found.rows[-1].id if len(found.rows) == MAX_PAGE else None)
            if place is None or counted > COUNTED or clock() >= end:
                return min(counted, COUNTED), place is None and counted <= COUNTED

    async def _total_without_system(self, query: ExecutionQuery, most: int) -> Total | None:
        """Subtracts the executions of Mainspring's own jobs from all that match. Both counts are along an index,
        without checking rows. Own jobs share no label with others: they have no search keys, and an error group names
        the code or the handler that failed. So of a label one execution is enough to judge them all."""
        if query.labels:
            newest = await self._store.find(replace(query, limit=1))
            if newest and newest[0].job.startswith(SYSTEM_PREFIX):
                return 0
            return total_of(await self._store.count(query, most + 1), most)
        own = 0
        for job in SYSTEM_JOBS:
            if await self._store.count(ExecutionQuery(job=job), 1):
                own += await self._store.count(replace(query, job=job), most + 1)
        if own > most:
            return None
        return total_of(await self._store.count(query, most + 1 + own) - own, most)

    async def query(self, wanted: ExecutionFilter) -> ExecutionQuery | None:
        """The query to the store for this filter; None if no execution can match."""
        workers = None if wanted.release is None else await self._workers_of(wanted.release)
        query = execution_query(wanted, workers)
        return None if query.workers == frozenset() or query.states == frozenset() else query

    async def _workers_of(self, release: str) -> frozenset[str]:
        """The ids of all workers of this release, including those that are gone."""
        releases = {worker.id: worker.release for worker in await self._store.workers() if worker.release}
        after = ""
        while page := await self._store.list_entries("process", "", after=after):
            releases |= {entry.key: _release(entry) for entry in page}
            after = page[-1].key
        found = frozenset(id for id, known in releases.items() if known == release)
        if not found:
            known = sorted({*releases.values()} - {""})
            guess = nearest(release, known)
            allowed = f"a release that has run here: {', '.join(known[-10:]) or 'none is known'}"
            raise InvalidValue("release", release, allowed, f"Did you mean {guess!r}?" if guess else "")
        return found

    async def _now(self, given: Mapping[str, Any]) -> Micros:
        return await self._store.now() if given.get("since") is not None or given.get("until") is not None else 0


def total_of(count: int, most: int = COUNTED) -> Total:
    return count if count <= most else f"{most}+"


def looks_at_rows(query: ExecutionQuery) -> bool:
    """Whether rows must be checked, because a filter has no index or several filters have different ones."""
    return _led(query) != replace(query, before=None, after=None, limit=0, offset=0, oldest_first=False)


def _led(query: ExecutionQuery) -> ExecutionQuery:
    """The query reduced to the filter whose index the store reads, and to the range of time, which is a range of ids.
    The executions of a job also have indexes by state and by trigger."""
    led = ExecutionQuery(created_from=query.created_from, created_to=query.created_to, limit=0)
    trigger = None if query.trigger == "enqueue" else query.trigger  # as nearly all are
    if query.labels:
        return replace(led, labels=tuple(sorted(query.labels, key=lambda label: label.startswith("!"))[:1]))
    if query.parent_id is not None:
        return replace(led, parent_id=query.parent_id)
    if query.trace_id is not None:
        return replace(led, trace_id=query.trace_id)
    if query.job is not None or query.job_id is not None:
        led = replace(led, job=query.job, job_id=query.job_id, states=query.states)
        return replace(led, trigger=trigger) if query.states is None else led
    if query.states is not None:
        return replace(led, states=query.states)
    return replace(led, tenant=query.tenant) if query.tenant is not None else replace(led, trigger=trigger)


def _release(entry: Entry) -> str:
    process = entry.read(ProcessRecord)
    return "" if process is None else process.release
