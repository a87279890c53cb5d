"""What requests may say of a job: every option of a declaration that is not code. As strict as `models`.

Not to be set over HTTP are `handler` (another handler makes another job), `tenants` and `tenant_context` (functions),
`allow_override` (for code about its own declaration), and triggers that no text stands for. `enabled` is
`schedule_enabled` here, `max_attempts` is `max_retries` plus one, `cron` and `trigger` are `schedule`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ...model.execution import State
from ...model.job import JobState
from .commands import MOST_PER_PAGE, NO_NUL, PAGE, WHOLE, Duration, Name, Offset, Params, Short, Strict, Text

MOST_DAYS = 36_500

# --- the parts of a policy ----------------------------------------------------------------------------------------


class LimitFields(Strict):
    """A limit by key, over all nodes: either `concurrency`, or `rate` with a `burst`."""

    key: Annotated[str, Field(min_length=1, max_length=200, description="May hold {tenant}, {job}, {params.name}.")]
    concurrency: Annotated[int, Field(ge=1, le=100_000), WHOLE] | None = None
    rate: Annotated[
        float | Annotated[str, Field(min_length=1, max_length=32)] | None,
        Field(description='How many may begin: a number per second, or text such as "100/m".'),
    ] = None
    burst: Annotated[int, Field(ge=1, le=100_000), WHOLE] | None = None


class CatchUpFields(Strict):
    """What becomes of missed ticks, with limits; `max_runs` and `pace` go with `all`, `max_age` with `latest` too."""

    rule: Literal["skip", "latest", "all"]
    max_age: Duration | None = None
    max_runs: Annotated[int, Field(ge=1, le=1_000), WHOLE] = 100
    pace: Duration = 5.0


Missed = Literal["skip", "latest", "all"] | CatchUpFields


class RetryFields(Strict):
    """Waits between tries: `initial`, and each next one `multiplier` times as long, up to `max`."""

    initial: Duration = 2.0
    multiplier: Annotated[float, Field(ge=1, le=100)] | None = None
    max: Duration | None = None
    jitter: Annotated[float, Field(ge=0, le=1, description="Spreads each wait by up to that share.")] = 0.0


Waits = Literal["queue", "tenant", "patient"] | RetryFields


class OffsetFields(Strict):
    """From so long before the tick to so long before it; without the second, to the tick itself."""

    offset: Annotated[list[Duration], Field(min_length=1, max_length=2, examples=[["2h", "1h"]])]


class WindowFields(Strict):
    """A window with limits for those that callers give instead."""

    window: Annotated[str, Field(max_length=100)] | OffsetFields
    max_span: Duration | None = None
    align: Literal["hour", "day", "week", "month"] | None = None


_Texts = (
    Annotated[str, Field(max_length=500)]
    | Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=100)]
)


class HoursFields(Strict):
    """`only`: open in these calendars alone; `closed`: never in these."""

    times: Annotated[_Texts, Field(default_factory=list, examples=["09:00-12:00, 13:00-17:00"])]
    days: Annotated[
        Annotated[str, Field(max_length=100)]
        | Annotated[list[Annotated[int, Field(ge=1, le=7), WHOLE]], Field(max_length=7)],
        Field(examples=["mon-fri"], description="Monday is 1; every day if nothing is said."),
    ] = "mon-sun"
    only: Annotated[_Texts, Field(default_factory=list)]
    closed: Annotated[_Texts, Field(default_factory=list)]


_Days = Annotated[float, Field(ge=0, le=MOST_DAYS)]


class RetentionFields(Strict):
    """How long finished executions stay. One goes only when it is both old and not among the newest."""

    newest: Annotated[int, Field(ge=0, le=10_000_000), WHOLE] = 100
    days: _Days = 30.0
    on_demand_success_days: _Days = 7.0
    skipped_days: _Days = 7.0
    at_most: Annotated[int, Field(ge=1, le=1_000_000_000), WHOLE] | None = None
    keep_success: bool = True
    by_state: Annotated[
        dict[Literal["completed", "partial", "failed", "cancelled", "skipped"], _Days],
        Field(default_factory=dict, description="Days for single states."),
    ]


Address = Annotated[str, Field(min_length=1, max_length=1_000, examples=["https://hc.example/abc"])]


class PingFields(Strict):
    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    success: Address | None = None
    failure: Address | None = None
    start: Address | None = None


# --- jobs ---------------------------------------------------------------------------------------------------------


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
    missed: Missed | None = None
    missed_while_paused: Missed | None = None
    grace: Duration | None = None
    window: Annotated[
        Annotated[str, Field(max_length=100)] | OffsetFields | WindowFields | None,
        Field(description="The data that a run covers, such as yesterday."),
    ] = None
    hours: Annotated[
        Annotated[str, Field(max_length=500)] | HoursFields | None,
        Field(description="When its ticks may run, in its zone; as text: the times alone."),
    ] = None
    outside: Annotated[Literal["skip", "wait"] | None, Field(description="What becomes of ticks outside of them.")] = (
        None
    )
    retry: Annotated[Waits | None, Field(description="Waits between tries; either this or retry_backoff_seconds.")] = (
        None
    )
    non_retryable: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]] | None,
        Field(max_length=100, description="Names of exceptions after which no try is left, such as ValueError."),
    ] = None
    retention: RetentionFields | None = None
    trigger_role: Annotated[
        Literal["operator", "admin"] | None, Field(description="What who steers it needs; never more than you have.")
    ] = None
    ping: Annotated[
        Address | PingFields | None, Field(description="Dead-man's switches; a single address is asked on success.")
    ] = None
    tenant_concurrency: Annotated[
        Annotated[int, Field(ge=1, le=100_000), WHOLE] | None,
        Field(description="Of a job that has tenants: how many of them run at once."),
    ] = None
    tenant_max_attempts: Annotated[int, Field(ge=1, le=1_000), WHOLE] | None = None
    tenant_retry: Waits | None = None
    continue_on_failure: Annotated[
        bool | None, Field(description="Whether other tenants go on when one has failed for good.")
    ] = None
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
    "hours",
    "trigger_role",
    "ping",
    "tenant_concurrency",
}


def _of_update(schema: dict[str, Any]) -> None:
    """The rules of core refuse null for the other fields, so the document does not offer it."""
    schema["examples"] = [{"interval_minutes": 15}, {"schedule": None}]
    for name, field in schema["properties"].items():
        if name not in _MAY_BE_NULL:
            field["anyOf"] = [each for each in field["anyOf"] if each != {"type": "null"}]
            field.pop("default", None)


class JobUpdate(JobFields):
    """Only what is named changes; what is an object is set whole. `null` takes a schedule, interval, timeout, grace,
    window, hours, limit, role or ping away."""

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
    offset: Offset = 0
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
