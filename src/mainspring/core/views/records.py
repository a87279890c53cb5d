"""What users hold of log lines, locks, workers and the audit trail: instants as datetimes, texts as values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

import msgspec

from ...model.backfill import OVER, BackfillRow, BackfillState, Only, Order
from ...model.bulk import OVER as BULK_OVER
from ...model.bulk import BulkRow, BulkState, BulkTarget
from ...model.execution import State
from ...model.store.messages import Audit, HeldKey, LockRow, LogLine, WorkerInfo
from ...model.time.instants import maybe_datetime, to_datetime
from ...model.windows import Window


class LogEntry(msgspec.Struct, frozen=True):
    """One line of the log of an execution."""

    at: datetime
    """When it was written."""
    level: str
    """Its level, such as `INFO`."""
    message: str
    """Its text."""
    logger: str = ""
    """The name of the logger that wrote it."""
    number: int = 0
    """Its number in the log of the execution, from 1, over all attempts."""


class LockView(msgspec.Struct, frozen=True, kw_only=True):
    """A named lock, or a key that a live execution holds."""

    kind: Literal["lock", "overlap", "unique"]
    """`lock` is a named lock; `overlap` keeps other executions of the job from running; `unique` keeps others with the
    same key from being enqueued."""
    name: str
    """The name of the lock, or the key."""
    owner: str | None
    """The process that holds the lock or runs the execution; None while the execution waits."""
    token: int
    """The fencing token, which grows with every holder."""
    acquired_at: datetime
    """When the lock was taken; for a key, when its execution started, or was added if it has not started."""
    expires_at: datetime | None
    """The end of the lease; None while the execution waits."""
    job: str | None = None
    """The job of the execution that holds the key; None for a named lock."""
    execution_id: str | None = None
    """The execution that holds the key; None for a named lock."""
    status: State | None = None
    """The state of that execution; None for a named lock."""


class LockPage(msgspec.Struct, frozen=True):
    """One page of locks and keys."""

    items: list[LockView]
    """The locks and keys of this page."""
    next_cursor: str | None
    """Pass it to `app.locks.page` as `cursor` to get the next page; None on the last page."""


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A process that runs roles, as of its last heartbeat."""

    id: str
    """Its id; `app.drain_worker` takes it."""
    host: str
    """The name of the machine."""
    pid: int
    """Its process id."""
    version: str
    """The release of Mainspring."""
    roles: tuple[str, ...]
    """What it does: `scheduler`, `worker`, `api`."""
    queues: tuple[str, ...] | None
    """The queues that it serves; None for all of them."""
    handlers: tuple[str, ...]
    """The handlers that its code has."""
    declares: tuple[str, ...]
    """The jobs that its code declares."""
    application: str
    """The name of the application."""
    release: str
    """The release of the application, from the setting `release`."""
    concurrency: int
    """How many executions it can run at once."""
    running: int
    """How many executions it runs now."""
    draining: bool
    """Whether it takes no more work and finishes what it runs."""
    lease: float | None
    """How long it holds an execution without a heartbeat, in seconds."""
    started_at: datetime
    """When the process started."""
    last_heartbeat_at: datetime
    """When it was last heard of."""


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One change that a person or a program made with a command."""

    id: str
    """Its id."""
    at: datetime
    """When it happened."""
    actor: str
    """Who did it."""
    action: str
    """What was done, such as `pause`."""
    target: str
    """The job, execution or other object that it was done to."""
    before: Any = None
    """What it was before: the changed fields, a state, an id or None."""
    after: Any = None
    """What it became: the changed fields, a state, an id or None."""
    request_id: str | None = None
    """The HTTP request that asked for it."""


def log_entries(lines: Iterable[tuple[int, LogLine]]) -> list[tuple[int, LogEntry]]:
    return [(number, log_entry(number, line)) for number, line in lines]


def log_entry(number: int, line: LogLine) -> LogEntry:
    return LogEntry(to_datetime(line.at), line.level, line.message, line.logger, number)


def lock_view(row: LockRow | HeldKey) -> LockView:
    if isinstance(row, HeldKey):
        return LockView(
            kind=row.kind,
            name=row.key,
            owner=row.owner,
            token=row.token,
            acquired_at=to_datetime(row.since),
            expires_at=maybe_datetime(row.until),
            job=row.job,
            execution_id=row.execution_id,
            status=row.state,
        )
    return LockView(
        kind="lock",
        name=row.name,
        owner=row.owner,
        token=row.token,
        acquired_at=to_datetime(row.acquired),
        expires_at=to_datetime(row.expires),
    )


def worker_view(info: WorkerInfo) -> WorkerView:
    return WorkerView(
        id=info.id,
        host=info.host,
        pid=info.pid,
        version=info.version,
        roles=info.roles,
        queues=info.queues,
        handlers=info.handlers,
        declares=info.declares,
        application=info.application,
        release=info.release,
        concurrency=info.concurrency,
        running=info.running,
        draining=info.draining,
        lease=info.lease or None,
        started_at=to_datetime(info.started),
        last_heartbeat_at=to_datetime(info.seen),
    )


def audit_record(audit: Audit) -> AuditRecord:
    return AuditRecord(
        id=audit.id,
        at=to_datetime(audit.at),
        actor=audit.actor,
        action=audit.action,
        target=audit.target,
        before=_value(audit.before),
        after=_value(audit.after),
        request_id=audit.request_id,
    )


def _value(text: str | None) -> Any:
    """Mostly JSON, sometimes a bare word such as a state or an id."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill, and how many of its windows have ended in which way."""

    id: str
    """Its id."""
    job: str
    """The name of the job."""
    state: BackfillState
    """Whether it runs, is paused, or how it ended."""
    reason: str | None
    """Why it is in this state, where that needs a reason."""
    window: Window
    """The range that was asked for."""
    order: Order
    """Whether the oldest or the newest window runs first."""
    only: Only
    """Whether missing or failed windows run, or both."""
    force: bool
    """Whether windows run that are done already."""
    concurrency: int
    """How many windows run at once."""
    pace: float | None
    """The least number of seconds between the starts of two windows."""
    params: dict[str, Any] | None
    """The parameters of every run; None for those of the job."""
    secret: tuple[str, ...] = ()
    """Paths into the parameters whose values are not shown."""
    note: str | None
    """What its creator wrote about it."""
    total: int
    """How many windows it runs."""
    ended: int
    """How many of them have ended."""
    running: int
    """How many of them wait or run now."""
    completed: int
    """How many of them completed."""
    failed: int
    """How many of them failed."""
    cancelled: int
    """How many of them were cancelled."""
    skipped: int
    """How many were completed by another execution before their turn."""
    held: int
    """How many were running elsewhere when their turn came."""
    already_done: int
    """How many windows of the range were left out at the start because they were done."""
    already_running: int
    """How many windows of the range were left out at the start because they were running."""
    created_at: datetime
    """When it was created."""
    created_by: str
    """Who created it."""
    started_at: datetime | None
    """When its first window started."""
    finished_at: datetime | None
    """When it ended."""
    windows: tuple[Window, ...] = ()
    """The windows that would run; listed by a dry run only."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state in OVER


def backfill_view(row: BackfillRow) -> Backfill:
    values = {name: getattr(row, name) for name in Backfill.__struct_fields__}
    values["params"] = None if row.params is None else msgspec.json.decode(row.params)
    return Backfill(**values)


class BulkAction(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk action and its progress."""

    id: str
    """Its id."""
    action: str
    """What it does to each item, such as `retry`."""
    target: BulkTarget
    """Whether its items are executions, jobs or error groups."""
    state: BulkState
    """Whether it runs, or how it ended."""
    reason: str | None
    """Why it is in this state, where that needs a reason."""
    filter: dict[str, Any]
    """The filter that selects its items."""
    ids: tuple[str, ...]
    """The items, where they were named one by one."""
    params: dict[str, Any]
    """The parameters that a retry changes."""
    secret: tuple[str, ...] = ()
    """Paths into the parameters whose values are not shown."""
    remove: tuple[str, ...]
    """The parameters that a retry leaves out."""
    note: str | None
    """What its creator wrote about it."""
    total: int
    """How many items the filter found when it began."""
    total_is_exact: bool
    """False if there are at least `total` items."""
    handled: int
    """How many items it has handled."""
    done: int
    """How many items it has changed."""
    refused: int
    """How many items did not permit the action; `errors` counts them by kind."""
    skipped: int
    """How many items a retry left out; `skips` counts them by reason."""
    errors: dict[str, int]
    """The number of refused items for each kind of error."""
    skips: dict[str, int]
    """The number of skipped items for each reason: `already_retried`, or `with_parent` if their parent runs them
    again."""
    pace: float | None
    """The maximum number of items that it handles per second."""
    probe: int
    """How many executions it starts first, and waits for, before it goes on."""
    probed: tuple[str, ...]
    """The executions that its probe has started."""
    stopped_by: str | None
    """The first execution of the probe that did not complete, which stopped the bulk action."""
    created_at: datetime
    """When it was created."""
    created_by: str
    """Who created it."""
    finished_at: datetime | None
    """When it ended."""

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state in BULK_OVER


def bulk_view(row: BulkRow) -> BulkAction:
    return BulkAction(**{name: getattr(row, name) for name in BulkAction.__struct_fields__})
