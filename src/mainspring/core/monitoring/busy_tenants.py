"""The busiest tenants, those of users: what waits and runs for each, and how often it failed lately.

The store is read at most once a second, however many callers there are.
"""

from __future__ import annotations

import asyncio
from typing import Literal, TypeAlias, get_args

import msgspec

from ...model.execution import State
from ...model.store.messages import ExecutionQuery, TenantCounts
from ...model.values.reading import choice, whole
from ..errors.commands import ErrorGroups
from ..ports import Clock, Store
from ..webhooks.endpoints import KIND as WEBHOOK
from ..webhooks.endpoints import MOST_ENDPOINTS
from ..webhooks.hand_over import SYSTEM_JOB
from .single_flight import SingleFlight

TenantOrder: TypeAlias = Literal["waiting", "running", "failed"]
MOST = 200
COUNTED = 1_000
"""How many tenants are read, those with the most live executions."""
MOST_DELIVERIES = 1_000_000
_LIVE = frozenset({State.PENDING, State.RUNNING})


class TenantView(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant at one moment."""

    tenant: str
    """Its name."""
    waiting: int
    """Executions that wait."""
    running: int
    """Executions that run."""
    failed: int
    """Failed attempts of the last 24 hours."""


class BusyTenants:
    def __init__(self, store: Store, errors: ErrorGroups, clock: Clock) -> None:
        self._store, self._errors = store, errors
        self.cache = SingleFlight(self._read, clock)

    async def find(self, sort: TenantOrder = "waiting", limit: int = 20) -> list[TenantView]:
        """The tenants with the highest count first."""
        choice("sort", sort, get_args(TenantOrder))
        whole("limit", limit, 1, MOST)
        return sorted(await self.cache.get(), key=lambda view: (-int(getattr(view, sort)), view.tenant))[:limit]

    async def _read(self) -> list[TenantView]:
        counts, failed, own = await asyncio.gather(
            self._store.tenant_counts(COUNTED), self._errors.failures_by_tenant(), self._deliveries()
        )
        live = {each.tenant: _without(each, own.get(each.tenant)) for each in counts}
        return [
            TenantView(
                tenant=name,
                waiting=live[name].pending if name in live else 0,
                running=live[name].running if name in live else 0,
                failed=failed.get(name, 0),
            )
            for name in {**live, **failed}
            if name in failed or live[name].pending or live[name].running
        ]

    async def _deliveries(self) -> dict[str, TenantCounts]:
        """The live deliveries of webhooks by endpoint. Each has its endpoint as tenant, which is no tenant of users,
        even if one has the same name."""
        endpoints = await self._store.list_entries(WEBHOOK, "", limit=10 * MOST_ENDPOINTS)
        if not endpoints or not await self._store.count(_deliveries_of(None, _LIVE), 1):
            return {}
        found = [await self._delivery_counts(entry.key) for entry in endpoints]
        return {each.tenant: each for each in found}

    async def _delivery_counts(self, endpoint: str) -> TenantCounts:
        pending, running = [
            await self._store.count(_deliveries_of(endpoint, frozenset({state})), MOST_DELIVERIES)
            for state in (State.PENDING, State.RUNNING)
        ]
        return TenantCounts(tenant=endpoint, pending=pending, running=running)


def _deliveries_of(endpoint: str | None, states: frozenset[State]) -> ExecutionQuery:
    return ExecutionQuery(job=SYSTEM_JOB, tenant=endpoint, states=states)


def _without(counts: TenantCounts, own: TenantCounts | None) -> TenantCounts:
    if own is None:
        return counts
    pending, running = max(0, counts.pending - own.pending), max(0, counts.running - own.running)
    return TenantCounts(tenant=counts.tenant, pending=pending, running=running)
