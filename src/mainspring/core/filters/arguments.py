"""The filters as typed arguments of `app.executions` and `app.jobs`. A test compares them with the tables."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, TypedDict

from ...model.execution import TriggeredBy

When: TypeAlias = datetime | timedelta | str | float


class FiltersBesideJob(TypedDict, total=False):
    """Filters of executions. Each is optional; None does not filter."""

    handler: str | None
    queue: str | None
    status: str | Iterable[str] | None
    running: bool | None
    reason: str | None
    error_group: str | None
    error: str | None
    tenant: str | None
    worker: str | None
    release: str | None
    trigger: TriggeredBy | None
    search: str | Iterable[str] | None
    longer_than: float | str | timedelta | None
    since: When | None
    until: When | None
    trace_id: str | None
    parent_id: str | None


class JobFilters(TypedDict, total=False):
    """Filters of jobs. Each is optional; None does not filter."""

    status: str | Iterable[str] | None
    handler: str | None
    queue: str | None
    name: str | None
    search: str | None
    metadata: str | Iterable[str] | None
    tag: str | Iterable[str] | None
    owner: str | None
    origin: Literal["code", "api"] | None
    last_status: str | Iterable[str] | None
    paused: bool | None
    orphaned: bool | None
    overdue: bool | None
