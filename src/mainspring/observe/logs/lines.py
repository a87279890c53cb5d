"""Every log line of Mainspring: an observer that turns events into records of the logger `mainspring`.

The library never configures logging. Each record carries its fields as attributes (`record.job`, `record.attempt`),
for structured formatters such as those of `mainspring.observe.logs.formats`, and as `key=value` text in its message.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from ...model.backfill import BackfillRow
from ...model.bulk import BulkRow
from ...model.events import (
    AttemptEnded,
    BackfillBegan,
    BackfillEnded,
    BulkBegan,
    BulkEnded,
    ClockJumped,
    Enqueued,
    Fenced,
    JobConflict,
    Missed,
    OutsideHours,
    Overran,
    Pruned,
    Recovered,
    Rescued,
    RowEvent,
    Running,
    SkewNoticed,
    Skipped,
    Started,
    Stopped,
    Stopping,
    StoreLost,
    StoreReached,
    Ticked,
    Trouble,
    WaitingForStore,
    WebhookDisabled,
)
from ...model.execution import ExecutionRow, State
from ...model.time.instants import Micros, to_datetime
from .context import fields_of_execution as _of
from .formats import EventText

NAME = "mainspring"
DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR

_PUBLIC_NAMES = {"sweep_interval": "fold_interval"}
"""Settings whose field has another name than users give them."""


class LogLines:
    """Pass it to `Mainspring(observers=[...])` with a logger of your own to send the lines there as well.

    >>> LogLines(logging.getLogger("billing.jobs"))
    LogLines('billing.jobs')
    """

    takes_rows = True

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger(NAME)

    def __repr__(self) -> str:
        return f"LogLines({self._logger.name!r})"

    def wants(self, kind: type, execution: ExecutionRow) -> bool:
        return self._logger.isEnabledFor(DEBUG if kind is Enqueued else INFO)

    def wants_any(self, kind: type, executions: Sequence[ExecutionRow]) -> bool:
        return self._logger.isEnabledFor(DEBUG if kind is Enqueued else INFO)

    def __call__(self, event: RowEvent, /) -> None:
        match event:
            case Enqueued():
                self._line(DEBUG, "job_enqueued", _of(event.execution))
            case Started():
                self._line(INFO, "job_start", _of(event.execution))
            case AttemptEnded():
                self._ended(event)
            case Overran():
                self._overran(event)
            case Skipped():
                self._skipped(event)
            case Ticked():
                self._line(DEBUG, "job_tick", _of(event.execution), late_ms=round(event.late_ms, 1))
            case Rescued():
                self._rescued(event)
            case Fenced():
                self._line(WARNING, "write_refused", _of(event.execution), write=event.write)
            case Running():
                fields = {"worker": event.worker, "roles": ",".join(event.roles)}
                self._line(INFO, "running", fields, settings=_flat_settings(event.settings, fields))
            case Stopping():
                self._stopping(event)
            case Stopped():
                self._stopped(event)
            case Trouble():
                self._line(ERROR, "trouble", {"where": event.where}, event.traceback, error=event.error)
            case StoreLost():
                self._line(WARNING, "store_lost", {"where": event.where}, error=event.error)
                self._line(DEBUG, "store_lost", {"where": event.where}, event.traceback, error=event.error)
            case Recovered():
                self._line(WARNING, "recovered", {"where": event.where}, after_s=round(event.seconds, 1))
            case WaitingForStore():
                place = {"database": event.address}
                self._line(WARNING, "waiting_for_database", place, up_to_s=event.seconds, error=event.error)
            case StoreReached():
                self._line(INFO, "database_reached", {"database": event.address}, after_s=round(event.seconds, 1))
            case Pruned():
                self._line(WARNING, "jobs_pruned", {"jobs": ",".join(event.jobs)})
            case JobConflict():
                other = {"other_application": event.other_application, "other_handler": event.other_handler}
                self._line(WARNING, "job_conflict", {"job": event.job}, handler=event.handler, **other)
            case BackfillBegan():
                self._backfill_began(event.backfill)
            case BackfillEnded():
                self._backfill_ended(event.backfill)
            case BulkBegan():
                self._bulk_began(event.bulk)
            case BulkEnded():
                self._bulk_ended(event.bulk)
            case OutsideHours():
                until = None if event.until is None else to_datetime(event.until).isoformat()
                name = "job_waits_for_hours" if event.waits else "job_outside_hours"
                self._line(INFO, name, {"job": event.job}, until=until, closed_by=event.by)
            case Missed():
                self._missed(event)
            case WebhookDisabled():
                fields = {"webhook": event.webhook, "url": event.url}
                self._line(WARNING, "webhook_disabled", fields, reason=event.reason)
            case SkewNoticed():
                self._line(WARNING, "clock_skew", {}, seconds=round(event.seconds, 3))
            case ClockJumped():
                self._line(WARNING, "clock_jump", {}, seconds=round(event.seconds, 3))
            case _:
                assert_never(event)

    def _stopping(self, event: Stopping) -> None:
        fields = {"worker": event.worker, "running": event.running, "seconds": event.seconds}
        words = f"{event.running} running, up to {event.seconds:g} s; Ctrl-C again stops at once"
        if self._logger.isEnabledFor(INFO):
            self._record(INFO, "stopping", fields, f"stopping: {words}")

    def _stopped(self, event: Stopped) -> None:
        fields = {"worker": event.worker, "handed_back": event.handed_back}
        if not event.unsettled:
            return self._line(INFO, "stopped", fields)
        words = (
            f"{event.handed_back} handed back; the endings of {event.unsettled} could not be recorded, because the "
            f"store cannot be reached: other workers run them again when their lease ends, within {event.lease:g} s"
        )
        fields |= {"unsettled": event.unsettled, "lease": event.lease}
        if self._logger.isEnabledFor(WARNING):
            self._record(WARNING, "stopped", fields, f"stopped: {words}")
        return None

    def _ended(self, event: AttemptEnded[ExecutionRow]) -> None:
        level, name = _ending(event)
        if not self._logger.isEnabledFor(level):
            return
        fields = _of(event.execution) | {
            "attempt": event.attempt,
            "duration_ms": round(event.duration_ms, 3),
        }
        if name == "job_end":
            self._line(level, name, fields, state=event.state.value, reason=_reason(event), error=event.error)
        elif name == "job_failed":
            details = {"error": event.error, "reason": event.reason, "error_group": event.error_group}
            self._line(level, name, fields, event.traceback, **details)
        else:
            retry_in = None if event.retry_in is None else round(event.retry_in, 3)
            group = event.error_group
            self._line(
                level, name, fields, error=event.error, reason=event.reason, error_group=group, retry_in=retry_in
            )

    def _overran(self, event: Overran[ExecutionRow]) -> None:
        execution, took = event.execution, round(event.duration_ms, 3)
        if event.asked_by == "timeout":
            timeout = execution.rules.timeout
            self._line(WARNING, "job_past_timeout", _of(execution), timeout=timeout, duration_ms=took)
        else:
            reason = execution.cancel_reason
            self._line(WARNING, "job_ignores_cancel", _of(execution), reason=reason, duration_ms=took)

    def _skipped(self, event: Skipped[ExecutionRow]) -> None:
        missed = event.execution.metadata if event.reason == "missed" else {}
        details = {"missed_" + key: missed[key] for key in ("count", "from", "to") if key in missed}
        self._line(
            WARNING,
            "job_skipped",
            _of(event.execution),
            reason=event.reason,
            holder=event.holder,
            **details,
        )

    def _rescued(self, event: Rescued[ExecutionRow]) -> None:
        fields = _of(event.execution)
        age = round(event.silent_ms, 1)
        self._line(
            WARNING, "stale_lock_cleared", fields, age_ms=age, owner=event.execution.owner, state=event.state.value
        )
        error = f"worker {event.execution.owner} fell silent"
        if event.state is State.FAILED:
            self._line(ERROR, "job_failed", fields, error=error, reason=event.reason or "worker_lost")
        elif event.state is State.PENDING:
            self._line(WARNING, "job_retry", fields, error=error, reason="worker_lost", retry_in=event.retry_in)

    def _missed(self, event: Missed[Micros]) -> None:
        if event.waiting:
            since = to_datetime(event.first).isoformat()
            return self._line(ERROR, "job_waiting", {"job": event.job}, waiting=event.count, since=since)
        times = {"from": to_datetime(event.first).isoformat(), "to": to_datetime(event.last).isoformat()}
        fields = {"job": event.job, "missed_count": event.count, **{f"missed_{key}": at for key, at in times.items()}}
        self._line(ERROR, "job_missed", fields, exact=None if event.exact else False, schedulers=event.schedulers)
        return None

    def _backfill_began(self, backfill: BackfillRow) -> None:
        fields = {"job": backfill.job, "backfill_id": backfill.id, "windows": backfill.total, "order": backfill.order}
        self._line(INFO, "backfill_start", fields, concurrency=backfill.concurrency, by=backfill.created_by)

    def _backfill_ended(self, backfill: BackfillRow) -> None:
        fields = {"job": backfill.job, "backfill_id": backfill.id, "state": backfill.state}
        counts = {name: getattr(backfill, name) or None for name in ("failed", "cancelled", "skipped", "held")}
        level = INFO if backfill.state in ("completed", "cancelled") else WARNING
        self._line(level, "backfill_end", fields, completed=backfill.completed, **counts, reason=backfill.reason)

    def _bulk_began(self, bulk: BulkRow) -> None:
        fields = {"bulk_id": bulk.id, "action": bulk.action, "target": bulk.target, "items": bulk.total}
        self._line(INFO, "bulk_start", fields, by=bulk.created_by, probe=bulk.probe or None, pace=bulk.pace)

    def _bulk_ended(self, bulk: BulkRow) -> None:
        fields = {"bulk_id": bulk.id, "action": bulk.action, "target": bulk.target, "state": bulk.state}
        counts = {"done": bulk.done, "refused": bulk.refused or None, "skipped": bulk.skipped or None}
        level = WARNING if bulk.state == "stopped" or bulk.refused else INFO
        self._line(level, "bulk_end", fields, **counts, reason=bulk.reason)

    def _line(
        self, level: int, name: str, fields: Mapping[str, Any], traceback: str | None = None, /, **more: Any
    ) -> None:
        if self._logger.isEnabledFor(level):
            everything = {**fields, **{key: value for key, value in more.items() if value is not None}}
            self._record(level, name, everything, EventText(name, everything), traceback)

    def _record(
        self, level: int, name: str, fields: Mapping[str, Any], text: object, traceback: str | None = None
    ) -> None:
        logger = self._logger
        extra = {"event": name, **fields}
        record = logger.makeRecord(logger.name, level, __file__, 0, text, (), None, name, extra)
        record.exc_text = traceback.rstrip("\n") if traceback else None  # every formatter appends it
        logger.handle(record)


def _ending(event: AttemptEnded[ExecutionRow]) -> tuple[int, str]:
    match event.state:
        case State.FAILED:
            return ERROR, "job_failed"
        case State.PENDING if event.reason == "snoozed":
            return INFO, "job_snoozed"
        case State.PENDING if event.reason == "handed_back":
            return INFO, "job_handed_back"
        case State.PENDING if event.reason == "payload_mismatch":
            return WARNING, "job_handed_back"
        case State.PENDING:
            return WARNING, "job_retry"
        case State.PARTIAL:
            return WARNING, "job_end"
        case State.COMPLETED if event.reason not in ("completed", None):
            return WARNING, "job_end"
        case _:
            return INFO, "job_end"


def _reason(event: AttemptEnded[ExecutionRow]) -> str | None:
    """The reason of an ending, if it says more than the state."""
    return None if event.reason == event.state.value else event.reason


def _flat_settings(settings: Mapping[str, object], logged: Mapping[str, Any]) -> dict[str, object]:
    """Settings that hold one value and are not logged already, under the names that users give them."""
    flat = {key: value for key, value in settings.items() if key not in logged and not isinstance(value, Mapping)}
    return {_PUBLIC_NAMES.get(key, key): value for key, value in flat.items()}
