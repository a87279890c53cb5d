"""`/api/v1/tenants`: the busiest tenants."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ...core.render.tenants import busy_tenant_json
from ..access import GuardedRoute
from ..errors import respond
from ..models.tenants import BusyTenantList, BusyTenantsJson
from ..request import Viewing, json
from ..responses import answers
from ..tool_marks import DEFAULT_TOOL

router = APIRouter(prefix="/api/v1/tenants", tags=["tenants"], route_class=GuardedRoute)


@router.get(
    "", operation_id="list_tenants", openapi_extra=DEFAULT_TOOL, responses=answers({200: (BusyTenantsJson, "Tenants.")})
)
async def list_tenants(call: Viewing, wanted: Annotated[BusyTenantList, Query()]) -> Response:
    """The tenants with the most waiting or running executions, or with the most failed attempts in the last 24 hours.
    The values are at most a few seconds old."""
    found = await call.engine.busy_tenants.find(wanted.sort, wanted.limit)
    return respond(json({"items": [busy_tenant_json(view) for view in found], "limit": wanted.limit}))
