"""Requests that start a backfill, and lists of backfills and windows."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta
from pydantic import ConfigDict, Field

from ...core.render.entities import BackfillJson, JsonForm, WindowStatusJson
from ...model.backfill import BackfillState
from .fields import PAGE, WHOLE, Duration, Limit, LocalTime, Name, Params, QueryFields, Reason, Strict
from .lists import ShortList, ShortListJson


class BackfillCreate(Strict):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"job": "vpos-summary", "begin": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z", "dry_run": True}
            ]
        }
    )

    job: Name
    begin: LocalTime | None = None
    end: LocalTime | None = None
    params: Params | None = None
    order: Literal["oldest", "newest"] = "oldest"
    concurrency: Annotated[int, Field(ge=1, le=1_000), WHOLE] = 1
    pace: Duration | None = None
    only: Literal["holes", "missing", "failed"] = "holes"
    force: bool = False
    dry_run: bool = False
    note: Reason | None = None


class BackfillList(ShortList):
    job: Name | None = None
    status: BackfillState | None = None
    limit: Limit = 20
    sort: Literal["created_at", "-created_at"] = "-created_at"


class BackfillsJson(ShortListJson):
    items: list[BackfillJson]


class WindowList(QueryFields):
    begin: LocalTime | None = None
    end: LocalTime | None = None
    state: Literal["done", "failed", "missing", "running"] | None = None
    limit: Limit = PAGE
    offset: Annotated[int, Field(ge=0, le=100_000)] = 0


class WindowCountsJson(JsonForm):
    done: int
    failed: int
    missing: int
    running: int


class WindowsJson(JsonForm):
    job: str
    counts: Annotated[WindowCountsJson, Meta(description="Of the whole range, whatever state is asked for.")]
    items: list[WindowStatusJson]
    total: int
    limit: int
    offset: int
