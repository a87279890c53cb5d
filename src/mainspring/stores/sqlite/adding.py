"""Adding executions. The unique indexes on the keys decide who gets a key; what they refuse is looked at again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...core.ports import Topic
from ...model.changes import Added, Audit
from ...model.execution import Execution
from ..shared import ended_delta, in_slot, overlap_choices, skipped_record
from .rows import Row, execution_row, history_row, is_plain, live_row, plain_row
from .transaction import Transaction, as_json

_names = msgspec.json.Decoder(list[str]).decode


def add(tx: Transaction, executions: Sequence[Execution], audits: Sequence[Audit] = ()) -> list[Added]:
    if not executions:
        return []
    batch = _Batch(tx, executions)
    added = [batch.add(execution) for execution in executions]
    batch.write()
    if any(item.outcome in ("added", "skipped") for item in added):
        tx.audit(*audits)
        tx.topics.add(Topic.WORK)
    return added


class _Batch:
    """Rows whose fate does not hang on a key are collected and written together at the end."""

    def __init__(self, tx: Transaction, executions: Sequence[Execution]) -> None:
        self._tx = tx
        self._known = set(_names(tx.value("known_ids", as_json([execution.id for execution in executions]))))
        self._executions: list[Row] = []
        self._plain: list[Row] = []

    def add(self, execution: Execution) -> Added:
        if execution.id in self._known:
            return Added(execution.id, "duplicate")
        if execution.state.final:
            self._record(execution)
        elif is_plain(execution):
            self._plain.append(plain_row(self._note(execution), execution, self._tx.now))
        else:
            return self._add_keyed(execution)
        return Added(execution.id, "added")

    def write(self) -> None:
        self._tx.bulk("execution_insert", self._executions)
        self._tx.bulk("live_insert_plain", self._plain)

    def _add_keyed(self, execution: Execution) -> Added:
        choices = overlap_choices(execution)
        for candidate in [in_slot(execution, key) for key in choices] or [execution]:
            if self._insert(candidate):
                return Added(execution.id, "added")
            holder = self._tx.value("unique_holder", execution.unique_key)
            if holder is not None:
                return Added(execution.id, "unique_taken", holder)
        self._record(skipped_record(execution))
        return Added(execution.id, "skipped", self._tx.value("overlap_holder", choices[0]))

    def _insert(self, execution: Execution) -> bool:
        """False when a unique index refused it."""
        seq = self._tx.next_seq()
        if self._tx.run("live_insert", *live_row(seq, execution, self._tx.now)) == 0:
            return False
        self._note(execution, seq)
        return True

    def _record(self, execution: Execution) -> None:
        self._tx.bulk("history_insert", [history_row(self._note(execution), execution)])
        self._tx.count(ended_delta(execution))
        self._tx.ended(execution.job_id)
        self._tx.topics.add(Topic.ENDED)

    def _note(self, execution: Execution, seq: int | None = None) -> int:
        """It exists from now on, under this `seq` and with the next number of its job."""
        seq = self._tx.next_seq() if seq is None else seq
        self._known.add(execution.id)
        self._executions.append(execution_row(seq, execution, self._tx.next_number(execution)))
        return seq
