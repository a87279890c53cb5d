"""`/metrics`: the numbers of all jobs and of this process, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse
from starlette.responses import Response

from ..request import Viewing

router = APIRouter(tags=["metrics"])

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get(
    "/metrics",
    operation_id="get_metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "Metrics in the text format of Prometheus."}},
)
async def get_metrics(call: Viewing) -> Response:
    """Totals are those of the store, the same from every process: take the maximum over processes, never the sum.
    Durations, lateness, retries, skips and refused writes are those of this process."""
    return Response(await call.application.metrics_page(), headers={"Content-Type": CONTENT_TYPE})
