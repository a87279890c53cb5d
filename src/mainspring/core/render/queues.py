"""The JSON form of queues, of handlers with their controls, and of what an autoscaler reads."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from ..views.queues import HandlerView, QueueView, ScaleView
from .entities import Instant, JsonForm, rendered


class PauseStateJson(JsonForm):
    since: Instant
    by: str | None
    note: str | None
    resume_at: Annotated[Instant | None, Meta(description="When it ends automatically.")]


class QueueHandlerJson(JsonForm):
    name: str
    ready: int
    planned: int
    parked: int
    running: int
    paused: bool


class QueueJson(JsonForm):
    name: str
    own: Annotated[
        bool,
        Meta(description="Whether it is one of Mainspring's own queues, such as that of webhooks."),
    ]
    ready: Annotated[int, Meta(description="Could begin now.")]
    planned: Annotated[int, Meta(description="Due later, or waiting for a retry or for a paused job.")]
    parked: Annotated[int, Meta(description="Waiting for a limit.")]
    running: int
    oldest: Annotated[float | None, Meta(description="Seconds for which the oldest ready one has been due.")]
    next_due_at: Instant | None
    rate_in: Annotated[float, Meta(description="Added per minute, over the last five minutes.")]
    rate_out: Annotated[float, Meta(description="Ended per minute, over the last five minutes.")]
    workers: Annotated[int, Meta(description="Processes that serve it.")]
    workers_alive: Annotated[int, Meta(description="Those with a recent heartbeat.")]
    slots: Annotated[int, Meta(description="How many executions these can run at once.")]
    paused: bool
    pause: PauseStateJson | None
    concurrency: Annotated[int | None, Meta(description="At most this many run at once, over all processes.")]
    rate: Annotated[float | None, Meta(description="At most this many begin per second, over all processes.")]
    handlers: list[QueueHandlerJson]


class PausedHandlerJson(JsonForm):
    name: str
    workers: Annotated[int, Meta(description="Running workers that have this handler.")]
    ready: int
    running: int
    paused: bool
    pause: PauseStateJson | None


class ScaleJson(JsonForm):
    queue: Annotated[str | None, Meta(description="Null: all queues together.")]
    due: Annotated[int, Meta(description="What a further process could begin at once.")]
    running: int
    oldest: Annotated[float, Meta(description="Seconds for which the oldest of `due` has been due.")]
    next_due: Annotated[float | None, Meta(description="Seconds until the next planned one is due.")]
    capacity: Annotated[int, Meta(description="Slots of the running workers that serve it.")]
    processes: Annotated[int, Meta(description="Those workers.")]
    wanted: Annotated[int, Meta(description="Processes that are needed, between `min` and `max`.")]


class DrainStateJson(JsonForm):
    id: str
    draining: bool


def queue_json(view: QueueView) -> dict[str, Any]:
    handlers = [rendered(QueueHandlerJson, each) for each in view.handlers]
    return rendered(QueueJson, view, pause=_pause(view), handlers=handlers)


def paused_handler_json(view: HandlerView) -> dict[str, Any]:
    return rendered(PausedHandlerJson, view, pause=_pause(view))


def scale_json(view: ScaleView) -> dict[str, Any]:
    return rendered(ScaleJson, view)


def _pause(view: QueueView | HandlerView) -> dict[str, Any] | None:
    return None if view.pause is None else rendered(PauseStateJson, view.pause)
