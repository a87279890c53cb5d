"""Jobs, executions, workers, locks and audit records as plain data, with the field names of the HTTP interface.

Command line and server both speak through these, so that a field means the same wherever it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...model.backfill import Backfill, Windows, WindowStatus
from ...model.job import JobSpec
from ...model.triggers import Every, decode_trigger
from ...model.windows import Window
from ..commands.bulk import BulkItem, BulkResult
from ..commands.templates import Template
from ..declaring.options import policy_fields
from ..declaring.registry import Handler
from ..jobs.calendars import CalendarView
from ..monitoring.missed_runs import MissedRuns
from ..monitoring.totals import Totals
from ..monitoring.why import Reason
from ..views.execution import Attempt, Execution
from ..views.job import JobTotals, JobView, OccurrenceView, job_of
from ..views.records import AuditRecord, LockView, LogEntry, WorkerView
from .masking import masked


def instant_text(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def job_shape(view: JobView, *, whole: bool = False) -> dict[str, Any]:
    """`whole` also tells the addresses that it pings, which are for those who may change it."""
    return {
        "id": view.name,
        "name": view.name,
        "handler": view.handler,
        "description": view.description,
        "queue": view.queue,
        "params": view.params,
        "status": view.state.value,
        "last_status": view.last_status,
        "schedule": view.schedule,
        "schedule_description": view.description_of_schedule,
        "schedule_enabled": view.enabled,
        **interval_pair(job_of(view).spec),
        "next_run_at": instant_text(view.next_run_at),
        "after": list(view.after),
        "dependents": list(view.dependents),
        "hours": view.hours,
        "closed_until": instant_text(view.closing.until) if view.closing else None,
        "closed_by": view.closing.by if view.closing else None,
        "last_run_at": instant_text(view.last_run_at),
        "started_at": instant_text(view.started_at),
        "completed_at": instant_text(view.completed_at),
        "is_paused": view.is_paused,
        "paused_at": instant_text(view.paused_at),
        "paused_by": view.paused_by,
        "pause_note": view.pause_note,
        "resume_at": instant_text(view.resume_at),
        "cancelled_at": instant_text(view.cancelled_at),
        "error_message": view.error_message,
        "current_retry_count": view.current_retry_count,
        "max_retries": view.max_attempts - 1,
        "retry_backoff_seconds": view.retry.initial,
        "origin": view.origin,
        "version": view.version,
        "orphaned": view.orphaned,
        "policy": policy_shape(job_of(view).spec, whole=whole),
        "overrides": view.overrides if whole else masked(view.overrides),
        "occurrences": [occurrence_shape(each) for each in view.occurrences],
        "live": {"pending": view.live.pending, "running": view.live.running, "waiting": view.live.waiting},
        "stats": stats_shape(view.stats),
        "metadata": view.metadata,
        "created_at": instant_text(view.created_at),
        "updated_at": instant_text(view.updated_at),
    }


def interval_pair(spec: JobSpec) -> dict[str, Any]:
    """A period in whole minutes as the pair that made it; always told in minutes, as the name of the field says."""
    trigger = None if spec.trigger is None else decode_trigger(spec.trigger)
    if not isinstance(trigger, Every) or trigger.seconds % 60:
        return {"interval_minutes": None, "interval_type": None}
    return {"interval_minutes": int(trigger.seconds // 60), "interval_type": "minutes"}


def occurrence_shape(occurrence: OccurrenceView) -> dict[str, Any]:
    """One run of the schedule that was skipped (`to` is null) or moved."""
    return {
        "at": instant_text(occurrence.at),
        "to": instant_text(occurrence.moved_to),
        "by": occurrence.by,
    }


def policy_shape(spec: JobSpec, *, whole: bool = False) -> dict[str, Any]:
    """The rules a job lives by, under the names of the options that declare them; durations in seconds."""
    names = policy_fields(tenants=spec.tenants)
    fields: dict[str, Any] = msgspec.to_builtins({name: getattr(spec, name) for name in names})
    return fields if whole else masked(fields)


def stats_shape(stats: JobTotals) -> dict[str, Any]:
    return {
        "total_executions": stats.total,
        "successful_runs": stats.completed,
        "partial_runs": stats.partial,
        "failed_runs": stats.failed,
        "cancelled_runs": stats.cancelled,
        "skipped_runs": stats.skipped,
        "average_duration_ms": stats.average_duration_ms,
        "success_rate": stats.success_rate,
    }


def job_stats_shape(view: JobView) -> dict[str, Any]:
    """What became of a job's executions over its whole life, beside when it ran and will run."""
    return {
        **stats_shape(view.stats),
        "last_execution_at": instant_text(view.last_run_at),
        "next_scheduled_at": instant_text(view.next_run_at),
    }


