"""Executions, live and finished: adding, changing, reading, deleting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from ...core.ports import Clock
from ...model.execution import ExecutionRow, State
from ...model.job import LiveCounts
from ...model.store.copy_records import ExecutionRecord
from ...model.store.entries import EntryWrite, failure_entry
from ...model.store.messages import (
    Added,
    Audit,
    CancelRequest,
    Change,
    ExecutionQuery,
    ExecutionsFound,
    HeartbeatRequest,
    HeldKey,
    KeyKind,
    LaneCounts,
    LogLine,
    ProgressReport,
    PruneRule,
    RunSummary,
    TenantCounts,
)
from ...model.time.instants import Micros, seconds_to_micros
from ...model.values.reading import SYSTEM_PREFIX
from ..common.ids import id_range
from ..common.rows import (
    busiest,
    change_delta,
    ended_delta,
    fits,
    in_slot,
    joined_labels,
    lease_over,
    overlap_choices,
    settled,
    skipped_record,
)
from .history import History, IdIndex, LogBook
from .live import LiveTable
from .small_tables import AuditTable, EntryTable
from .statistics import Statistics


class ExecutionTable:
    def __init__(self, clock: Clock, statistics: Statistics, audits: AuditTable, entries: EntryTable) -> None:
        self._clock, self._statistics, self._audits, self._entries = clock, statistics, audits, entries
        self.live = LiveTable()
        self.history = History()
        self._logs = LogBook()
        self._ids = IdIndex()

    # --- adding -------------------------------------------------------------------------------------------------

    def add(self, executions: Sequence[ExecutionRow]) -> list[Added]:
        added = [self._add(execution) for execution in executions]
        self.live.share_out([item.id for item in added if item.outcome == "added"], self._clock.now())
        return added

    def _add(self, execution: ExecutionRow) -> Added:
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
        self._statistics.add(ended_delta(row))

    def _new(self, execution: ExecutionRow) -> ExecutionRow:
        self._ids.add(execution)
        number, labels = self._statistics.next_number(execution), joined_labels(execution.labels)
        return replace(execution, number=number, labels=labels, parked=None)

    # --- changing -----------------------------------------------------------------------------------------------

    def settle(self, change: Change, now: Micros) -> bool:
        row = self.live.get(change.id)
        if row is None or not fits(row, change, now):
            return False
        after = settled(row, change, now)
        self._audits.add(change.audit)
        if (note := failure_entry(change)) is not None:
            self._entries.write_entries([EntryWrite(entry=note)])
        self._statistics.add(change_delta(after, change))
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

    def renew(self, beat: HeartbeatRequest, now: Micros) -> frozenset[str]:
        """Renew these leases. Returns the ids of those that are lost."""
        until = now + seconds_to_micros(beat.lease)
        held = {id: self._held(id, token, beat.worker.id) for id, token in beat.leases}
        for row in held.values():
            if row is not None:
                self.live.put(replace(row, lease=until))
        return frozenset(id for id, row in held.items() if row is None)

    def report(self, reports: Sequence[ProgressReport]) -> list[bool]:
        return [self._report(report) for report in reports]

    def _report(self, report: ProgressReport) -> bool:
        row = self._held(report.id, report.token, report.owner)
        if row is None:
            return False
        progress = row.progress_json if report.progress_json is None else report.progress_json
        counters = row.counters_json if report.counters_json is None else report.counters_json
        labels = joined_labels(row.labels, report.labels)
        self.live.put(replace(row, progress_json=progress, counters_json=counters, labels=labels))
        self._logs.append(report.id, report.logs)
        return True

    def request_cancel(self, requests: Sequence[CancelRequest]) -> list[bool]:
        return [self._request_cancel(request) for request in requests]

    def _request_cancel(self, request: CancelRequest) -> bool:
        row = self.live.get(request.id)
        if row is None or row.state is not State.RUNNING or row.token != request.token:
            return False
        if row.cancel_requested is None:
            self.live.put(replace(row, cancel_requested=request.at, cancel_reason=request.reason))
        self._audits.add(request.audit)
        return True

    def _held(self, id: str, token: int, owner: str) -> ExecutionRow | None:
        """The row, if it runs under this owner and token."""
        row = self.live.get(id)
        held = row is not None and (row.state, row.token, row.owner) == (State.RUNNING, token, owner)
        return row if held else None

    # --- reading ------------------------------------------------------------------------------------------------

    def execution(self, id: str) -> ExecutionRow | None:
        return self.live.get(id) or self.history.get(id)

    def find(self, query: ExecutionQuery) -> list[ExecutionRow]:
        return list(islice(self._matching(query), query.offset, query.offset + query.limit))

    def search(self, query: ExecutionQuery, budget: int) -> ExecutionsFound:
        wanted = query.offset + query.limit
        candidates, now = self._candidates(query), self._clock.now()
        found: list[ExecutionRow] = []
        searched_to = None
        for row in islice(candidates, budget):
            searched_to = row.id
            found += [row] if passes(query, row, now) else []
            if len(found) == wanted:
                break
        remain = len(found) < wanted and next(candidates, None) is not None
        return ExecutionsFound(found[query.offset : wanted], searched_to if remain else None)

    def count(self, query: ExecutionQuery, cap: int, budget: int | None = None) -> int:
        candidates, now = self._candidates(query), self._clock.now()
        matching = (row for row in islice(candidates, budget if query.checks_rows else None) if passes(query, row, now))
        return sum(1 for _ in islice(matching, cap))

    def lane_counts(self) -> list[LaneCounts]:
        return self.live.counts(self._clock.now())

    def tenant_counts(self, limit: int) -> list[TenantCounts]:
        counted = Counter((row.tenant, row.state) for row in self.live if row.tenant is not None)
        pending = {tenant: count for (tenant, state), count in counted.items() if state is State.PENDING}
        running = {tenant: count for (tenant, state), count in counted.items() if state is State.RUNNING}
        return busiest(pending, running, limit)

    def newest_runs(
        self, job_ids: Sequence[str], limit: int, since: Micros | None = None
    ) -> dict[str, list[RunSummary]]:
        lowest, _ = id_range(since, None)
        found: dict[str, list[RunSummary]] = {id: [] for id in job_ids}
        for row in self._rows(self._ids.between(None, None, backwards=True)):
            if lowest is not None and row.id < lowest:
                break
            runs = found.get(row.job_id)
            child = row.parent_id is not None and row.tenant is not None
            if runs is not None and len(runs) < limit and not child and (since is None or row.created >= since):
                runs.append(_run(row))
        return {id: runs for id, runs in found.items() if runs}

    def logs(self, id: str, after: int = 0) -> list[tuple[int, LogLine]]:
        return self._logs.after(id, after)

    def _matching(self, query: ExecutionQuery) -> Iterator[ExecutionRow]:
        now = self._clock.now()
        return (row for row in self._candidates(query) if passes(query, row, now))

    def _candidates(self, query: ExecutionQuery) -> Iterator[ExecutionRow]:
        """In the order of the list. A database takes these along an index."""
        ids = self._ids.between(query.after, query.before, backwards=not query.oldest_first)
        return (row for row in self._rows(ids) if is_candidate(query, row))

    def children(self, parent_id: str) -> dict[State, int]:
        return dict(Counter(row.state for row in self._rows(self._ids.children(parent_id))))

    def last_child_ended(self, parent_id: str) -> Micros | None:
        rows = self._rows(self._ids.children(parent_id))
        return max((row.finished for row in rows if row.finished is not None), default=None)

    def held_keys(self, kind: KeyKind, first: str = "", limit: int = 1_000) -> list[HeldKey]:
        return self.live.held_keys(kind, first, limit)

    def expired(self, limit: int) -> list[ExecutionRow]:
        now = self._clock.now()
        over = (row for row in self.live.running() if lease_over(row, now))
        return sorted(over, key=lambda row: (row.lease, row.id))[:limit]

    def cancels(self, owner: str) -> dict[str, str]:
        asked = (row for row in self.live.running() if row.owner == owner and row.cancel_requested is not None)
        return {row.id: row.cancel_reason or "" for row in asked}

    def unserved_cancels(self, limit: int) -> list[ExecutionRow]:
        asked = (row for row in self.live if row.cancel_requested is not None and row.state is not State.RUNNING)
        return sorted(asked, key=lambda row: row.id)[:limit]

    def live_counts(self, job_ids: Sequence[str] | None = None) -> dict[str, LiveCounts]:
        wanted = None if job_ids is None else frozenset(job_ids)
        counts: dict[str, Counter[State]] = {}
        for row in self.live:
            if wanted is None or row.job_id in wanted:
                counts.setdefault(row.job_id, Counter())[row.state] += 1
        return {id: LiveCounts(**{state.value: count for state, count in by.items()}) for id, by in counts.items()}

    def _rows(self, ids: Iterable[str]) -> Iterator[ExecutionRow]:
        return (row for row in map(self.execution, ids) if row is not None)

    # --- copying ------------------------------------------------------------------------------------------------

    def records(self, after: str, limit: int) -> Iterator[ExecutionRecord]:
        for row in self._rows(islice(self._ids.after(after), limit)):
            logs = tuple(self._logs.after(row.id, 0))
            yield ExecutionRecord(execution=row, keep=self.history.keeps(row.id), logs=logs)

    def restore(self, record: ExecutionRecord) -> None:
        """Add the record as it is; an execution without a number gets the next one."""
        self._ids.add(record.execution)
        number = record.execution.number or self._statistics.next_number(record.execution)
        row = replace(record.execution, number=number, parked=None)
        if row.state.final:
            self.history.add(row, keep=record.keep)
        else:
            self.live.put(row)
        self._logs.restore(row.id, record.logs)

    # --- forgetting ---------------------------------------------------------------------------------------------

    def todo_done(self, ids: Sequence[str]) -> None:
        self.forget([id for id in ids if self.history.clear_todo(id)])

    def prune(self, rule: PruneRule, limit: int) -> int:
        ids = self.history.prunable(rule, limit)
        self.forget(ids)
        return len(ids)

    def delete_executions(self, ids: Sequence[str], audits: Sequence[Audit]) -> list[bool]:
        return [self._delete(id, audit) for id, audit in zip(ids, audits, strict=True)]

    def _delete(self, id: str, audit: Audit) -> bool:
        row = self.history.get(id)
        if row is None or row.todo:
            return False
        self.forget([id])
        self._audits.add(audit)
        return True

    def forget(self, ids: Iterable[str]) -> None:
        """Delete finished rows and their log lines."""
        for id in ids:
            self._ids.remove(self.history.remove(id))
            self._logs.remove(id)


def _run(row: ExecutionRow) -> RunSummary:
    return RunSummary(row.id, row.state, row.trigger, row.created, row.due, row.started, row.finished, row.reason)


def is_candidate(query: ExecutionQuery, row: ExecutionRow) -> bool:
    """All filters for which databases have indexes, except cursor and paging."""
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
        and all(label in row.labels for label in query.labels)
    )


def passes(query: ExecutionQuery, row: ExecutionRow, now: Micros) -> bool:
    """The filters that are checked on each candidate."""
    if not query.checks_rows:
        return True
    wanted = ((query.handler, row.handler), (query.queue, row.queue), (query.reason, row.reason))
    return (
        all(value is None or value == actual for value, actual in wanted)
        and (query.error_text is None or query.error_text in (row.error or "").lower())
        and (query.workers is None or _worker(row) in query.workers)
        and (query.longer_than is None or _duration(row, now) > query.longer_than)
        and not (query.without_system and row.job.startswith(SYSTEM_PREFIX))
    )


def _worker(row: ExecutionRow) -> str | None:
    if row.owner is not None or not row.attempted:
        return row.owner
    return row.attempts[-1].worker


def _duration(row: ExecutionRow, now: Micros) -> Micros:
    ended = now if row.state is State.RUNNING else row.finished
    return -1 if row.started is None or ended is None else ended - row.started
