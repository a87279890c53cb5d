"""What requests may say. Strict: a number is not a text, an unknown field is an error, everything has a bound.

What a value means is not decided here: names, durations, schedules and instants are read by the rules of core.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ..model.execution import State
from ..model.job import JobState

PAGE = 50
MOST_PER_PAGE = 200
MOST_OFFSET = 10_000


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is a whole one, and the document says so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")]
NO_NUL = r"^[^\x00]*$"  # which no store takes
Text = Annotated[str, Field(max_length=1_000, pattern=NO_NUL)]
Short = Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL)]
Instant = Annotated[str, Field(min_length=1, max_length=64, description="ISO 8601 with an offset, or a trailing Z.")]
Duration = Annotated[
    float | Annotated[str, Field(min_length=1, max_length=32)],
    Field(description='Seconds, or text such as "250ms", "10m", "1h30m".'),
]
Params = Annotated[dict[str, Any], Field(description="Parameters of the handler, checked against its signature.")]
JobStateName = Annotated[JobState, Field(strict=False)]  # in JSON a state is its name
StateName = Annotated[State, Field(strict=False)]
Reason = Annotated[str, Field(min_length=1, max_length=1_000, pattern=NO_NUL)]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class LimitFields(Strict):
    """A limit by key, over all nodes: either `concurrency`, or `rate` with a `burst`."""

    key: Annotated[str, Field(min_length=1, max_length=200, description="May hold {tenant}, {job}, {params.name}.")]
    concurrency: Annotated[int, Field(ge=1, le=100_000), WHOLE] | None = None
    rate: Annotated[
        float | Annotated[str, Field(min_length=1, max_length=32)] | None,
        Field(description='How many may begin: a number per second, or text such as "100/m".'),
    ] = None
    burst: Annotated[int, Field(ge=1, le=100_000), WHOLE] | None = None


# --- jobs -----------------------------------------------------------------------------------------------------


class JobFields(Strict):
    """The fields of a job that can be set and changed."""

    description: Text | None = None
    params: Params | None = None
    schedule: Annotated[
        str | None,
        Field(
            max_length=500,
            description="Cron (5 fields, or 6 with seconds first), `@every 30m`, or `@once 2030-01-01T00:00:00Z`.",
        ),
    ] = None
    timezone: Annotated[str, Field(max_length=100, description="An IANA name.")] | None = None
    interval_minutes: Annotated[
        Annotated[int, Field(ge=1, le=52_560_000), WHOLE] | None,
        Field(description="How many of interval_type; wins over schedule."),
    ] = None
    interval_type: Literal["minutes", "hours", "days"] | None = None
    schedule_enabled: Annotated[bool | None, Field(description="False: triggerable, never ticking.")] = None
    max_retries: Annotated[
        Annotated[int, Field(ge=0, le=999), WHOLE] | None,
        Field(description="Tries after the first one; 3 for new jobs."),
    ] = None
    retry_backoff_seconds: Annotated[
        float | None,
        Field(ge=0, le=2_592_000, description="Before the first retry, doubled for each next, at most an hour."),
    ] = None
    queue: Name | None = None
    priority: Annotated[int, Field(ge=-32_768, le=32_767), WHOLE] | None = None
    timeout: Duration | None = None
    overlap: Literal["skip", "queue", "allow", "cancel_running"] | None = None
    overlap_limit: Annotated[int, Field(ge=1, le=1_000), WHOLE] | None = None
    limits: Annotated[list[LimitFields], Field(max_length=4)] | None = None
    after: Annotated[
        Annotated[list[Name], Field(max_length=100)] | None,
        Field(description="Jobs whose ending it follows, once all of them have ended."),
    ] = None
    on_failed_parent: Annotated[
        Literal["skip", "run"] | None, Field(description="What becomes of it when one of those did not complete.")
    ] = None
    not_before: Annotated[
        Annotated[str, Field(max_length=20)] | None,
        Field(description="The time of day, in its zone, before which it does not follow.", examples=["06:00"]),
    ] = None
    weights: Annotated[
        dict[Short, Annotated[int, Field(ge=1, le=1_000), WHOLE]] | None,
        Field(max_length=1_000, description='How much of its queue a tenant gets beside others; "*" is for the rest.'),
    ] = None
    missed: Literal["skip", "latest", "all"] | None = None
    grace: Duration | None = None
    window: Annotated[str | None, Field(max_length=100)] = None
    metadata: dict[str, Any] | None = None


_CREATE_EXAMPLES: list[Any] = [
    {"name": "crawl-news", "handler": "crawl", "params": {"url": "http://localhost/news"}, "interval_minutes": 30},
    {"handler": "crawl", "params": {"url": "http://localhost/now"}},
    {"name": "nightly", "handler": "report", "schedule": "0 30 3 * * *", "timezone": "Europe/Paris", "max_retries": 5},
]


class JobCreate(JobFields):
    """A new job. Without a schedule and an interval, or with `schedule_enabled` false, it runs once, at once."""

    model_config = ConfigDict(json_schema_extra={"examples": _CREATE_EXAMPLES})

    name: Annotated[Name | None, Field(description="Made up when it is left out.")] = None
    handler: Annotated[Name, Field(description="The code that it runs.")]


class OpenJobCreate(JobFields):
    """A new job of the configured handler, unless it names another. Fields that are not listed are parameters."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": _CREATE_EXAMPLES})

    name: Annotated[Name | None, Field(description="Made up when it is left out.")] = None
    handler: Name | None = None


