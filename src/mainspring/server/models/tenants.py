"""Requests about tenants."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ...core.monitoring.busy_tenants import TenantOrder
from ...core.render.entities import JsonForm
from ...core.render.tenants import BusyTenantJson
from .fields import Limit, QueryFields


class BusyTenantList(QueryFields):
    sort: Annotated[TenantOrder, Field(description="Those with the most come first.")] = "waiting"
    limit: Limit = 20


class BusyTenantsJson(JsonForm):
    items: list[BusyTenantJson]
    limit: int
