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
    """One line of the log of an execution. `logger` is the name of the logger that wrote it; `number` counts the lines
    of the execution from 1, over all its attempts."""

    at: datetime
    level: str
    message: str
    logger: str = ""
    number: int = 0


class LockView(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps others out: a named lock, or a key of a live execution.

    `overlap` keys keep other executions of the job from running, `unique` keys others with the same key from being
    enqueued. `owner` is the process that holds the lock or runs the execution; None while the execution waits.
    `acquired_at` of a key is when its execution started, or was added if it has not started; `expires_at` is the end
    of its lease, None while it waits. `token` is the fencing token.
    """

    kind: Literal["lock", "overlap", "unique"]
    name: str
    owner: str | None
    token: int
    acquired_at: datetime
    expires_at: datetime | None
    job: str | None = None
    execution_id: str | None = None
    status: State | None = None


class LockPage(msgspec.Struct, frozen=True):
    """One page of what is held; `next_cursor` is None on the last page."""

    items: list[LockView]
    next_cursor: str | None


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """A process that takes part, as of its last heartbeat. `queues` is None when it serves all queues; `declares` names
    the jobs that its code declares; `lease` is in seconds."""

    id: str
    host: str
    pid: int
    version: str
    roles: tuple[str, ...]
    queues: tuple[str, ...] | None
    handlers: tuple[str, ...]
    declares: tuple[str, ...]
    application: str
    release: str
    concurrency: int
    running: int
    draining: bool
    lease: float | None
    started_at: datetime
    last_heartbeat_at: datetime


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Who changed what. `before` and `after` are values: the changed fields, a state, an id or None."""

    id: str
    at: datetime
    actor: str
    action: str
    target: str
    before: Any = None
    after: Any = None
    request_id: str | None = None


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
    """A backfill, and how many of its windows have ended in which way.

    `window` is the range that was asked for. `already_done` and `already_running` windows of it were left out at the
    start; `skipped` ones were completed by another execution before their turn, `held` ones were running elsewhere.
    `windows` are only listed by a dry run.
    """

    id: str
    job: str
    state: BackfillState
    reason: str | None
    window: Window
    order: Order
    only: Only
    force: bool
    concurrency: int
    pace: float | None
    params: dict[str, Any] | None
    secret: tuple[str, ...] = ()
    note: str | None
    total: int
    ended: int
    running: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    held: int
    already_done: int
    already_running: int
    created_at: datetime
    created_by: str
    started_at: datetime | None
    finished_at: datetime | None
    windows: tuple[Window, ...] = ()

    @property
    def over(self) -> bool:
        """Whether it has finished."""
        return self.state in OVER


def backfill_view(row: BackfillRow) -> Backfill:
    values = {name: getattr(row, name) for name in Backfill.__struct_fields__}
    values["params"] = None if row.params is None else msgspec.json.decode(row.params)
    return Backfill(**values)


class BulkAction(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk action, and how far it is.

    `total` is how many items its filter found when it began; while `total_is_exact` is false, there are at least so
    many. Of them `done` are done, `refused` were refused (`errors` counts them by kind), and `skipped` were left out of
    a retry: retried before (`skips["already_retried"]`), or run again by their parents (`skips["with_parent"]`).
    `probed` are the executions that its probe has started, `stopped_by` is the first of them that did not complete.
    """

    id: str
    action: str
    target: BulkTarget
    state: BulkState
    reason: str | None
    filter: dict[str, Any]
    ids: tuple[str, ...]
    params: dict[str, Any]
    secret: tuple[str, ...] = ()
    remove: tuple[str, ...]
    note: str | None
    total: int
    total_is_exact: bool
    handled: int
    done: int
    refused: int
    skipped: int
    errors: dict[str, int]
    skips: dict[str, int]
    pace: float | None
    probe: int
    probed: tuple[str, ...]
    stopped_by: str | None
    created_at: datetime
    created_by: str
    finished_at: datetime | None

    @property
    def over(self) -> bool:
        """Whether it handles no more items."""
        return self.state in BULK_OVER


def bulk_view(row: BulkRow) -> BulkAction:
    return BulkAction(**{name: getattr(row, name) for name in BulkAction.__struct_fields__})
