"""The body of a webhook: `{"type", "timestamp", "data"}`, rendered once, when the event is handed over.

Parameters of jobs and tracebacks are left out, because a receiver outside should not see them. Large results, counters
and metadata are cut, so that every body fits into the parameters of a delivery.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...model.execution import AttemptRecord, ExecutionRow
from ...model.job import Job
from ...model.time.instants import Micros, to_datetime
from ...model.values.ids import event_id
from ...model.values.payload import safe_json, safe_text
from ..errors.records import ErrorGroup
from .endpoints import Endpoint, masked_url
from .events import DISABLED, GROUP_CHANGED, GROUP_NEW, PAUSED, RESUMED, RETRYING, ended_event

LONGEST_RESULT = 32_768
LONGEST_DETAIL = 8_192
LONGEST_ERROR = 4_096
MOST_NAMED = 20


class WebhookEvent(msgspec.Struct, frozen=True):
    """Something that happened, as it is sent. `cause` is what it happened to: with the type and the instant it gives
    each delivery its id, so that a repeated hand-over creates nothing twice."""

    type: str
    at: Micros
    cause: str
    data: dict[str, Any]
    traceparent: str | None = None

    def id_for(self, endpoint: str) -> str:
        return event_id(self.at, self.cause, self.type, endpoint)

    def body(self) -> str:
        return msgspec.json.encode({"type": self.type, "timestamp": _instant(self.at), "data": self.data}).decode()


def ended(execution: ExecutionRow, *, muted: bool = False) -> WebhookEvent:
    """The event of an execution that has ended. `muted`: its error group is."""
    data = _identity(execution) | {
        "status": execution.state.value,
        "reason": execution.reason,
        "error": _error(execution.error),
        "error_group": execution.error_group,
        "muted": muted,
        "attempt": execution.attempt,
        "started_at": _maybe(execution.started),
        "finished_at": _maybe(execution.finished),
        "duration_ms": execution.duration_ms,
        "result": _bounded(execution.result_json, LONGEST_RESULT),
        "counters": _bounded(execution.counters_json, LONGEST_DETAIL) or {},
        "metadata": _bounded(execution.metadata_json, LONGEST_DETAIL) or {},
    }
    at = execution.finished or execution.created
    type = ended_event(execution.state, execution.reason)
    return WebhookEvent(type, at, execution.id, data, execution.traceparent)


def retrying(execution: ExecutionRow, failed: AttemptRecord, *, muted: bool = False) -> WebhookEvent:
    """The event of an attempt that failed, after which another one follows."""
    data = _identity(execution) | {
        "status": "retrying",
        "reason": failed.end,
        "error": _error(failed.error),
        "error_group": failed.error_group,
        "muted": muted,
        "attempt": failed.number,
        "started_at": _instant(failed.started),
        "finished_at": _instant(failed.ended),
        "duration_ms": failed.duration_ms,
    }
    cause = f"{execution.id}/{failed.number}"
    return WebhookEvent(RETRYING, failed.ended, cause, data, execution.traceparent)


def steered(job: Job) -> WebhookEvent:
    """The event of a job that is paused, or runs again."""
    paused = job.paused is not None
    data: dict[str, Any] = {"job": job.name, "handler": job.spec.handler, "queue": job.spec.queue}
    if paused:
        data |= {"paused_by": job.paused_by, "note": job.pause_note, "resume_at": _maybe(job.resume)}
    at = job.updated if job.paused is None else job.paused
    return WebhookEvent(PAUSED if paused else RESUMED, at, job.id, data)


def error_group(group: ErrorGroup, endpoint: Endpoint) -> WebhookEvent:
    """The event of an error that is new, or whose mute has ended. An endpoint for some jobs or tenants hears of no
    others; nor of the newest execution, which may be of another, nor how often the error occurred in all."""
    jobs, tenants = (
        sorted(name for name in names if not wanted or name in wanted)
        for names, wanted in ((group.jobs, endpoint.jobs), (group.tenants, endpoint.tenants))
    )
    restricted = bool(endpoint.jobs or endpoint.tenants)
    data = {
        "error_group": group.id,
        "type": group.type,
        "message": group.message,
        "frame": group.frame,
        "count": None if restricted else group.attempts,
        "jobs": jobs[:MOST_NAMED],
        "tenants": tenants[:MOST_NAMED],
        "first_release": group.first_release or None,
        "last_release": group.releases[-1] if group.releases else None,
        "execution_id": None if restricted else group.execution,
        "first_seen_at": _instant(group.first_seen),
        "last_seen_at": _instant(group.last_seen),
    }
    return WebhookEvent(group_event(group), group.announce_at, group.id, data)


def group_event(group: ErrorGroup) -> str:
    return GROUP_NEW if group.announce == "new" else GROUP_CHANGED


def disabled(endpoint: Endpoint) -> WebhookEvent:
    """The event of an endpoint that Mainspring has disabled."""
    at = endpoint.disabled or endpoint.created
    data = {
        "webhook": endpoint.id,
        "url": masked_url(endpoint.url),
        "reason": endpoint.disabled_reason,
        "failing_since": _maybe(endpoint.failing_since),
    }
    return WebhookEvent(DISABLED, at, endpoint.id, data)


def _identity(execution: ExecutionRow) -> dict[str, Any]:
    window = None
    if execution.window_begin is not None and execution.window_end is not None:
        window = {"begin": _instant(execution.window_begin), "end": _instant(execution.window_end)}
    return {
        "execution_id": execution.id,
        "job": execution.job,
        "handler": execution.handler,
        "queue": execution.queue,
        "tenant": execution.tenant,
        "trigger": execution.trigger,
        "triggered_by": execution.triggered_by,
        "trace_id": execution.trace_id,
        "parent_id": execution.parent_id,
        "retry_of": execution.retry_of,
        "max_attempts": execution.rules.max_attempts,
        "window": window,
        "created_at": _instant(execution.created),
        "scheduled_at": _maybe(execution.tick),
    }


def _bounded(text: str | None, limit: int) -> Any:
    """A JSON value, or an object that says how large it is and shows its beginning."""
    if text is None:
        return None
    value = msgspec.json.decode(text)
    return value if len(text) <= limit else msgspec.json.decode(safe_json(value, limit))


def _error(error: str | None) -> str | None:
    return None if error is None else safe_text(error, LONGEST_ERROR)


def _instant(at: Micros) -> str:
    return to_datetime(at).isoformat().replace("+00:00", "Z")


def _maybe(at: Micros | None) -> str | None:
    return None if at is None else _instant(at)
