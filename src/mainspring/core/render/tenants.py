"""The JSON form of tenants as operators see them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from ..monitoring.busy_tenants import TenantView
from .entities import JsonForm, rendered


class BusyTenantJson(JsonForm):
    tenant: str
    waiting: Annotated[int, Meta(description="Executions that wait: ready, planned or held back by a limit.")]
    running: int
    failed: Annotated[int, Meta(description="Failed attempts of the last 24 hours.")]


def busy_tenant_json(view: TenantView) -> dict[str, Any]:
    return rendered(BusyTenantJson, view)
