"""`/dashboard/tenants`: the busiest tenants."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ....core.monitoring.busy_tenants import COUNTED, MOST, TenantOrder
from ..visit import PageRoute, Viewing

router = APIRouter(prefix="/dashboard/tenants", route_class=PageRoute, include_in_schema=False)

SHOWN = 100


@router.get("")
async def tenants_page(
    visit: Viewing, sort: TenantOrder = "waiting", search: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    found = await visit.engine.busy_tenants.find(sort, MOST)
    matching = [each for each in found if search.lower() in each.tenant.lower()]
    return visit.page(
        "tenants.html",
        tenants=matching[:SHOWN],
        most=max([getattr(each, sort) for each in matching[:SHOWN]], default=0),
        counted=COUNTED,
        cut_off=len(await visit.engine.busy_tenants.cache.get()) >= COUNTED,
        shown=SHOWN,
        more=len(matching) > SHOWN,
        sort=sort,
        search=search,
        idle=not found,
    )
