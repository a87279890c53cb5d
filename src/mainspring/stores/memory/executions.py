"""Executions, live and finished: how they come in, how a change moves them, how they are read and forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec.structs import replace

from ...model.execution import ExecutionRow, State
from ...model.store.copy_records import ExecutionRecord
from ...model.store.messages import Added, CancelRequest, Change, ExecutionQuery, ProgressReport
from ...model.time.instants import Micros
from ..common.rows import change_delta, ended_delta, fits, in_slot, lease_over, overlap_choices, settled, skipped_record
from .history import Catalogue, History, LogBook
from .live import LiveTable
from .statistics import Statistics


class ExecutionTable:
    def __init__(self, statistics: Statistics) -> None:
        self.live = LiveTable()
        self.history = History()
        self.logs = LogBook()
        self._catalogue = Catalogue()
        self._statistics = statistics

    # --- adding -------------------------------------------------------------------------------------------------

    def add(self, execution: ExecutionRow) -> Added:
        if execution.id in self.live or execution.id in self.history:
            return Added(execution.id, "duplicate")
        if execution.state.final:
            self._record(execution)
            return Added(execution.id, "added")
        holder = self.live.unique_holder(execution.unique_key)
        if holder is not None:
            return Added(execution.id, "unique_taken", holder)
        return self._add_in_free_slot(execution)

    def _add_in_free_slot(self, execution: ExecutionRow) -> Added:
        choices = overlap_choices(execution)
        free = next((key for key in choices if self.live.overlap_holder(key) is None), None)
        if choices and free is None:
            self._record(skipped_record(execution))
            return Added(execution.id, "skipped", self.live.overlap_holder(choices[0]))
        self.live.put(self._new(execution if free is None else in_slot(execution, free)))
        return Added(execution.id, "added")

    def _record(self, execution: ExecutionRow) -> None:
        row = self._new(execution)
        self.history.add(row)
        self._statistics.note(ended_delta(row))

    def _new(self, execution: ExecutionRow) -> ExecutionRow:
        self._catalogue.add(execution)
        return replace(execution, number=self._statistics.next_number(execution), parked=None)

    # --- changing -----------------------------------------------------------------------------------------------

    def settle(self, change: Change, now: Micros) -> bool:
        row = self.live.get(change.id)
        if row is None or not fits(row, change, now):
            return False
        after = settled(row, change, now)
        self._statistics.note(change_delta(after, change))
        self.live.limits.changed(row, ran=row.state is State.RUNNING)
        if change.to.final:
            self.live.take(row.id)
            self.live.free(row, now)
            self._finish(after, change.keep)
        else:
            self.live.put(after)
        return True

    def _finish(self, row: ExecutionRow, keep: bool) -> None:
        self.history.add(row, keep=keep)
        if not keep and not row.todo:
            self.forget([row.id])

    def renew(self, id: str, token: int, owner: str, until: Micros) -> bool:
        row = self._held(id, token, owner)
        if row is not None:
            self.live.put(replace(row, lease=until))
        return row is not None

    def report(self, report: ProgressReport) -> bool:
        row = self._held(report.id, report.token, report.owner)
        if row is None:
            return False
        progress = row.progress_json if report.progress_json is None else report.progress_json
        counters = row.counters_json if report.counters_json is None else report.counters_json
        self.live.put(replace(row, progress_json=progress, counters_json=counters))
        self.logs.append(report.id, report.logs)
        return True

    def ask_to_stop(self, request: CancelRequest) -> bool:
        row = self.live.get(request.id)
        if row is None or row.state is not State.RUNNING or row.token != request.token:
            return False
        if row.cancel_requested is None:
            self.live.put(replace(row, cancel_requested=request.at, cancel_reason=request.reason))
        return True

    def _held(self, id: str, token: int, owner: str) -> ExecutionRow | None:
        """The row, if it runs under this owner and token."""
        row = self.live.get(id)
        held = row is not None and (row.state, row.token, row.owner) == (State.RUNNING, token, owner)
        return row if held else None

    # --- reading ------------------------------------------------------------------------------------------------

    def get(self, id: str) -> ExecutionRow | None:
        return self.live.get(id) or self.history.get(id)

    def matching(self, query: ExecutionQuery) -> Iterator[ExecutionRow]:
        ids = self._catalogue.between(query.after, query.before, backwards=not query.oldest_first)
        return (row for row in self._rows(ids) if matches(query, row))

    def children(self, parent_id: str) -> dict[State, int]:
        return dict(Counter(row.state for row in self._rows(self._catalogue.children(parent_id))))

    def expired(self, now: Micros) -> list[ExecutionRow]:
        over = (row for row in self.live.running() if lease_over(row, now))
        return sorted(over, key=lambda row: (row.lease, row.id))

    def cancels(self, owner: str) -> dict[str, str]:
        asked = (row for row in self.live.running() if row.owner == owner and row.cancel_requested is not None)
        return {row.id: row.cancel_reason or "" for row in asked}

    def unserved_cancels(self) -> list[ExecutionRow]:
        strays = (r for r in self.live if r.cancel_requested is not None and r.state is not State.RUNNING)
        return sorted(strays, key=lambda row: row.id)

    def _rows(self, ids: Iterable[str]) -> Iterator[ExecutionRow]:
        return (row for row in map(self.get, ids) if row is not None)

    # --- moving house -------------------------------------------------------------------------------------------

    def records(self, after: str, limit: int) -> Iterator[ExecutionRecord]:
        for row in self._rows(islice(self._catalogue.after(after), limit)):
            logs = tuple(self.logs.after(row.id, 0))
            yield ExecutionRecord(execution=row, keep=self.history.keeps(row.id), logs=logs)

    def restore(self, record: ExecutionRecord) -> None:
        """As it was elsewhere; one that has no number yet gets the next one."""
        self._catalogue.add(record.execution)
        number = record.execution.number or self._statistics.next_number(record.execution)
        row = replace(record.execution, number=number, parked=None)
        if row.state.final:
            self.history.add(row, keep=record.keep)
        else:
            self.live.put(row)
        self.logs.restore(row.id, record.logs)

    # --- forgetting ---------------------------------------------------------------------------------------------

    def todo_done(self, ids: Iterable[str]) -> None:
        self.forget([id for id in ids if self.history.clear_todo(id)])

    def forget(self, ids: Iterable[str]) -> None:
        """Delete finished rows and all that hangs on them."""
        for id in ids:
            self._catalogue.remove(self.history.remove(id))
            self.logs.remove(id)


def matches(query: ExecutionQuery, row: ExecutionRow) -> bool:
    """Everything but the cursor and the paging."""
    wanted = (
        (query.job, row.job),
        (query.job_id, row.job_id),
        (query.trigger, row.trigger),
        (query.tenant, row.tenant),
        (query.trace_id, row.trace_id),
        (query.parent_id, row.parent_id),
    )
    return (
        all(value is None or value == actual for value, actual in wanted)
        and (query.states is None or row.state in query.states)
        and (query.created_from is None or row.created >= query.created_from)
        and (query.created_to is None or row.created < query.created_to)
    )
