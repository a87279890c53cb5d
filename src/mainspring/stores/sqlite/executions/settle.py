"""Settle: apply each change if the row is still as the decision saw it."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.ports import Topic
from ....model.execution import ExecutionRow, State
from ....model.store.entries import failure_entry
from ....model.store.messages import Change
from ...common.rows import WAITERS_AT_ONCE, change_delta, fits, freed_keys, settled
from ..limits.limits import leave_slots, recheck_soon
from ..transaction import Transaction, as_json
from .rows import Row, history_row, label_rows, live_change
from .usual_endings import ClaimedRows, move


def settle(tx: Transaction, changes: Sequence[Change], ours: ClaimedRows) -> tuple[bool, ...]:
    """Move the usual endings inside the database; read the rows of all other changes and apply those one by one."""
    if not changes:
        return ()
    moved = move(tx, ours.take(changes))
    free_keys(tx, [row for _, row, _ in moved])
    left_slots = [(seq, row.limits) for seq, row, _ in moved if row.limits is not None]
    if len(moved) == len(changes):
        leave_slots(tx, left_slots)
        return (True,) * len(changes)
    done = {change.id for _, _, change in moved}
    left = [change for change in changes if change.id not in done]
    batch = _SettleBatch(tx, tx.numbered("live_rows_by_id", as_json(sorted({change.id for change in left}))))
    rest = iter([batch.apply(change) for change in left])
    batch.write()
    leave_slots(tx, left_slots + batch.left_slots)
    return tuple(change.id in done or next(rest) for change in changes)


class _SettleBatch:
    """The rows of one batch of changes, kept up to date change by change, then written."""

    def __init__(self, tx: Transaction, found: Sequence[tuple[int, ExecutionRow]]) -> None:
        self._tx = tx
        self._rows = {row.id: row for _, row in found}
        self._seqs = {row.id: seq for seq, row in found}
        self._changed: dict[str, ExecutionRow] = {}
        self._ended: list[tuple[ExecutionRow, bool]] = []
        self._waited: list[int] = []
        self._notes: list[Row] = []
        self._labels: list[Row] = []
        self.left_slots: list[tuple[int, str]] = []

    def apply(self, change: Change) -> bool:
        row = self._rows.get(change.id)
        if row is None or not fits(row, change, self._tx.now):
            return False
        after = settled(row, change, self._tx.now)
        if row.state is State.RUNNING and row.limits is not None:
            self.left_slots.append((self._seqs[row.id], row.limits))
        if row.state is State.PENDING and row.limits is not None:
            self._waited.append(self._seqs[row.id])
        if change.limits is not None and after.limits != row.limits:
            self._tx.run("limits_change", self._seqs[row.id], after.limits)
        self._tx.audit(change.audit)
        if (note := failure_entry(change)) is not None:
            self._notes.append((note.key, note.body))
        if change.labels:
            self._labels += label_rows(change.id, change.labels)
        self._tx.count(change_delta(after, change))
        if change.to.final:
            self._tx.ended(row.job_id)
            del self._rows[change.id]
            self._changed.pop(change.id, None)
            self._ended.append((after, change.keep))
        else:
            self._rows[change.id] = self._changed[change.id] = after
        return True

    def write(self) -> None:
        if self._waited:
            recheck_soon(self._tx, self._waited)
        self._tx.bulk("failure_insert", self._notes)
        self._tx.bulk("label_insert", self._labels)
        for after in self._changed.values():
            self._tx.run("live_update", *live_change(self._seqs[after.id], after, self._tx.now))
        if self._changed:
            self._tx.topics.add(Topic.WORK)
        if self._ended:
            self._move()
            free_keys(self._tx, [after for after, _ in self._ended])
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


def free_keys(tx: Transaction, ended: Sequence[ExecutionRow]) -> None:
    """Make rows ready that a claim deferred because of these rows' keys: the first of each lane."""
    first: set[int] = set()
    for kind, keys in zip(("unique", "overlap"), freed_keys(ended, tx.now), strict=True):
        for (key,) in tx.rows(f"waited_{kind}", as_json(keys)) if keys else ():
            waiters = tx.rows(f"waiters_{kind}", tx.now, key, WAITERS_AT_ONCE)
            first.update({lane: seq for seq, lane in reversed(waiters)}.values())
    if first:
        tx.run("unblock", tx.now, as_json(sorted(first)))
        tx.topics.add(Topic.WORK)
