"""Requests about workers, locks and the audit trail."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...core.monitoring.missed_runs import MissedReason
from ...core.render.entities import AuditJson, ChangeJson, HandlerJson, JsonForm, LockJson, MissedRunsJson, WorkerJson
from ...core.rules.activity import Span
from .fields import NO_NUL, PAGE, Cursor, Instant, Limit, Name, Offset, QueryFields, Short
from .lists import SearchedPageJson, ShortList, ShortListJson


class ActivitySpan(QueryFields):
    span: Annotated[
        Span, Field(description="The last hour by minute, 24 hours by quarter of an hour, or 7 days by hour.")
    ] = "24h"


class WorkerList(ShortList):
    role: Literal["scheduler", "worker", "api"] | None = None
    queue: Annotated[Short | None, Field(description="Only workers that serve this queue.")] = None
    handler: Annotated[Short | None, Field(description="Only workers that have this handler.")] = None
    sort: Literal[
        "id", "-id", "host", "-host", "started_at", "-started_at", "last_heartbeat_at", "-last_heartbeat_at"
    ] = "id"


class WorkersJson(ShortListJson):
    items: list[WorkerJson]


class HandlerList(ShortList):
    known_here: bool | None = None
    paused: bool | None = None
    sort: Literal["name", "-name"] = "name"


class HandlersJson(ShortListJson):
    items: list[HandlerJson]


class LockList(ShortList):
    kind: Literal["lock", "overlap", "unique"] | None = None
    owner: Short | None = None
    sort: Literal["name", "-name", "acquired_at", "-acquired_at", "expires_at", "-expires_at"] = "name"
    cursor: Annotated[
        str | None, Field(min_length=1, max_length=1_000, pattern=NO_NUL, description="`next_cursor` of an answer.")
    ] = None


class LocksJson(ShortListJson):
    items: list[LockJson]
    next_cursor: str | None


class AuditList(QueryFields):
    target: Annotated[Short | None, Field(description="Such as job:crawl or lock:import.")] = None
    actor: Short | None = None
    action: Short | None = None
    request_id: Short | None = None
    sort: Annotated[Literal["-at", "at"], Field(description="Newest first, or oldest first.")] = "-at"
    since: Annotated[Instant | None, Field(description="At this time or later; `2h` is two hours ago.")] = None
    until: Annotated[Instant | None, Field(description="Before this time.")] = None
    limit: Limit = PAGE
    offset: Offset = 0
    cursor: Cursor | None = None


class AuditsJson(SearchedPageJson):
    items: list[AuditJson]


class ChangeList(QueryFields):
    job: Annotated[Name | None, Field(description="Changes to this job, and deploys.")] = None
    since: Annotated[
        Instant | None, Field(description="At this time or later; `2h` is two hours ago; 24h by default.")
    ] = None
    until: Annotated[Instant | None, Field(description="Before this time.")] = None
    limit: Limit = PAGE


class ChangesJson(JsonForm):
    items: list[ChangeJson]
    limit: int


class MissedRunList(QueryFields):
    job: Name | None = None
    reason: Annotated[
        MissedReason | None,
        Field(description="No scheduler was running; or one was, and had not created the runs."),
    ] = None
    since: Annotated[Instant | None, Field(description="First missed then or later; `2h` is two hours ago.")] = None
    until: Annotated[Instant | None, Field(description="First missed before this time.")] = None
    limit: Limit = PAGE
    offset: Offset = 0
    cursor: Annotated[str | None, Field(min_length=1, max_length=100, pattern=NO_NUL)] = None


class MissedRunPageJson(SearchedPageJson):
    items: list[MissedRunsJson]
