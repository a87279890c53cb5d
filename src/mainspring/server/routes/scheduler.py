"""`/api/v1/scheduler`: the numbers over all jobs."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ...core.render.entities import TotalsJson, totals_json
from ..errors import respond
from ..request import Viewing, json
from ..responses import answers

router = APIRouter(prefix="/api/v1/scheduler", tags=["scheduler"])


@router.get(
    "/metrics",
    operation_id="get_scheduler_metrics",
    responses=answers({200: (TotalsJson, "Jobs by state, executions by outcome.")}),
)
async def get_metrics(call: Viewing) -> Response:
    """Numbers over all jobs, at most some seconds old: `last_metrics_update` says when they were worked out."""
    return respond(json(totals_json(await call.engine.overview.metrics(call.engine.node))))
