"""Insert executions. The unique indexes decide which row gets a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import msgspec

from ....core.ports import Topic
from ....model.execution import ExecutionRow, State
from ....model.store.messages import Added, Audit
from ...common.rows import ended_delta, in_slot, overlap_choices, recorded, skipped_record
from ..limits.limits import hold_slots
from ..limits.waiting_order import Untagged, next_tags
from ..transaction import Transaction, as_json
from .rows import Row, execution_row, history_row, is_untouched, label_rows, lane_of, live_row, plain_row, shared_row

NO_TAGS: Mapping[int, int] = {}

_names = msgspec.json.Decoder(list[str]).decode


class InsertCall:
    """One call of the store's `add`. The writer runs consecutive calls together."""

    def __init__(self, executions: Sequence[ExecutionRow], audits: Sequence[Audit] = ()) -> None:
        self.executions = executions
        self.audits = audits

    def __call__(self, tx: Transaction) -> list[Added]:
        [added] = add_all(tx, [self])
        return added


def add_all(tx: Transaction, calls: Sequence[InsertCall]) -> list[list[Added]]:
    """The same result as one call after the other, with shared statements."""
    results = iter(add(tx, [execution for call in calls for execution in call.executions]))
    return [_audited(tx, call, list(islice(results, len(call.executions)))) for call in calls]


def _audited(tx: Transaction, call: InsertCall, added: list[Added]) -> list[Added]:
    tx.audit(*recorded(call.audits, added))
    return added


def add(tx: Transaction, executions: Sequence[ExecutionRow]) -> list[Added]:
    if not executions:
        return []
    batch = _InsertBatch(tx, executions)
    added = [batch.add(execution) for execution in executions]
    batch.finish()
    if any(item.recorded for item in added):
        tx.topics.add(Topic.WORK)
    return added


class _InsertBatch:
    """New rows whose keys, if any, are free are collected and written together; all others one by one."""

    def __init__(self, tx: Transaction, executions: Sequence[ExecutionRow]) -> None:
        self._tx = tx
        self._known = _known(tx, executions)
        self._held = _held(tx, executions)
        self._executions: list[Row] = []
        self._labels: list[Row] = []
        self._plain: list[Row] = []
        self._shared: list[tuple[int, ExecutionRow]] = []
        self._untagged: list[Untagged] = []

    def add(self, execution: ExecutionRow) -> Added:
        if execution.id in self._known:
            return Added(execution.id, "duplicate")
        if execution.state.final:
            self._record(execution)
        elif is_untouched(execution) and self._takes_free_keys(execution):
            if execution.share is None:
                self._plain.append(plain_row(self._number(execution), execution, self._tx.now))
            else:
                self._collect_shared(execution)
        else:
            self.write()
            return self._add_keyed(execution)
        return Added(execution.id, "added")

    def finish(self) -> None:
        """Rows with a share get their tags when the whole batch is known; most are written with their tag."""
        tags = next_tags(self._tx, self._untagged) if self._untagged else {}
        at_hand = {seq for seq, _ in self._shared}
        later = [(seq, tag) for seq, tag in tags.items() if seq not in at_hand]
        self.write(tags)
        if later:
            self._tx.run("tag_rows", as_json(later))

    def write(self, tags: Mapping[int, int] = NO_TAGS) -> None:
        self._tx.bulk("execution_insert", self._executions)
        if self._labels:
            self._tx.bulk("label_insert", self._labels)
            self._labels = []
        self._tx.bulk("live_insert_plain", self._plain)
        self._tx.bulk("live_insert_shared", [shared_row(seq, row, tags.get(seq)) for seq, row in self._shared])
        self._executions, self._plain, self._shared = [], [], []

    def _collect_shared(self, execution: ExecutionRow) -> None:
        seq = self._number(execution)
        self._shared.append((seq, execution))
        self._needs_tag(seq, execution)

    def _needs_tag(self, seq: int, execution: ExecutionRow) -> None:
        if execution.state is State.PENDING and execution.due <= self._tx.now:
            place = (lane_of(execution), execution.priority, execution.share or "", execution.weight)
            self._untagged.append((seq, *place, execution.id))

    def _takes_free_keys(self, execution: ExecutionRow) -> bool:
        """False when a key was held before, or taken by another row of this batch."""
        keys = _keys(execution)
        if not self._held.isdisjoint(keys):
            return False
        self._held.update(keys)
        return True

    def _add_keyed(self, execution: ExecutionRow) -> Added:
        choices = overlap_choices(execution)
        for candidate in [in_slot(execution, key) for key in choices] or [execution]:
            if self._insert(candidate):
                self._held.update(_keys(candidate))
                return Added(execution.id, "added")
            holder = self._tx.value("unique_holder", execution.unique_key)
            if holder is not None:
                return Added(execution.id, "unique_taken", holder)
        self._record(skipped_record(execution))
        return Added(execution.id, "skipped", self._tx.value("overlap_holder", choices[0]))

    def _insert(self, execution: ExecutionRow) -> bool:
        """False when a unique index refused it."""
        seq = self._tx.next_seq()
        if self._tx.run("live_insert", *live_row(seq, execution, self._tx.now)) == 0:
            return False
        self._number(execution, seq)
        if execution.share is not None:
            self._needs_tag(seq, execution)
        if execution.state is State.RUNNING:
            hold_slots(self._tx, seq, execution)
        return True

    def _record(self, execution: ExecutionRow) -> None:
        self._tx.bulk("history_insert", [history_row(self._number(execution), execution)])
        self._tx.count(ended_delta(execution))
        self._tx.ended(execution.job_id)
        self._tx.topics.add(Topic.ENDED)

    def _number(self, execution: ExecutionRow, seq: int | None = None) -> int:
        """Give the execution its `seq` and the next number of its job."""
        seq = self._tx.next_seq() if seq is None else seq
        self._known.add(execution.id)
        self._executions.append(execution_row(seq, execution, self._tx.next_number(execution)))
        if execution.labels:
            self._labels += label_rows(execution.id, execution.labels)
        return seq


def _known(tx: Transaction, executions: Sequence[ExecutionRow]) -> set[str]:
    """Ids that exist already."""
    if len(executions) == 1:
        return {id for (id,) in tx.rows("known_id", executions[0].id)}
    return set(_names(tx.value("known_ids", as_json([execution.id for execution in executions]))))


def _keys(execution: ExecutionRow) -> list[tuple[str, str]]:
    if execution.unique_key is None and execution.overlap_key is None:
        return []
    keys = (("unique", execution.unique_key), ("overlap", execution.overlap_key))
    return [(kind, key) for kind, key in keys if key is not None]


def _held(tx: Transaction, executions: Sequence[ExecutionRow]) -> set[tuple[str, str]]:
    """The keys of these executions that other rows hold."""
    held: set[tuple[str, str]] = set()
    if unique := [execution.unique_key for execution in executions if execution.unique_key is not None]:
        held |= {("unique", key) for key in _names(tx.value("held_unique", as_json(unique)))}
    if overlap := [execution.overlap_key for execution in executions if execution.overlap_key is not None]:
        held |= {("overlap", key) for key in _names(tx.value("held_overlap", as_json(overlap)))}
    return held