def sys_job_shape(view: JobView) -> dict[str, Any]:
    """One line of the overview that operations teams poll."""
    return {
        "id": view.name,
        "schedule": view.schedule,
        "description": view.description_of_schedule,
        "status": view.state.value,
        "next_run_at": instant_text(view.next_run_at),
        "last_run_at": instant_text(view.last_run_at),
        "last_status": view.last_status,
        **{name: value for name, value in stats_shape(view.stats).items() if name.endswith(("_executions", "_runs"))},
    }


def execution_shape(execution: Execution) -> dict[str, Any]:
    """Counters stand under `counters` and at the top level, where they never hide a field of the execution."""
    attempts = execution.attempts
    last = attempts[-1] if attempts else None
    fields = {
        "id": execution.id,
        "job": execution.job,
        "handler": execution.handler,
        "queue": execution.queue,
        "status": execution.state.value,
        "reason": execution.reason,
        "trigger": execution.trigger,
        "triggered_by": execution.triggered_by,
        "trace_id": execution.trace_id,
        "execution_number": execution.number,
        "params": execution.params,
        "window": None if execution.window is None else window_shape(execution.window),
        "tenant": execution.tenant,
        "share": execution.share,
        "waits_for": execution.waits_for,
        "parent_id": execution.parent_id,
        "retry_of": execution.retry_of,
        "flow_id": execution.flow_id,
        "priority": execution.priority,
        "attempt": execution.attempt,
        "retry_attempt": execution.attempt - 1,
        "max_attempts": execution.max_attempts,
        "worker": execution.worker,
        "created_at": instant_text(execution.created_at),
        "start_at": instant_text(execution.start_at),
        "scheduled_at": instant_text(execution.scheduled_at),
        "started_at": instant_text(execution.started_at),
        "finished_at": instant_text(execution.finished_at),
        "cancel_requested_at": instant_text(execution.cancel_requested_at),
        "duration_ms": execution.duration_ms,
        "error_message": execution.error,
        "stack_trace": last.traceback if last else None,
        "cpu_time_ms": _millis(last.cpu_ms) if last else None,
        "memory_peak_mb": last.memory_mb if last else None,
        "progress": execution.progress,
        "counters": execution.counters,
        "result": execution.result,
        "metadata": execution.metadata,
        "attempts": [attempt_shape(attempt) for attempt in attempts],
    }
    return {**execution.counters, **fields}


def attempt_shape(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "worker": attempt.worker,
        "end": attempt.end,
        "started_at": instant_text(attempt.started_at),
        "ended_at": instant_text(attempt.ended_at),
        "duration_ms": attempt.duration_ms,
        "error_message": attempt.error,
        "stack_trace": attempt.traceback,
        "cpu_time_ms": _millis(attempt.cpu_ms),
        "memory_peak_mb": attempt.memory_mb,
    }


def worker_shape(worker: WorkerView) -> dict[str, Any]:
    return {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "version": worker.version,
        "roles": list(worker.roles),
        "queues": None if worker.queues is None else list(worker.queues),
        "handlers": list(worker.handlers),
        "concurrency": worker.concurrency,
        "running": worker.running,
        "lease": worker.lease,
        "started_at": instant_text(worker.started_at),
        "last_heartbeat_at": instant_text(worker.last_heartbeat_at),
    }


def lock_shape(lock: LockView) -> dict[str, Any]:
    return {
        "name": lock.name,
        "owner": lock.owner,
        "token": lock.token,
        "acquired_at": instant_text(lock.acquired_at),
        "expires_at": instant_text(lock.expires_at),
    }


def metrics_shape(metrics: Totals) -> dict[str, Any]:
    return {
        "jobs": metrics.jobs,
        "total_jobs": sum(metrics.jobs.values()),
        "executions": {
            "pending": metrics.pending,
            "running": metrics.running,
            "waiting": metrics.waiting,
            "completed": metrics.successful,
            "partial": metrics.partial,
            "failed": metrics.failed,
            "cancelled": metrics.cancelled,
            "skipped": metrics.skipped,
        },
        "total_executions": metrics.executions,
        "successful_runs": metrics.successful,
        "failed_runs": metrics.failed,
        "average_duration_ms": metrics.average_duration_ms,
        "success_rate": metrics.success_rate,
        "stale_locks_cleared": metrics.stale_locks_cleared,
        "last_check_at": instant_text(metrics.last_check_at),
        "last_metrics_update": instant_text(metrics.updated_at),
    }


def why_shape(view: JobView, reasons: Sequence[Reason]) -> dict[str, Any]:
    """Why a job is not running: what stands in its way comes first."""
    return {
        "job": view.name,
        "status": view.state.value,
        "runnable": not any(reason.blocking for reason in reasons),
        "reasons": [reason_shape(reason) for reason in reasons],
    }


def reason_shape(reason: Reason) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(reason)
    return fields


def handler_shape(name: str, handler: Handler | None, workers: list[str]) -> dict[str, Any]:
    """`handler` is None for code that only other processes have; `workers` are the processes that run it now."""
    return {
        "name": name,
        "known_here": handler is not None,
        "signature": None if handler is None else str(handler.signature),
        "required": [] if handler is None else list(handler.signature.required),
        "isolation": None if handler is None else handler.isolation,
        "workers": workers,
    }


