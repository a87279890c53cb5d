"""`/healthz` and `/readyz`: whether this process lives, and whether it can do its part. Strangers learn no more."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from ...core.render.entities import JsonForm
from ...model.errors import MainspringError
from ..access import GuardedRoute, anyone
from ..errors import logger, respond
from ..request import json
from ..responses import answers


class HealthJson(JsonForm):
    status: Literal["ok", "ready", "unavailable"]


router = APIRouter(tags=["health"], dependencies=[Depends(anyone)], route_class=GuardedRoute)


@router.get("/healthz", operation_id="healthz", responses=answers({200: (HealthJson, "This process is alive.")}))
async def healthz() -> Response:
    return respond(json({"status": "ok"}))


@router.get(
    "/readyz",
    operation_id="readyz",
    responses=answers({200: (HealthJson, "It is ready."), 503: (HealthJson, "It is not ready; the log says why.")}),
)
async def readyz(request: Request) -> Response:
    """Whether the store answers, its schema is right and, in a process with the role scheduler, the search for ticks
    works."""
    try:
        engine = await request.app.state.application.engine()
        troubles = await engine.overview.troubles(engine.node)
    except (MainspringError, OSError) as error:
        troubles = [str(error)]
    if not troubles:
        return respond(json({"status": "ready"}))
    logger.warning("not ready: %s", ", ".join(troubles))
    return respond(json({"status": "unavailable"}, 503))
