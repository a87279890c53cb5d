"""Open failures of an error group: the executions that failed for good with the error and were not retried since.

A failed execution stays failed after its retry has completed, and the group goes on counting it. What is offered for a
retry, and what is still a problem, are the open failures only. They are found along the index of the group's label, the
newest first, and never further than `PAGES` pages: nothing here grows with the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from ...model.execution import ExecutionRow, State
from ...model.labels import error_label
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import Micros
from ..commands.trigger import latest_retries, parent_of
from ..ports import Store
from .records import OTHER

PAGE, PAGES, BUDGET = 100, 10, 1_000
"""Failed executions that are read at a time; how many such pages are read while all of them were retried; and how many
executions one page may look at."""
_FAILED, _COMPLETED = frozenset({State.FAILED}), frozenset({State.COMPLETED})


class OpenFailures(msgspec.Struct, frozen=True):
    """How many failures of a group are open, and how many were retried. Without `exact` there were too many to look at
    all of them, and the failures that were not looked at count as open. `last_retry` is the newest execution that
    retried one."""

    count: int
    retried: int = 0
    exact: bool = True
    last_retry: str | None = None


async def open_failures(store: Store, group: str, failures: int) -> OpenFailures:
    """For the group with this id, which has counted so many failures for good. The executions that `other` counts
    cannot be found by their error, so none of them can be retried."""
    if not failures or group == OTHER:
        return OpenFailures(0)
    retries: dict[str, str] = {}
    before, left = None, 0
    for _ in range(PAGES):
        rows, before = await _failed(store, group, before)
        known = await _retries(store, rows)
        retries |= known
        left += sum(row.error_group == group and row.id not in known for row in rows)
        if before is None or left:
            break
    last = max(retries.values(), default=None)
    if before is None:
        return OpenFailures(left, len(retries), last_retry=last)
    return OpenFailures(max(left, failures - len(retries)), len(retries), exact=False, last_retry=last)


async def _failed(store: Store, group: str, before: str | None) -> tuple[list[ExecutionRow], str | None]:
    """A page of executions that failed, and where the next one begins; None if there is no other."""
    query = ExecutionQuery(states=_FAILED, labels=(error_label(group),), before=before, limit=PAGE)
    found = await store.search(query, BUDGET)
    return found.rows, found.searched_to or (found.rows[-1].id if len(found.rows) == PAGE else None)


async def _retries(store: Store, rows: Sequence[ExecutionRow]) -> dict[str, str]:
    """Those that were retried, alone or with their parent, each with the newest execution that did so."""
    ids = {id for row in rows for id in (row.id, parent_of(row)) if id is not None}
    found = await latest_retries(store, sorted(ids))
    known = ((row.id, found.get(row.id) or found.get(parent_of(row) or "")) for row in rows)
    return {id: retry for id, retry in known if retry is not None}


async def completed_since(store: Store, jobs: Sequence[str], since: Micros) -> bool:
    """Whether each of these jobs that still exists has completed an execution after this time."""
    known = await store.jobs(list(jobs))
    queries = [ExecutionQuery(job_id=job.id, states=_COMPLETED, limit=1) for job in known]
    newest = await asyncio.gather(*map(store.find, queries))
    return all(rows and (rows[0].finished or 0) > since for rows in newest)