def audit_shape(audit: AuditRecord, *, whole: bool = False) -> dict[str, Any]:
    return {
        "id": audit.id,
        "at": instant_text(audit.at),
        "actor": audit.actor,
        "action": audit.action,
        "target": audit.target,
        "before": _masked(audit.before, whole),
        "after": _masked(audit.after, whole),
        "request_id": audit.request_id,
    }


def _masked(value: Any, whole: bool) -> Any:
    return masked(value) if isinstance(value, dict) and not whole else value


def missed_shape(runs: MissedRuns) -> dict[str, Any]:
    """A stretch of missed runs of one job."""
    return {
        "job": runs.job,
        "first_missed": instant_text(runs.first_at),
        "last_missed": instant_text(runs.last_at),
        "count": runs.count,
        "exact": runs.exact,
        "reason": runs.reason,
        "reported_at": instant_text(runs.reported_at),
    }


def log_shape(number: int, line: LogEntry) -> dict[str, Any]:
    return {"number": number, "at": instant_text(line.at), "level": line.level, "message": line.message}


def _millis(measured: float | None) -> float | None:
    """To the microsecond, as all other times are: what lies behind that is noise of the measurement."""
    return None if measured is None else round(measured, 3)


def calendar_shape(view: CalendarView) -> dict[str, Any]:
    """As plain data, with the field names of the HTTP interface."""
    return {
        "name": view.name,
        "origin": view.origin,
        "declared": view.declared,
        "updated_by": view.by,
        "updated_at": instant_text(view.updated_at),
        "entries": [{"entry": block.text(), "label": block.label} for block in view.calendar.blocks],
    }


_OWN = frozenset({"trigger", "tz", "params", "metadata", "description"})


def template_shape(template: Template, *, whole: bool = False) -> dict[str, Any]:
    """`whole` also tells the addresses that its jobs ping, which are for those who may change it."""
    fields, trigger = template.fields if whole else masked(template.fields), template.trigger
    return {
        "name": template.name,
        "handler": template.handler,
        "description": fields.get("description", ""),
        "schedule": None if trigger is None else trigger.expression(),
        "schedule_description": None if trigger is None else trigger.describe(),
        "timezone": fields.get("tz"),
        "params": fields.get("params", {}),
        "metadata": fields.get("metadata", {}),
        "options": {name: value for name, value in fields.items() if name not in _OWN},
        "version": template.version,
        "updated_by": template.by,
        "created_at": instant_text(template.created_at),
        "updated_at": instant_text(template.updated_at),
    }


def bulk_shape(result: BulkResult, item_shape: Callable[[BulkItem], dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "command": result.command,
        "matched": len(result.items),
        "done": result.done,
        "refused": result.refused,
        "more": result.more,
        "next": result.next,
        "results": [(item_shape or _item_shape)(item) for item in result.items],
    }


def _item_shape(item: BulkItem) -> dict[str, Any]:
    return {
        "id": item.id,
        "done": item.done,
        "status": item.status,
        "execution_id": item.execution_id,
        "error": None if item.error is None else str(item.error),
    }


def windows_shape(job: str, windows: Windows) -> dict[str, Any]:
    return {"job": job, "counts": windows.counts, "windows": [status_shape(each) for each in windows]}


def status_shape(status: WindowStatus) -> dict[str, Any]:
    return {
        **window_shape(status.window),
        "state": status.state,
        "execution_id": status.execution_id,
        "last_status": status.last_state,
        "runs": status.runs,
        "finished_at": instant_text(status.finished_at),
    }


def window_shape(window: Window) -> dict[str, Any]:
    return {"begin": instant_text(window.begin), "end": instant_text(window.end)}


def backfill_shape(backfill: Backfill) -> dict[str, Any]:
    """`windows` only of a dry run."""
    fields = {
        "id": backfill.id or None,
        "job": backfill.job,
        "status": backfill.state,
        "reason": backfill.reason,
        "range": window_shape(backfill.window),
        "order": backfill.order,
        "only": backfill.only,
        "force": backfill.force,
        "concurrency": backfill.concurrency,
        "pace": backfill.pace,
        "params": None if backfill.params is None else msgspec.json.decode(backfill.params),
        "note": backfill.note,
        "total": backfill.total,
        "ended": backfill.ended,
        "running": backfill.running,
        "completed": backfill.completed,
        "failed": backfill.failed,
        "cancelled": backfill.cancelled,
        "skipped": backfill.skipped,
        "held": backfill.held,
        "already_done": backfill.already_done,
        "already_running": backfill.already_running,
        "created_at": instant_text(backfill.created_at),
        "created_by": backfill.created_by,
        "started_at": instant_text(backfill.started_at),
        "finished_at": instant_text(backfill.finished_at),
    }
    if backfill.state == "planned":
        fields["windows"] = [window_shape(window) for window in backfill.windows]
    return fields
