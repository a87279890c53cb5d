"""Requests of the commands on queues, handlers and workers, and of lists of queues."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ...core.monitoring.queues import MOST_PROCESSES
from ...core.render.queues import QueueJson
from ...model.limits import MAX_CONCURRENCY
from .fields import WHOLE, Instant, Name, QueryFields, Reason, Strict
from .lists import ShortList, ShortListJson


class ControlPause(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"note": "the mail server is down"}]})

    note: Reason | None = None
    resume_at: Instant | None = None


class QueueLimit(Strict):
    """The new ceilings. A ceiling that is left out, or null, is removed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"concurrency": 5, "rate": "100/m"}]})

    concurrency: Annotated[int, Field(ge=1, le=MAX_CONCURRENCY), WHOLE] | None = None
    rate: (
        Annotated[str, Field(min_length=3, max_length=40, description='Such as "50/s", "100/m", "1000/h".')] | None
    ) = None


class Drain(Strict):
    note: Reason | None = None


class QueueList(ShortList):
    paused: bool | None = None
    sort: Literal[
        "name",
        "-name",
        "ready",
        "-ready",
        "planned",
        "-planned",
        "running",
        "-running",
        "oldest",
        "-oldest",
        "rate_in",
        "-rate_in",
        "rate_out",
        "-rate_out",
    ] = "name"


class QueuesJson(ShortListJson):
    items: list[QueueJson]


class ScaleRequest(QueryFields):
    queue: Annotated[Name | None, Field(description="All queues together if it is left out.")] = None
    min: Annotated[int, Field(ge=0, le=MOST_PROCESSES, description="The minimum of `wanted`.")] = 0
    max: Annotated[int, Field(ge=0, le=MOST_PROCESSES, description="The maximum of `wanted`; at least `min`.")] = (
        MOST_PROCESSES
    )
