"""The events that endpoints can subscribe to. Checks, documentation and OpenAPI document read this table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from ...model.errors import InvalidValue, nearest
from ...model.execution import State
from ...model.values.payload import presentable

FAILED = "execution.failed"
RETRYING, MISSED, SKIPPED = "execution.retrying", "execution.missed", "execution.skipped"
PAUSED, RESUMED = "job.paused", "job.resumed"
GROUP_NEW, GROUP_CHANGED = "error_group.new", "error_group.changed"
DISABLED, TEST = "webhook.disabled", "webhook.test"

EventName: TypeAlias = Literal[
    "execution.completed",
    "execution.failed",
    "execution.partial",
    "execution.skipped",
    "execution.missed",
    "execution.retrying",
    "execution.cancelled",
    "job.paused",
    "job.resumed",
    "error_group.new",
    "error_group.changed",
    "webhook.disabled",
    "webhook.test",
]
"""The names of `EVENTS`, for type checkers. A test compares them."""

EVENTS: dict[str, str] = {
    "execution.completed": "an execution completed",
    FAILED: "an execution failed for good: no attempt is left",
    "execution.partial": "an execution ended after some of its tenants completed and others did not",
    SKIPPED: "an execution was skipped: its job was already running, a parent failed, or the handler raised `Skip`",
    MISSED: "one or more ticks did not run, because no scheduler was running or the job was paused",
    RETRYING: "an attempt failed, and another one follows",
    "execution.cancelled": "an execution was cancelled",
    PAUSED: "a job was paused",
    RESUMED: "a paused job was resumed",
    GROUP_NEW: "an error occurred for the first time",
    GROUP_CHANGED: "a muted error occurred in a job or a release that had not shown it, which ends the mute",
    DISABLED: "an endpoint was disabled because its receiver failed for days or answered 410; sent to the others",
    TEST: "a test message, sent regardless of the endpoint's subscriptions",
}

_ENDED = {
    State.COMPLETED: "execution.completed",
    State.FAILED: FAILED,
    State.PARTIAL: "execution.partial",
    State.CANCELLED: "execution.cancelled",
    State.SKIPPED: SKIPPED,
}


def ended_event(state: State, reason: str | None) -> str:
    """The event of an execution that has ended in this state."""
    return MISSED if state is State.SKIPPED and reason == "missed" else _ENDED[state]


def check_events(value: Any) -> tuple[str, ...]:
    """Names of events; none for all of them."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Iterable):
        raise InvalidValue("events", presentable(value), "a list of events")
    checked = tuple(dict.fromkeys(names))
    for name in checked:
        if name not in EVENTS:
            guess = nearest(name, EVENTS) if isinstance(name, str) else None
            remedy = f"Did you mean {guess!r}?" if guess else ""
            raise InvalidValue("events", presentable(name), ", ".join(EVENTS), remedy)
    return checked