_MAY_BE_NULL = {
    "schedule",
    "interval_minutes",
    "interval_type",
    "timeout",
    "grace",
    "window",
    "overlap_limit",
    "after",
    "not_before",
}


def _of_update(schema: dict[str, Any]) -> None:
    """The rules of core refuse null for the other fields, so the document does not offer it."""
    schema["examples"] = [{"interval_minutes": 15}, {"schedule": None}]
    for name, field in schema["properties"].items():
        if name not in _MAY_BE_NULL:
            field["anyOf"] = [each for each in field["anyOf"] if each != {"type": "null"}]
            field.pop("default", None)


class JobUpdate(JobFields):
    """Only what is named changes. `null` takes a schedule, interval, timeout, grace, window or limit away."""

    model_config = ConfigDict(json_schema_extra=_of_update)


class JobList(Strict):
    """Filters, sorting and paging of jobs. Query parameters are text, so numbers and switches are read from it."""

    model_config = ConfigDict(strict=False)

    status: Annotated[list[JobState] | None, Field(max_length=7)] = None
    handler: Short | None = None
    queue: Short | None = None
    origin: Literal["code", "api"] | None = None
    last_status: State | None = None
    paused: bool | None = None
    orphaned: bool | None = None
    search: Annotated[
        str | None, Field(max_length=200, pattern=NO_NUL, description="Part of a name, handler or description.")
    ] = None
    q: Annotated[str | None, Field(max_length=200, pattern=NO_NUL, description="The same as `search`.")] = None
    sort: Literal[
        "name",
        "-name",
        "status",
        "-status",
        "handler",
        "-handler",
        "next_run_at",
        "-next_run_at",
        "last_run_at",
        "-last_run_at",
        "created_at",
        "-created_at",
        "updated_at",
        "-updated_at",
    ] = "name"
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = PAGE
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = 0
    cursor: Annotated[
        str | None, Field(max_length=100, pattern=NO_NUL, description="`next_cursor` of the page before.")
    ] = None


class JobRemoval(Strict):
    model_config = ConfigDict(strict=False)

    force: Annotated[
        bool,
        Field(description="Also while something of it waits or runs (that is cancelled), or others come after it."),
    ] = False
    purge: Annotated[bool, Field(description="Remove its history too.")] = False


# --- commands -------------------------------------------------------------------------------------------------


class Pause(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"note": "the shop is closed"}]})

    note: Reason | None = None
    resume_at: Instant | None = None


class Cancel(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "wrong month"}]})

    reason: Reason | None = None


class Window(Strict):
    begin: Instant
    end: Instant


class Trigger(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"params": {"url": "http://localhost/once"}}]})

    params: Params | None = None
    window: Window | None = None
    tenant: Annotated[Short | None, Field(description="For this tenant alone.")] = None
    tenants: Annotated[list[Short], Field(min_length=1, max_length=10_000)] | None = None


class Empty(Strict):
    """Commands that take nothing take an empty object, or no body."""


# --- executions -----------------------------------------------------------------------------------------------


class ExecutionFilter(Strict):
    model_config = ConfigDict(strict=False)

    status: Annotated[list[State] | None, Field(max_length=8)] = None
    running: bool | None = None
    trigger: Literal["schedule", "api", "manual", "enqueue", "retry", "backfill", "catch_up", "dependency"] | None = (
        None
    )
    tenant: Short | None = None
    trace_id: Short | None = None
    parent_id: Short | None = None
    since: Annotated[Instant | None, Field(description="Made at this time or later.")] = None
    until: Annotated[Instant | None, Field(description="Made before this time.")] = None


class JobExecutionList(ExecutionFilter):
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = PAGE
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = 0
    cursor: Annotated[str | None, Field(min_length=1, max_length=100, pattern=NO_NUL)] = None


class ExecutionList(JobExecutionList):
    job: Name | None = None


class LogList(Strict):
    model_config = ConfigDict(strict=False)

    after: Annotated[int, Field(ge=0, le=2**53, description="Only lines with a greater number.")] = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 1_000


# --- the rest -------------------------------------------------------------------------------------------------


class BackfillCreate(Strict):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"job": "vpos-summary", "begin": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z", "dry_run": True}
            ]
        }
    )

    job: Name
    begin: Instant | None = None
    end: Instant | None = None
    params: Params | None = None
    order: Literal["oldest", "newest"] = "oldest"
    concurrency: Annotated[int, Field(ge=1, le=1_000), WHOLE] = 1
    pace: Duration | None = None
    only: Literal["holes", "missing", "failed"] = "holes"
    force: bool = False
    dry_run: bool = False
    note: Reason | None = None
