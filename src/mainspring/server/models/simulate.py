"""The request for a simulation, and its answer."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from pydantic import Field

from ...core.forecast.json_forms import ClockChangeJson, ForecastRunJson, ForecastTotalsJson, JobForecastJson
from ...core.render.entities import Instant, JsonForm
from .fields import NO_NUL, PAGE, Limit, Name, QueryFields, Short

MOST_NAMES = 50
MOST_SKIPPED = 1_000
"""Runs are merged one by one from those of all jobs: this takes about 10 ms."""


class SimulationQuery(QueryFields):
    span: Annotated[
        str,
        Field(min_length=1, max_length=32, description="How far ahead to look, such as `24h` or `7d`; at most 31d."),
    ] = "24h"
    job: Annotated[list[Name] | None, Field(max_length=MOST_NAMES, description="Only these jobs; may be repeated.")] = (
        None
    )
    queue: Annotated[Short | None, Field(description="Only jobs of this queue.")] = None
    duration: Annotated[
        list[Annotated[str, Field(min_length=3, max_length=200, pattern=NO_NUL)]] | None,
        Field(
            max_length=MOST_NAMES,
            description="How long runs take: `report=45m`; may be repeated. By default, the mean of past runs.",
        ),
    ] = None
    timezone: Annotated[
        str | None,
        Field(min_length=1, max_length=100, pattern=NO_NUL, description="The zone of the answer's totals by hour."),
    ] = None
    limit: Limit = PAGE
    offset: Annotated[
        int, Field(ge=0, le=MOST_SKIPPED, description="How many runs to skip; further ahead, ask for fewer jobs.")
    ] = 0


class SimulationJson(JsonForm, rename={"begin": "from", "end": "to"}):
    begin: Instant
    end: Instant
    timezone: str
    totals: ForecastTotalsJson
    unfinished: Annotated[list[str], Meta(description="Jobs with more runs than were forecast; totals count those.")]
    left_out: Annotated[int, Meta(description="How many jobs were not forecast; they are those that run last.")]
    on_demand: Annotated[list[str], Meta(description="Jobs without runs to come: paused, disabled, or on demand.")]
    clock_changes: list[ClockChangeJson]
    jobs: list[JobForecastJson]
    runs: Annotated[list[ForecastRunJson], Meta(description="In order; go on with `offset`.")]
    total: Annotated[int, Meta(description="How many runs there are on all pages.")]
    limit: int
    offset: int
