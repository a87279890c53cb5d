"""Requests about error groups."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ...core.render.entities import JsonForm
from ...core.render.errors import ErrorGroupJson
from .bulk import Pace
from .fields import MOST_OFFSET, WHOLE, Limit, LocalTime, QueryFields, Reason, Short, Strict


class ErrorList(QueryFields):
    job: Annotated[Short | None, Field(description="Only errors that occurred in this job.")] = None
    tenant: Annotated[Short | None, Field(description="Only errors that occurred for this tenant.")] = None
    since: Annotated[LocalTime | None, Field(description="Last seen at this time or later; `2h` is two hours ago.")] = (
        None
    )
    muted: Annotated[bool | None, Field(description="Whether it is muted.")] = None
    sort: Annotated[
        Literal["last_seen", "count", "first_seen"], Field(description="The greatest or the latest first.")
    ] = "last_seen"
    limit: Limit = 100
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = 0


class ErrorPageJson(JsonForm):
    items: list[ErrorGroupJson]
    total: int
    limit: int
    offset: int


class ErrorMute(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"note": "the supplier is down", "until": None}]})

    note: Reason | None = None
    until: Annotated[LocalTime | None, Field(description="The mute ends then at the latest.")] = None


class ErrorRetry(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"probe": 5, "note": "fixed in 1.4"}]})

    pace: Pace | None = None
    probe: Annotated[
        int, Field(ge=0, le=100, description="Run this many first, and the rest if they complete."), WHOLE
    ] = 0
    note: Reason | None = None
