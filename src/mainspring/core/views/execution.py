"""`Execution` and `Attempt`: what users hold of an execution and of its attempts.

Both are read-only and light: they wrap the stored record and decode a field when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, cast, overload

import msgspec

from ...model.execution import EDITED, PAUSED, AskedBy, AttemptEnd, AttemptRecord, ExecutionRow, State
from ...model.labels import search_keys
from ...model.store.messages import RunSummary
from ...model.time.instants import maybe_datetime, to_datetime
from ...model.values.trace_context import split
from ...model.windows import Window, window_between

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R = TypeVar("R", covariant=True, default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R", covariant=True)


class Attempt:
    """One attempt of an execution."""

    __slots__ = ("_record",)

    def __init__(self, record: AttemptRecord) -> None:
        self._record = record

    def __repr__(self) -> str:
        return f"<Attempt {self.number} on {self.worker}: {self.end}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attempt) and self._record == other._record

    def __hash__(self) -> int:
        return hash(self._record)

    @property
    def number(self) -> int:
        """1 for the first attempt."""
        return self._record.number

    @property
    def worker(self) -> str:
        """The id of the process that ran it."""
        return self._record.worker

    @property
    def end(self) -> AttemptEnd:
        """How it ended: completed, failed, timeout, snoozed, handed_back, worker_lost, cancelled, fanned_out or
        skipped."""
        return self._record.end

    @property
    def started_at(self) -> datetime:
        """When it started."""
        return to_datetime(self._record.started)

    @property
    def ended_at(self) -> datetime:
        """When it ended."""
        return to_datetime(self._record.ended)

    @property
    def duration_ms(self) -> float:
        """How long it took, in milliseconds."""
        return self._record.duration_ms

    @property
    def error(self) -> str | None:
        """The error message of an attempt that failed."""
        return self._record.error

    @property
    def traceback(self) -> str | None:
        """The stack trace of an attempt that failed."""
        return self._record.traceback

    @property
    def cpu_ms(self) -> float | None:
        """CPU time in milliseconds, where it could be measured."""
        return self._record.cpu_ms

    @property
    def memory_mb(self) -> float | None:
        """Peak memory in megabytes, where it could be measured."""
        return self._record.memory_mb

    @property
    def overran(self) -> AskedBy | None:
        """Why it was asked to stop, "timeout" or "cancel", if it did not stop."""
        return self._record.overran

    @property
    def reason(self) -> str | None:
        """Why it failed, if not by an error of the handler: "out_of_memory", "cpu_limit", "exit_code" or "signal"."""
        return self._record.reason

    @property
    def error_group(self) -> str | None:
        """The id of the error group that an attempt which failed belongs to: see `app.errors`."""
        return self._record.error_group


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One of the newest runs of a job, without its payloads: for grids, sparklines and timelines."""

    id: str
    state: State
    reason: str | None
    trigger: str
    created_at: datetime
    start_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def duration_ms(self) -> float | None:
        """From its first start to its end; None before it has ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds() * 1000


WAITS = timedelta(seconds=5)
"""Nothing is called late that has waited for less."""


def success_of(runs: Iterable[RunView]) -> float | None:
    """The part of these runs that completed, of those that completed, failed, or failed for some tenants; None without
    any."""
    states = [run.state for run in runs if run.state in (State.COMPLETED, State.PARTIAL, State.FAILED)]
    return states.count(State.COMPLETED) / len(states) if states else None


class WaitingRuns(msgspec.Struct, frozen=True):
    """Runs of a job that should have begun: how many, and when the first of them was to begin. With `more`, there may
    be others, older ones."""

    count: int
    since: datetime
    more: bool = False


def waiting_runs(runs: Sequence[RunView], now: datetime, limit: int) -> WaitingRuns | None:
    """Those among the newest runs of a job that wait although they are due, for whatever reason; None while the first
    has waited for less than `WAITS`. Runs that a paused job holds back do not count. `limit` is how many were read."""
    due = [run.start_at for run in runs if run.state is State.PENDING and run.reason != PAUSED and run.start_at <= now]
    if not due or now - min(due) < WAITS:
        return None
    return WaitingRuns(len(due), min(due), more=len(due) == limit)


def run_view(run: RunSummary) -> RunView:
    return RunView(
        id=run.id,
        state=run.state,
        reason=run.reason,
        trigger=run.trigger,
        created_at=to_datetime(run.created),
        start_at=to_datetime(run.start_at),
        started_at=maybe_datetime(run.started),
        finished_at=maybe_datetime(run.finished),
    )


class Execution(Generic[R]):
    """One run of a job, as it was when it was read; `R` is the type of its result.

    ```python
    execution = await app.enqueue("crawl", {"url": "https://example.org"})
    print((await app.wait(execution)).result)
    ```
    """

    __slots__ = ("_row",)

    def __init__(self, row: ExecutionRow) -> None:
        self._row = row

    def __repr__(self) -> str:
        return f"<Execution {self.id} of job {self.job!r}: {self.state.value}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Execution) and self._row == other._row

    def __hash__(self) -> int:
        return hash(self._row.id)

    # --- what runs, and why -------------------------------------------------------------------------------
    @property
    def id(self) -> str:
        """The id; ids sort by the time at which executions were created."""
        return self._row.id

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._row.job

    @property
    def handler(self) -> str:
        """The name of the handler."""
        return self._row.handler

    @property
    def queue(self) -> str:
        """The queue that it waits in."""
        return self._row.queue

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the handler, as stored. Secrets are not masked here."""
        return self._row.arguments

    @property
    def secret(self) -> tuple[str, ...]:
        """Paths into the parameters whose values are shown nowhere but in `params`."""
        return self._row.rules.secret

    @property
    def number(self) -> int | None:
        """The number of a scheduled run of its job, from 1; None for other executions."""
        return self._row.number

    @property
    def priority(self) -> int:
        """Higher ones are claimed first."""
        return self._row.priority

    @property
    def trigger(self) -> str:
        """Why it exists: schedule, api, manual, enqueue, retry, backfill, catch_up or dependency."""
        return self._row.trigger

    @property
    def triggered_by(self) -> str:
        """The user who asked for it, or "system"."""
        return self._row.triggered_by

    @property
    def trace_id(self) -> str:
        """The id that connects it with what caused it and what it causes."""
        return self._row.trace_id

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context of the caller who created it, if there was one."""
        return None if self._row.traceparent is None else split(self._row.traceparent)[0]

    @property
    def tenant(self) -> str | None:
        """The tenant that it runs for."""
        return self._row.tenant

    @property
    def share(self) -> str | None:
        """The share by which executions take turns in their queue; usually the tenant."""
        return self._row.share

    @property
    def parent_id(self) -> str | None:
        """The parent execution, if it runs for one of several tenants; or the backfill that created it."""
        return self._row.parent_id

    @property
    def retry_of(self) -> str | None:
        """The ended execution that it repeats."""
        return self._row.retry_of

    @property
    def flow_id(self) -> str:
        """The first execution of the chain that it follows from; its own id if it starts one."""
        return self._row.flow or self._row.id

    @property
    def window(self) -> Window | None:
        """The half-open range [begin, end) of data that it covers, in the zone of its job."""
        begin, end = self._row.window_begin, self._row.window_end
        return None if begin is None or end is None else window_between(begin, end, self._row.rules.tz)

    # --- how it stands ------------------------------------------------------------------------------------
    @property
    def state(self) -> State:
        """pending, running, waiting, completed, partial, failed, cancelled or skipped."""
        return self._row.state

    @property
    def reason(self) -> str | None:
        """Why it is in this state, where the state alone does not say."""
        return self._row.reason

    @property
    def error_group(self) -> str | None:
        """The id of the error group of its error: see `app.errors`."""
        return self._row.error_group

    @property
    def search_keys(self) -> dict[str, list[str]]:
        """Its search keys and their values: those that its job declares with `search=`, and those that its handler
        added with `ctx.tag`."""
        found: dict[str, list[str]] = {}
        for name, value in search_keys(self._row.labels):
            found.setdefault(name, []).append(value)
        return found

    @property
    def error(self) -> str | None:
        """The message of its last error."""
        return self._row.error

    @property
    def result(self) -> R:
        """What the handler returned; None until it completes."""
        return cast(R, self._row.result)

    @property
    def counters(self) -> dict[str, float]:
        """What the handler counted with `ctx.count`."""
        return self._row.counters

    @property
    def logs_dropped(self) -> int:
        """How many log lines of its last attempt were not kept: the log is bounded."""
        return int(self._row.counters.get("logs_dropped", 0))

    @property
    def metadata(self) -> dict[str, Any]:
        """What the caller and the handler attached to it."""
        return {name: value for name, value in self._row.metadata.items() if name != EDITED}

    @property
    def edited(self) -> dict[str, dict[str, Any]]:
        """Of a retry with other parameters: those that differ from the execution it repeats, each with `before` and
        `after`."""
        return self._row.edited

    @property
    def progress(self) -> dict[str, Any] | None:
        """The last `ctx.progress`: `done`, `updated_at`, and where known `total`, `message`, `percent`, `rate` (per
        second) and `eta_seconds`."""
        return self._row.progress

    @property
    def fans_out(self) -> bool:
        """Whether it runs its handler once for each tenant, in executions of their own."""
        return self._row.fans_out

    @property
    def worker(self) -> str | None:
        """The id of the process that runs it."""
        return self._row.owner

    @property
    def waits_for(self) -> str | None:
        """The key of the limit that it waits for."""
        return self._row.parked

    @property
    def attempt(self) -> int:
        """The number of its current or last attempt, from 1."""
        return self._row.attempt

    @property
    def attempts(self) -> list[Attempt]:
        """Its attempts that have ended, oldest first."""
        return [Attempt(record) for record in self._row.attempts]

    @property
    def max_attempts(self) -> int:
        """How many attempts it may have."""
        return self._row.rules.max_attempts

    @property
    def failures(self) -> int:
        """How many attempts have failed."""
        return self._row.failures

    @property
    def crashes(self) -> int:
        """How often its worker was lost."""
        return self._row.crashes

    # --- when ---------------------------------------------------------------------------------------------
    @property
    def created_at(self) -> datetime:
        """When it was created."""
        return self._row.created_at

    @property
    def start_at(self) -> datetime:
        """The earliest instant at which it, or its next attempt, may start."""
        return self._row.start_at

    @property
    def scheduled_at(self) -> datetime | None:
        """The time of its tick, however late it runs; None if it has no tick."""
        return self._row.scheduled_at

    @property
    def timeout_at(self) -> datetime | None:
        """When the attempt that runs should end at the latest; None without a timeout, or while none runs."""
        return self._row.timeout_at

    @property
    def run_timeout_at(self) -> datetime | None:
        """When its `run_timeout` is up, retries and tenants included; None without one, and before it starts."""
        return maybe_datetime(self._row.run_deadline)

    @property
    def started_at(self) -> datetime | None:
        """When its first attempt started."""
        return self._row.started_at

    @property
    def finished_at(self) -> datetime | None:
        """When it ended."""
        return self._row.finished_at

    @property
    def cancel_requested_at(self) -> datetime | None:
        """When it was asked to stop, while it runs."""
        return self._row.cancel_requested_at

    @property
    def duration_ms(self) -> float | None:
        """How long it ran, in milliseconds; None until it has ended."""
        return self._row.duration_ms


def row_of(execution: Execution[Any]) -> ExecutionRow:
    """The stored row behind the view, for use inside Mainspring."""
    return execution._row


@overload
def executions_of(rows: Iterable[ExecutionRow]) -> list[Execution[Any]]: ...
@overload
def executions_of(rows: Iterable[ExecutionRow | None]) -> list[Execution[Any] | None]: ...
def executions_of(rows: Iterable[ExecutionRow | None]) -> Any:
    return [None if row is None else Execution(row) for row in rows]
