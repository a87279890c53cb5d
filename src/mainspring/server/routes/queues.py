"""`/api/v1/queues`, `/scale`, and the commands on handlers and workers, which all processes obey."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.render.queues import (
    DrainStateJson,
    PausedHandlerJson,
    QueueJson,
    ScaleJson,
    paused_handler_json,
    queue_json,
    scale_json,
)
from ...model.controls import Subject
from ..access import GuardedRoute
from ..errors import respond
from ..models.commands import Empty
from ..models.lists import listed
from ..models.queues import ControlPause, Drain, QueueLimit, QueueList, QueuesJson, ScaleRequest
from ..request import Call, Posting, Viewing, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL, REVERSIBLE

router = APIRouter(prefix="/api/v1", tags=["queues"], route_class=GuardedRoute)

QueueName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,100}$", description="The queue's name.", examples=["mail"])]
HandlerName = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9_.-]{1,100}$", description="The handler's name.", examples=["send"])
]
WorkerId = Annotated[
    str,
    Path(pattern=r"^[0-9a-f-]{4,36}$", description="The worker's id, its beginning or its end.", examples=["0198f0aa"]),
]

_QUEUE = answers({200: (QueueJson, "The queue as it is now.")}, 409, 422)
_HANDLER = answers({200: (PausedHandlerJson, "The handler as it is now.")}, 409, 422)
_WORKER = answers({200: (DrainStateJson, "Whether it is being drained.")}, 404, 409, 422)


@router.get(
    "/queues", operation_id="list_queues", openapi_extra=DEFAULT_TOOL, responses=answers({200: (QueuesJson, "Queues.")})
)
async def list_queues(call: Viewing, wanted: Annotated[QueueList, Query()]) -> Response:
    """Every queue that a job or a worker names, that has waiting or running executions, or that an operator has paused
    or limited. The values are about a second old."""
    return respond(json(listed(map(queue_json, await call.engine.queues.all()), wanted)))


@router.get("/queues/{name}", operation_id="get_queue", responses=answers({200: (QueueJson, "The queue.")}))
async def get_queue(call: Viewing, name: QueueName) -> Response:
    """A queue exists as soon as it is named: one that nobody has used is empty."""
    return respond(json(await _queue(call, name)))


@router.post(
    "/queues/{name}/pause", operation_id="pause_queue", openapi_extra=DEFAULT_TOOL | REVERSIBLE, responses=_QUEUE
)
async def pause_queue(call: Posting, name: QueueName, body: ControlPause | None = None) -> Response:
    """Pause a queue: within two seconds, no process begins executions of it until it is resumed. Running executions
    finish. With `resume_at`, the pause ends automatically."""
    return await _change(call, lambda: _pause(call, "queue", name, body), lambda: _queue(call, name))


@router.post(
    "/queues/{name}/resume", operation_id="resume_queue", openapi_extra=DEFAULT_TOOL | REVERSIBLE, responses=_QUEUE
)
async def resume_queue(call: Posting, name: QueueName, body: Empty | None = None) -> Response:
    """End the pause of a queue."""
    resume = call.engine.controls.resume
    return await _change(call, lambda: resume("queue", name, by=call.by), lambda: _queue(call, name))


@router.post(
    "/queues/{name}/limit", operation_id="limit_queue", openapi_extra=DEFAULT_TOOL | REVERSIBLE, responses=_QUEUE
)
async def limit_queue(call: Posting, name: QueueName, body: QueueLimit) -> Response:
    """Set the ceilings of a queue over all processes: how many of its executions may run at the same time, and the
    rate at which they may begin. A ceiling that you leave out is removed. Running executions are not stopped."""

    async def limit() -> None:
        await call.engine.controls.limit(name, by=call.by, concurrency=body.concurrency, rate=body.rate)

    return await _change(call, limit, lambda: _queue(call, name))


@router.get(
    "/scale",
    operation_id="get_scale",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (ScaleJson, "Numbers for an autoscaler.")}),
)
async def get_scale(call: Viewing, wanted: Annotated[ScaleRequest, Query()]) -> Response:
    """How many processes a queue needs, for KEDA, a HorizontalPodAutoscaler or a script. `wanted` is 0 only if nothing
    is due, runs or waits for a limit, and nothing will be due within two minutes."""
    found = await call.engine.queues.scale(wanted.queue, low=wanted.min, high=wanted.max)
    return respond(json(scale_json(found)))


@router.post(
    "/handlers/{name}/pause", operation_id="pause_handler", openapi_extra=DEFAULT_TOOL | REVERSIBLE, responses=_HANDLER
)
async def pause_handler(call: Posting, name: HandlerName, body: ControlPause | None = None) -> Response:
    """Pause a handler: no process begins an execution of it until it is resumed, in any job or queue."""
    await call.may_steer_handler(name)
    return await _change(call, lambda: _pause(call, "handler", name, body), lambda: _handler(call, name))


@router.post(
    "/handlers/{name}/resume",
    operation_id="resume_handler",
    openapi_extra=DEFAULT_TOOL | REVERSIBLE,
    responses=_HANDLER,
)
async def resume_handler(call: Posting, name: HandlerName, body: Empty | None = None) -> Response:
    """End the pause of a handler."""
    await call.may_steer_handler(name)
    resume = call.engine.controls.resume
    return await _change(call, lambda: resume("handler", name, by=call.by), lambda: _handler(call, name))


@router.post(
    "/workers/{id}/drain", operation_id="drain_worker", openapi_extra=DEFAULT_TOOL | REVERSIBLE, responses=_WORKER
)
async def drain_worker(call: Posting, id: WorkerId, body: Drain | None = None) -> Response:
    """Drain a process: it takes no more work and finishes what it runs. It keeps running until you undrain or stop
    it."""
    given = body or Drain()

    async def work(_: str | None) -> Answer:
        drained = await call.engine.controls.drain(id, by=call.by, note=given.note)
        return json({"id": drained, "draining": True})

    return await call.once(work)


@router.post(
    "/workers/{id}/undrain", operation_id="undrain_worker", openapi_extra=DEFAULT_TOOL | REVERSIBLE, responses=_WORKER
)
async def undrain_worker(call: Posting, id: WorkerId, body: Empty | None = None) -> Response:
    """End the drain of a process: it takes work again."""

    async def work(_: str | None) -> Answer:
        return json({"id": await call.engine.controls.undrain(id, by=call.by), "draining": False})

    return await call.once(work)


# --- a change, answered with what it has changed


async def _change(
    call: Call, change: Callable[[], Awaitable[object]], shown: Callable[[], Awaitable[dict[str, Any]]]
) -> Response:
    async def work(_: str | None) -> Answer:
        await change()
        return json(await shown())

    return await call.once(work)


async def _pause(call: Call, subject: Subject, name: str, body: ControlPause | None) -> None:
    given = body or ControlPause()
    await call.engine.controls.pause(subject, name, by=call.by, note=given.note, until=given.resume_at)


async def _queue(call: Call, name: str) -> dict[str, Any]:
    return queue_json(await call.engine.queues.get(name))


async def _handler(call: Call, name: str) -> dict[str, Any]:
    return paused_handler_json(await call.engine.queues.handler(name))
