"""Settle: apply each change if the row is still as the decision saw it. All reads first, then all writes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ...core.ports import Topic
from ...model.changes import Change
from ...model.execution import Execution, State
from ...model.job import JobStats
from ..shared import change_delta, ended_delta, fits, settled
from .claimed import ClaimedRows
from .rows import history_row, live_change
from .transaction import Transaction, as_json


def settle(tx: Transaction, changes: Sequence[Change], ours: ClaimedRows) -> tuple[bool, ...]:
    if not changes:
        return ()
    batch = _Batch(tx, _rows(tx, changes, ours))
    applied = tuple(batch.apply(change) for change in changes)
    batch.write()
    return applied


def _rows(tx: Transaction, changes: Sequence[Change], ours: ClaimedRows) -> list[tuple[int, Execution]]:
    """The live rows that are to change, with their `seq`; what we claimed ourselves is not read again."""
    known = ours.take(tx, changes)
    left = {change.id for change in changes} - {row.id for _, row in known}
    return [*known, *tx.numbered("live_rows_by_id", as_json(sorted(left)))] if left else known


class _Batch:
    """The rows of one batch of changes, as they are after each of them."""

    def __init__(self, tx: Transaction, found: Sequence[tuple[int, Execution]]) -> None:
        self._tx = tx
        self._rows = {row.id: row for _, row in found}
        self._seqs = {row.id: seq for seq, row in found}
        self._changed: dict[str, Execution] = {}
        self._ended: list[tuple[Execution, bool]] = []
        self._endings: dict[tuple[str, State], list[Execution]] = {}

    def apply(self, change: Change) -> bool:
        row = self._rows.get(change.id)
        if row is None or not fits(row, change, self._tx.now):
            return False
        after = settled(row, change, self._tx.now)
        self._tx.audit(change.audit)
        if change.rescue or change.to is State.SKIPPED:
            self._tx.count(change_delta(after, change))
        elif change.to.final:
            self._endings.setdefault((row.job_id, change.to), []).append(after)
        if change.to.final:
            self._tx.ended(row.job_id)
            del self._rows[change.id]
            self._changed.pop(change.id, None)
            self._ended.append((after, change.keep))
        else:
            self._rows[change.id] = self._changed[change.id] = after
        return True

    def write(self) -> None:
        for after in self._changed.values():
            self._tx.run("live_update", *live_change(self._seqs[after.id], after, self._tx.now))
        if self._changed:
            self._tx.topics.add(Topic.WORK)
        for rows in self._endings.values():
            self._tx.count(endings_delta(rows))
        if self._ended:
            self._move()
            self._free_keys()
            self._tx.topics.add(Topic.ENDED)

    def _move(self) -> None:
        seqs = self._seqs
        kept = [history_row(seqs[after.id], after, keep) for after, keep in self._ended if keep or after.todo]
        gone = [after.id for after, keep in self._ended if not keep and not after.todo]
        self._tx.run("live_delete", as_json([seqs[after.id] for after, _ in self._ended]))
        self._tx.bulk("history_insert", kept)
        if gone:
            self._tx.run("executions_delete", as_json([seqs[id] for id in gone]))
            self._tx.run("log_delete", as_json(gone))

    def _free_keys(self) -> None:
        """Rows that a claim deferred because of a key that is free now are ready at once."""
        unique = [after.unique_key for after, _ in self._ended if after.unique_key is not None]
        overlap = [after.overlap_key for after, _ in self._ended if after.overlap_key is not None]
        freed = 0
        if unique:
            freed += self._tx.run("unblock_unique", self._tx.now, as_json(unique))
        if overlap:
            freed += self._tx.run("unblock_overlap", self._tx.now, as_json(overlap))
        if freed:
            self._tx.topics.add(Topic.WORK)


def endings_delta(rows: Sequence[Execution]) -> JobStats:
    """What executions of one job that ended in one state add to its statistics: as one by one, in one go."""
    newest = max(rows, key=lambda row: row.id)
    durations = [row.finished - row.started for row in rows if row.finished is not None and row.started is not None]
    counted = {newest.state.value: len(rows)}
    return replace(ended_delta(newest), **counted, duration_ms=sum(durations) / 1000, timed=len(durations))
