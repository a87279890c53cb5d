"""`/api/v1/workers`, `/handlers` and `/locks`: who takes part, what code they have, who holds what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.locks import LockNotFound
from ...core.render.entities import handler_json, lock_json, worker_json
from ...core.views.records import lock_view, worker_view
from ..access import GuardedRoute
from ..errors import respond
from ..models.lists import listed
from ..models.operations import HandlerList, HandlersJson, LockList, LocksJson, WorkerList, WorkersJson
from ..request import Administering, Viewing, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL

MAX_KEY = 1_000
MOST_LOCKS = 10_000

router = APIRouter(prefix="/api/v1", tags=["cluster"], route_class=GuardedRoute)


@router.get(
    "/workers",
    operation_id="list_workers",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (WorkersJson, "The running processes.")}),
)
async def list_workers(call: Viewing, wanted: Annotated[WorkerList, Query()]) -> Response:
    """The running processes: roles, queues, handlers, release, and how busy each one is."""
    found = await call.engine.queries.workers()
    return respond(json(listed([worker_json(worker_view(each)) for each in found], wanted)))


@router.get(
    "/handlers",
    operation_id="list_handlers",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (HandlersJson, "Handlers.")}),
)
async def list_handlers(call: Viewing, wanted: Annotated[HandlerList, Query()]) -> Response:
    """The handlers that this process or running workers have in their code, and which of them are paused."""
    registry = call.application.registry
    running = [worker for worker in await call.engine.queries.workers() if "worker" in worker.roles]
    paused = {view.name for view in await call.engine.queues.handlers() if view.paused}
    names = registry.names | {name for worker in running for name in worker.handlers} | paused
    items = [
        handler_json(
            name,
            registry.get(name) if name in registry.names else None,
            [worker.id for worker in running if name in worker.handlers],
            paused=name in paused,
        )
        for name in names
    ]
    return respond(json(listed(items, wanted)))


@router.get(
    "/locks",
    operation_id="list_locks",
    openapi_extra=DEFAULT_TOOL,
    responses=answers({200: (LocksJson, "The locks.")}),
)
async def list_locks(call: Viewing, wanted: Annotated[LockList, Query()]) -> Response:
    """Named locks, and the keys of live executions that exclude others: the holder of each, since when and until when.

    One page reads 10,000 of them; continue with `next_cursor`.
    """
    held = await call.engine.locks.page(MOST_LOCKS, wanted.cursor)
    shown = listed([lock_json(lock_view(row)) for row in held.rows], wanted)
    return respond(json({**shown, "next_cursor": held.next_cursor}))


@router.delete(
    "/locks/{name:path}",
    operation_id="release_lock",
    status_code=204,
    responses=answers({204: (None, "It is released.")}, 404, 409),
)
async def release_lock(call: Administering, name: Annotated[str, Path(max_length=MAX_KEY)]) -> Response:
    """Release a named lock. Its holder is not notified: use it when the holder is gone. The key of an execution is
    refused: cancel the execution."""
    if not name.isprintable() or not await call.engine.locks.release(name, call.by):
        raise LockNotFound(name)
    return respond(Answer(204))
