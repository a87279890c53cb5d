"""Driving bulk actions: choose the items of a page, handle them, count them, go on with the next page.

Any number of processes may drive one bulk concurrently, and each may die between any two calls to the store:

- A page is written with the ids of its items before any of them is touched, and only if there is none under its number
  yet (`seen_version=0`). A later driver handles the same items, whatever the filter would find by then: an execution
  that was cancelled a moment ago no longer matches `pending`.
- Every action can be repeated on the items of a page, and recognises what this bulk has done before (`actions`). So a
  page whose driver died is handled again, and nothing is done twice. What no longer exists is recognised by its audit
  record, which was stored in the same step: it says whether this bulk removed it, or retention or somebody else did.
  For deleted executions the driver always reads it, even if the page does not seem to be repeated, so that a process
  which is overtaken in the middle of its page writes the same results as the one that overtook it.
- The results of the items are written to the page by compare-and-set: the first result stays. The counts of that page
  are added to the record by compare-and-set too. So each page is counted once, and after any crash `done`, `refused`
  and `skipped` are the sums over all pages below `page`.
- An abort is a state of the record. A driver that reads it completes the page that may be under way, or writes an empty
  page in its place, so that a process with a stale record finds that page and changes nothing. Then the bulk is over.
- A process that was suspended in the middle of a page might continue long after others have finished it. So it handles
  a page only within a few seconds of reading it (`PATIENCE`).

`BulkRow.driver` only saves work: a process leaves a bulk alone that another process advanced a moment ago.
"""

from __future__ import annotations

import asyncio

import msgspec

from ...model.bulk import BulkItemRow, BulkPage, BulkRow
from ...model.errors import StoreError
from ...model.events import BulkEnded
from ...model.execution import ExecutionRow
from ...model.store.messages import Audit
from ...model.time.instants import Micros
from ...model.values.ids import Chance, random_id
from ..auditing import audit_record
from ..commands.trigger import parent_of
from ..filters.executions import is_wanted
from ..filters.jobs import bulk_job_filter
from ..loops import Emit, Loop, stop_all, trouble
from ..ports import Store
from ..queries.job_lists import JobLists
from . import records, rules
from .actions import Actions

IDLE = 2.0
"""Seconds between checks for open bulks. A check costs one read while there is none."""
POLL = 0.5
FAILED_PAUSE = 10.0
STEPS_AT_ONCE = 20
"""How many pages of one bulk are handled before the others get their turn."""
BUDGET = 5_000
"""How many executions one search for a page checks."""
MOST_SEARCHES = 20
"""How many searches one page takes at most. After that an empty page records how far they came."""
PATIENCE = 2.0
"""A page that was read longer ago than this is not handled. These seconds are fewer than `rules.TAKEOVER`."""
PRUNE_EVERY = 1_800


