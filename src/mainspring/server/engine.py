"""What the server sees of the application: the parts of core that it talks to, and nothing behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..config.settings import Settings
from ..core.access.api_tokens import Tokens
from ..core.backfills.commands import Backfills
from ..core.backfills.windows import WindowQueries
from ..core.bulk.commands import BulkActions
from ..core.commands.bulk import Bulk
from ..core.commands.hooks import Hooks
from ..core.commands.idempotency import Idempotency
from ..core.commands.job_creation import Creation
from ..core.commands.steering import Steering
from ..core.commands.templates import Templates
from ..core.commands.tenant_retries import TenantRuns
from ..core.commands.trigger import ManualRuns
from ..core.controls.commands import Controls
from ..core.declaring.registry import Registry
from ..core.deploys.processes import Processes
from ..core.engine.node import Node
from ..core.errors.commands import ErrorGroups
from ..core.forecast.simulation import Simulations
from ..core.forecast.timeline import Timelines
from ..core.jobs.calendars import Calendars
from ..core.locks import Locks
from ..core.monitoring.activity import Activity
from ..core.monitoring.busy_tenants import BusyTenants
from ..core.monitoring.problems import Problems
from ..core.monitoring.queues import Queues
from ..core.monitoring.totals import Overview
from ..core.monitoring.watchdog import Watchdog
from ..core.ports import Store
from ..core.queries.audit_lists import AuditLists
from ..core.queries.changes import Changes
from ..core.queries.job_lists import JobLists
from ..core.queries.queries import Queries
from ..core.webhooks.commands import Webhooks


class Engine(Protocol):
    """The application, connected to its store."""

    manual_runs: ManualRuns
    steering: Steering
    creation: Creation
    queries: Queries
    job_lists: JobLists
    timelines: Timelines
    simulations: Simulations
    audit_lists: AuditLists
    changes: Changes
    overview: Overview
    idempotency: Idempotency
    locks: Locks
    backfills: Backfills
    windows: WindowQueries
    watch: Watchdog
    problems: Problems
    calendars: Calendars
    tokens: Tokens
    bulk: Bulk
    bulk_actions: BulkActions
    templates: Templates
    errors: ErrorGroups
    hooks: Hooks
    webhooks: Webhooks
    controls: Controls
    queues: Queues
    tenants: TenantRuns
    busy_tenants: BusyTenants
    activity: Activity
    processes: Processes
    node: Node | None

    def channels(self) -> Mapping[str, bool]: ...


class Application(Protocol):
    """The object users hold."""

    registry: Registry
    settings: Settings
    given_store: Store | None

    async def engine(self) -> Engine: ...
    async def metrics_page(self) -> bytes: ...
    async def find_token(self, id: str) -> Any: ...
    async def note_token_use(self, token: Any) -> Any: ...
    async def note_failed_login(self, address: str, limit: int) -> float: ...
