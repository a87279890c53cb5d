"""The filters as typed arguments of `app.executions` and `app.jobs`. A test compares them with the tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from ...model.execution import Status, TriggeredBy
from ...model.job import JobStatus
from ...model.values.given import Duration, When


class FiltersBesideJob(TypedDict, total=False):
    """Filters of executions. Each is optional; None does not filter."""

    handler: str | None
    queue: str | None
    status: Status | Iterable[Status] | None
    running: bool | None
    reason: str | None
    error_group: str | None
    error: str | None
    tenant: str | None
    worker: str | None
    release: str | None
    trigger: TriggeredBy | None
    search: str | Iterable[str] | None
    longer_than: Duration | None
    since: When | None
    until: When | None
    trace_id: str | None
    parent_id: str | None


class JobFilters(TypedDict, total=False):
    """Filters of jobs. Each is optional; None does not filter."""

    status: JobStatus | Iterable[JobStatus] | None
    handler: str | None
    queue: str | None
    name: str | None
    search: str | None
    metadata: str | Iterable[str] | None
    tag: str | Iterable[str] | None
    owner: str | None
    origin: Literal["code", "api"] | None
    last_status: Status | Iterable[Status] | None
    paused: bool | None
    orphaned: bool | None
    overdue: bool | None