class BulkDriver:
    def __init__(self, store: Store, actions: Actions, job_lists: JobLists, chance: Chance, emit: Emit) -> None:
        self._store, self._actions, self._job_lists = store, actions, job_lists
        self._chance, self._emit = chance, emit
        self._loop = Loop("bulk", self.step, emit)
        self._driven: set[str] = set()
        self._checks = 0
        self._name = ""

    def start(self) -> None:
        self._loop = Loop("bulk", self.step, self._emit)
        self._loop.start()

    def wake(self) -> None:
        self._loop.wake()

    async def stop(self, timeout: float) -> None:
        await stop_all([self._loop], timeout)

    async def step(self) -> float:
        """Drive each open bulk as far as possible now. Returns the seconds until the next check."""
        delays = [await self._tried(entry.key) for entry in await self._store.list_entries("bulk", records.OPEN)]
        self._checks += 1
        if self._checks % PRUNE_EVERY == 0:
            await records.prune_closed(self._store, await self._store.now())
        return min((delay for delay in delays if delay is not None), default=IDLE)

    async def _tried(self, id: str) -> float | None:
        """A bulk that fails does not block the others."""
        try:
            return await self.drive(id)
        except StoreError:
            raise
        except Exception as error:
            self._emit(trouble(f"bulk {id}", error))
            return FAILED_PAUSE

    async def drive(self, id: str) -> float | None:
        """Handle some pages. Returns the seconds until the next check; None once it is over."""
        if id in self._driven:  # by another task of this process
            return POLL
        self._driven.add(id)
        try:
            for _ in range(STEPS_AT_ONCE):
                found = await records.open_record(self._store, id)
                delay = None if found is None else await self._step(*found)
                if delay is None or delay > 0:
                    return delay
                await asyncio.sleep(0)
            return 0.0
        finally:
            self._driven.discard(id)

    async def _step(self, bulk: BulkRow, version: int) -> float | None:
        """One page at most. Returns 0 for "again at once"."""
        now = await self._store.now()
        self._name = self._name or random_id(now, self._chance)
        if bulk.over:
            await records.close_record(self._store, bulk)
            return None
        if bulk.state != "aborting":
            if rules.is_driven_elsewhere(bulk, self._name, now):
                return IDLE
            if bulk.state == "probing" and not rules.probes_more(bulk):
                return await self._judge_probe(bulk, version, now)
            if (pause := rules.paused_for(bulk, now)) > 0:
                return pause
        page = await self._handled(bulk)
        if page is None:
            return POLL
        after = rules.advanced(bulk, page, self._name, await self._store.now())
        return await self._advance(bulk, after, version)

    async def _advance(self, bulk: BulkRow, after: BulkRow, version: int) -> float:
        audit = self._end_audit(after) if after.over else None
        if await records.write_record(self._store, after, version, audit) and after.over:
            self._emit(BulkEnded(after))
        return 0.0

    def _end_audit(self, bulk: BulkRow) -> Audit:
        counts = {"state": bulk.state, "done": bulk.done, "refused": bulk.refused, "skipped": bulk.skipped}
        after = msgspec.json.encode({**counts, **({"reason": bulk.reason} if bulk.reason else {})}).decode()
        return audit_record(self._chance, "bulk_end", f"bulk:{bulk.id}", "system", bulk.finished or 0, after=after)

    async def _judge_probe(self, bulk: BulkRow, version: int, now: Micros) -> float:
        found = await self._actions.read(bulk.probed)
        after = rules.after_probe(bulk, [(id, found.get(id)) for id in bulk.probed], now)
        return POLL if after == bulk else await self._advance(bulk, after, version)

    # --- a page -------------------------------------------------------------------------------------------
    async def _handled(self, bulk: BulkRow) -> BulkPage | None:
        """The present page with the results of its items. None if reading it took so long that another process may be
        handling it."""
        rows: dict[str, ExecutionRow] = {}
        clock, repeated = asyncio.get_running_loop().time, True
        read_at = clock()
        found = await records.page(self._store, bulk.id, bulk.page)
        if found is None:
            chosen, rows = (BulkPage(), {}) if bulk.state == "aborting" else await self._choose(bulk)
            repeated = not await records.write_page(self._store, bulk.id, bulk.page, chosen, 0)
            found = await records.page(self._store, bulk.id, bulk.page) if repeated else (chosen, 1)
        if found is None or found[0].settled:
            return None if found is None else found[0]
        page, version = found
        results = {item.id: item for item in page.items if item.status != "planned"}
        planned = [item.id for item in page.items if item.status == "planned"]
        if planned:
            if clock() - read_at > PATIENCE:
                return None
            own = {} if repeated else rows
            results |= {item.id: item for item in await self._actions.handle(bulk, planned, own, repeated)}
        settled = BulkPage(tuple(results[item.id] for item in page.items), page.next, True)
        if await records.write_page(self._store, bulk.id, bulk.page, settled, version):
            return settled
        written = await records.page(self._store, bulk.id, bulk.page)
        return None if written is None or not written[0].settled else written[0]

    async def _choose(self, bulk: BulkRow) -> tuple[BulkPage, dict[str, ExecutionRow]]:
        if bulk.ids:
            start = int(bulk.cursor or 0)
            end = start + rules.page_size(bulk)
            items = tuple(BulkItemRow(id=id) for id in bulk.ids[start:end])
            return BulkPage(items, str(end) if end < len(bulk.ids) else None), {}
        if bulk.target == "jobs":
            return await self._choose_jobs(bulk), {}
        return await self._choose_executions(bulk)

    async def _choose_jobs(self, bulk: BulkRow) -> BulkPage:
        """By name. Jobs that were created since the bulk began are left out."""
        limit = rules.page_size(bulk)
        names = await self._job_lists.names(bulk_job_filter(bulk.filter), limit, bulk.cursor or "")
        jobs = await self._store.jobs(names) if names else []
        items = [BulkItemRow(id=job.name) for job in jobs if job.created <= bulk.created]
        return BulkPage(tuple(items), names[-1] if len(names) == limit else None)

    async def _choose_executions(self, bulk: BulkRow) -> tuple[BulkPage, dict[str, ExecutionRow]]:
        """Executions newest first, and only those that existed when the bulk began. If the filter finds a parent and
        its tenants, only the parent is retried, which runs all of them."""
        query, limit = bulk.query, rules.page_size(bulk)
        if query is None or query.states == frozenset():
            return BulkPage(), {}
        cursor = bulk.cursor
        for _ in range(MOST_SEARCHES):
            asked = msgspec.structs.replace(query, limit=limit, before=cursor)
            found = await self._store.search(asked, BUDGET)
            rows = [row for row in found.rows if not rules.is_own(bulk, row)]
            full = len(found.rows) == limit
            cursor = found.rows[-1].id if full else found.searched_to
            if rows or cursor is None:
                break
        else:
            rows = []
        standing = await self._standing_parents(bulk, rows)
        items = [rules.with_parent(row.id) if row.parent_id in standing else BulkItemRow(row.id) for row in rows]
        return BulkPage(tuple(items), cursor), {row.id: row for row in rows}

    async def _standing_parents(self, bulk: BulkRow, rows: list[ExecutionRow]) -> set[str]:
        """The ids of those parents that the same filter finds, on this page or another one, and that were not retried
        before."""
        if bulk.action not in rules.MAKES_EXECUTIONS or bulk.query is None:
            return set()
        parents = {parent for row in rows if (parent := parent_of(row)) is not None}
        if not parents:
            return set()
        found, now = await self._actions.read(sorted(parents)), await self._store.now()
        wanted = {id for id, row in found.items() if is_wanted(row, bulk.query, now)}
        left_out = await self._actions.retrying.left_out(bulk, [found[id] for id in sorted(wanted)])
        return wanted - left_out.keys()
