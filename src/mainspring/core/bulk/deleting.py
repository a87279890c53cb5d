"""Deleting many executions that have ended: one read of their parents, and one step of the store that also writes all
audit records.

A page that is handled again does not find the executions that it deleted before. Their audit records, stored in the
same step, say that this bulk deleted them, and not retention or somebody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from ...model.bulk import BulkItemRow, BulkRow
from ...model.errors import CommandRefused, ExecutionNotFound, MainspringError
from ...model.execution import FINAL, ExecutionRow
from ...model.values.ids import Chance
from ..auditing import audit_record
from ..ports import Store
from . import records, rules

AT_ONCE = 10
"""Audit trails that are read concurrently."""

Read = Callable[[Sequence[str]], Awaitable[dict[str, ExecutionRow]]]


class Deleting:
    def __init__(self, store: Store, chance: Chance, read: Read) -> None:
        self._store, self._chance, self._read = store, chance, read

    async def delete(
        self, bulk: BulkRow, ids: Sequence[str], found: Mapping[str, ExecutionRow], known: rules.JobsOfPage
    ) -> list[BulkItemRow]:
        """Delete these executions and return what became of each. Those that are not in `found` are gone."""
        results: dict[str, BulkItemRow] = {}
        rows = [found[id] for id in ids if id in found]
        parents = await self.waiting_parents(rows)
        chosen: list[ExecutionRow] = []
        for row in rows:
            try:
                rules.may_steer_execution(bulk, row, known)
                check(row, parents)
                chosen.append(row)
            except MainspringError as error:
                results[row.id] = rules.refusal(row.id, error)
        now = await self._store.now()
        audits = [
            audit_record(self._chance, "delete", f"execution:{row.id}", bulk.created_by, now, before=_summary(row))
            for row in chosen
        ]
        deleted = await self._store.delete_executions([row.id for row in chosen], audits) if chosen else []
        results |= {row.id: _done(row.id) for row, gone in zip(chosen, deleted, strict=True) if gone}
        missing = [id for id in ids if id not in results]
        results |= await self._missed(bulk, missing) if missing else {}
        return [results[id] for id in ids]

    async def waiting_parents(self, rows: Sequence[ExecutionRow]) -> set[str]:
        """The ids of those parents that have not ended. A parent counts its tenants when it ends, so they must stay
        until then."""
        ids = {row.parent_id for row in rows if row.parent_id is not None and not row.from_backfill}
        found = await self._read(sorted(ids)) if ids else {}
        return {id for id, row in found.items() if not row.state.final}

    async def _missed(self, bulk: BulkRow, ids: Sequence[str]) -> dict[str, BulkItemRow]:
        """The results of executions that this step did not delete: they are gone, or their follow-ups are not done."""
        there = await self._read(ids)
        results = {id: rules.refusal(id, _not_yet(id)) for id in there}
        gone = [id for id in ids if id not in there]
        for start in range(0, len(gone), AT_ONCE):
            some = gone[start : start + AT_ONCE]
            own = await asyncio.gather(*(records.done_before(self._store, bulk, f"execution:{id}") for id in some))
            for id, deleted in zip(some, own, strict=True):
                results[id] = _done(id) if deleted else rules.refusal(id, ExecutionNotFound(id))
        return results


def check(row: ExecutionRow, waiting_parents: set[str]) -> None:
    if not row.state.final:
        raise CommandRefused("delete", row.state, sorted(FINAL), f"execution {row.id}")
    if row.todo:
        raise _not_yet(row.id)
    if row.parent_id in waiting_parents:
        raise CommandRefused("delete", "part of one that has not ended", ["its parent has"], f"execution {row.id}")


def _not_yet(id: str) -> CommandRefused:
    return CommandRefused(
        "delete", "still being followed up after its end", ["the follow-up is done"], f"execution {id}"
    )


def _done(id: str) -> BulkItemRow:
    return BulkItemRow(id=id, status="done", now="deleted")


def _summary(row: ExecutionRow) -> str:
    return msgspec.json.encode({"job": row.job, "state": row.state.value}).decode()
