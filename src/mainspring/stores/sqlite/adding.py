"""Adding executions. The unique indexes on the keys decide who gets a key; what they refuse is looked at again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...core.ports import Topic
from ...model.changes import Added, Audit
from ...model.execution import Execution
from ..shared import ended_delta, in_slot, overlap_choices, skipped_record
from .rows import Row, history_row, is_plain, live_row, plain_row
from .transaction import Transaction, as_json


def add(tx: Transaction, executions: Sequence[Execution], audits: Sequence[Audit] = ()) -> list[Added]:
    if not executions:
        return []
    known = set(msgspec.json.decode(tx.value("known_ids", as_json([execution.id for execution in executions]))))
    plain: list[Row] = []
    added = [_add(tx, execution, known, plain) for execution in executions]
    tx.bulk("live_insert_plain", plain)
    if any(item.outcome in ("added", "skipped") for item in added):
        tx.audit(*audits)
        tx.topics.add(Topic.WORK)
    return added


def _add(tx: Transaction, execution: Execution, known: set[str], plain: list[Row]) -> Added:
    """Plain rows are only collected: nothing that other rows of the batch need depends on them."""
    if execution.id in known:
        return Added(execution.id, "duplicate")
    if execution.state.final:
        known.add(execution.id)
        _record(tx, execution)
        return Added(execution.id, "added")
    if is_plain(execution):
        known.add(execution.id)
        plain.append(plain_row(execution, tx.use_number(execution), tx.now))
        return Added(execution.id, "added")
    added = _add_keyed(tx, execution)
    if added.outcome != "unique_taken":
        known.add(execution.id)
    return added


def _add_keyed(tx: Transaction, execution: Execution) -> Added:
    choices = overlap_choices(execution)
    for candidate in [in_slot(execution, key) for key in choices] or [execution]:
        if _insert(tx, candidate):
            return Added(execution.id, "added")
        holder = tx.value("unique_holder", execution.unique_key)
        if holder is not None:
            return Added(execution.id, "unique_taken", holder)
    _record(tx, skipped_record(execution))
    return Added(execution.id, "skipped", tx.value("overlap_holder", choices[0]))


def _insert(tx: Transaction, execution: Execution) -> bool:
    """False when a unique index refused it."""
    inserted = tx.run("live_insert", *live_row(execution, tx.next_number(execution), tx.now)) == 1
    if inserted:
        tx.use_number(execution)
    return inserted


def _record(tx: Transaction, execution: Execution) -> None:
    tx.run("history_insert", *history_row(execution, tx.use_number(execution)))
    tx.count(ended_delta(execution))
    tx.topics.add(Topic.ENDED)
