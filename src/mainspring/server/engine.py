"""What the server sees of the application: the parts of core that it talks to, and nothing behind them."""

from __future__ import annotations

from typing import Any, Protocol

from ..config import Settings
from ..core.audit_lists import AuditLists
from ..core.backfills import Backfills
from ..core.bulk import Bulk
from ..core.calendars import Calendars
from ..core.client import Client
from ..core.control import Control
from ..core.creating import Creation
from ..core.idempotency import Idempotency
from ..core.job_lists import JobLists
from ..core.locks import Locks
from ..core.node import Node
from ..core.overview import Overview
from ..core.queries import Queries
from ..core.registry import Registry
from ..core.templates import Templates
from ..core.tenant_runs import TenantRuns
from ..core.tokens import Tokens
from ..core.watching import Watch
from ..core.window_queries import WindowQueries


class Engine(Protocol):
    """The application, connected to its store."""

    client: Client
    control: Control
    creation: Creation
    queries: Queries
    job_lists: JobLists
    audit_lists: AuditLists
    overview: Overview
    idempotency: Idempotency
    locks: Locks
    backfills: Backfills
    windows: WindowQueries
    watch: Watch
    calendars: Calendars
    tokens: Tokens
    bulk: Bulk
    templates: Templates
    tenants: TenantRuns
    node: Node | None


class Application(Protocol):
    """The object users hold."""

    registry: Registry
    settings: Settings

    async def engine(self) -> Engine: ...
    async def metrics_page(self) -> bytes: ...
    async def find_token(self, id: str) -> Any: ...
    async def note_token_use(self, token: Any) -> Any: ...
    async def note_failed_login(self, address: str, limit: int) -> float: ...
