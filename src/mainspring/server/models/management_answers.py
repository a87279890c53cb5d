"""What answers about calendars, tokens, windows and the audit look like, for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...core.monitoring.missed_runs import MissedReason
from ...model.values.access import Role
from .answers import Audit, Instant, Output


class Audits(Output):
    items: list[Audit]
    limit: int
    offset: int
    next_cursor: Annotated[
        str | None, Field(description="Go on from here; a page may be shorter than asked for and not be the last.")
    ]


class MissedRuns(Output):
    job: str
    first_missed: Instant
    last_missed: Instant
    count: int
    exact: Annotated[bool, Field(description="False when there were too many to count.")]
    reason: Annotated[
        MissedReason | None, Field(description="As far as could be seen when it was told; null of older entries.")
    ]
    reported_at: Instant


class MissedRunPage(Output):
    items: list[MissedRuns]
    limit: int
    offset: int
    next_cursor: Annotated[
        str | None, Field(description="Go on from here; a page may be shorter than asked for and not be the last.")
    ]


class CalendarEntry(Output):
    entry: str
    label: str


class CalendarSummary(Output):
    name: str
    origin: Literal["code", "operator"]
    declared: Annotated[bool, Field(description="Code declares one of this name.")]
    updated_by: str
    updated_at: Instant
    count: Annotated[int, Field(description="How many entries it has.")]


class Calendar(CalendarSummary):
    entries: list[CalendarEntry]


class Token(Output):
    id: str
    name: str
    role: Role
    status: Literal["active", "expired", "revoked"]
    created_at: Instant
    created_by: str
    expires_at: Instant | None
    last_used_at: Instant | None
    revoked_at: Instant | None
    revoked_by: str | None


class NewToken(Token):
    token: Annotated[
        str | None,
        Field(description="Its text, told once and stored nowhere; null in an answer repeated for an Idempotency-Key."),
    ]


class WindowStatus(Output):
    begin: Instant
    end: Instant
    state: Literal["done", "failed", "missing", "running"]
    execution_id: str | None
    last_status: str | None
    runs: int
    finished_at: Instant | None


class WindowCounts(Output):
    done: int
    failed: int
    missing: int
    running: int


class Windows(Output):
    job: str
    counts: Annotated[WindowCounts, Field(description="Of the whole range, whatever state is asked for.")]
    items: list[WindowStatus]
    total: int
    limit: int
    offset: int
