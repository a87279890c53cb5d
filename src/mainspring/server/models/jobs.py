"""Requests about jobs. The fields of a job come from the table of options (`core/declaring/options.py`).

HTTP cannot set `handler` (another handler makes another job), `tenants` and `tenant_context` (functions),
`allow_override` (it is about a declaration in code), and triggers that have no text form.
"""

from __future__ import annotations

from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from ...core.declaring import options
from ...core.filters import jobs as filters
from ...core.queries.job_lists import SORTS
from ...model import windows
from ...model.calendars.hours import Hours
from ...model.limits import Limit
from ...model.policies import CatchUp, Retention, Retry
from .fields import MOST_PER_PAGE, NO_NUL, PAGE, WHOLE, Duration, Name, Offset, QueryFields, Short, Strict
from .filters import System, filter_model

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
    """What happens to missed ticks, with limits: `max_runs` and `pace` need `all`, `max_age` `latest` or `all`."""

    rule: Literal["skip", "latest", "all"]
    max_age: Duration | None = None
    max_runs: Annotated[int, Field(ge=1, le=1_000), WHOLE] = 100
    pace: Duration = 5.0


class RetryFields(Strict):
    """Waits between tries: `initial`, and each next one `multiplier` times as long, up to `max`; or each one by itself,
    as `delays`."""

    initial: Duration = 2.0
    multiplier: Annotated[float, Field(ge=1, le=100)] | None = None
    max: Duration | None = None
    jitter: Annotated[float, Field(ge=0, le=1, description="Varies each wait by up to this share.")] = 0.0
    delays: Annotated[list[Duration], Field(max_length=100, description="The last one repeats.", default_factory=list)]


class OffsetFields(Strict):
    """The window between two distances before the tick; without the second, it ends at the tick."""

    offset: Annotated[list[Duration], Field(min_length=1, max_length=2, examples=[["2h", "1h"]])]


class WindowFields(Strict):
    """A window, with limits for windows that callers choose instead."""

    window: Annotated[str, Field(max_length=100)] | OffsetFields
    max_span: Duration | None = None
    align: Literal["hour", "day", "week", "month"] | None = None


_Texts = (
    Annotated[str, Field(max_length=500)]
    | Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=100)]
)


class HoursFields(Strict):
    """`only`: open in these calendars only; `closed`: never open in these."""

    times: Annotated[_Texts, Field(default_factory=list, examples=["09:00-12:00, 13:00-17:00"])]
    days: Annotated[
        Annotated[str, Field(max_length=100)]
        | Annotated[list[Annotated[int, Field(ge=1, le=7), WHOLE]], Field(max_length=7)],
        Field(examples=["mon-fri"], description="Monday is 1; every day by default."),
    ] = "mon-sun"
    only: Annotated[_Texts, Field(default_factory=list)]
    closed: Annotated[_Texts, Field(default_factory=list)]


_Days = Annotated[float, Field(ge=0, le=MOST_DAYS)]


class RetentionFields(Strict):
    """How long finished executions stay. One is pruned only when it is both old and not among the newest."""

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


_MODELS: dict[Any, type[BaseModel]] = {
    Retry: RetryFields,
    CatchUp: CatchUpFields,
    Limit: LimitFields,
    Retention: RetentionFields,
    Hours: HoursFields,
    windows.Offset: OffsetFields,
    windows.Limited: WindowFields,
    options.PingAddresses: PingFields,
}
"""What the objects of the model look like in requests."""

_BOUNDS = ("ge", "le", "min_length", "max_length", "pattern", "description", "examples")


def _request_type(json: Any) -> Any:
    """The type of an option in the table, as pydantic knows types."""
    if json in _MODELS:
        return _MODELS[json]
    origin, parts = get_origin(json), get_args(json)
    if origin is Annotated:
        bounds = {name: bound for name in _BOUNDS if (bound := getattr(parts[1], name)) is not None}
        kind, field = _request_type(parts[0]), Field(**bounds)
        return Annotated[kind, field, WHOLE] if parts[0] is int else Annotated[kind, field]
    if origin in (Union, UnionType):
        return Union[tuple(_request_type(part) for part in parts)]  # noqa: UP007  # made at run time
    return origin[tuple(_request_type(part) for part in parts)] if origin in (list, dict) else json


def _field(field: options.HttpField) -> Any:
    return Annotated[_request_type(field.json) | None, Field(description=field.meaning)], None


if TYPE_CHECKING:

    class JobFields(Strict): ...
else:
    JobFields = create_model(
        "JobFields",
        __base__=Strict,
        __doc__="The fields of a job that can be set and changed.",
        **{name: _field(field) for name, field in options.HTTP_FIELDS.items()},
    )


_CREATE_EXAMPLES: list[Any] = [
    {"name": "crawl-news", "handler": "crawl", "params": {"url": "http://localhost/news"}, "interval_minutes": 30},
    {"handler": "crawl", "params": {"url": "http://localhost/now"}},
    {"name": "nightly", "handler": "report", "schedule": "0 30 3 * * *", "timezone": "Europe/Paris", "max_retries": 5},
]


class JobCreate(JobFields):
    """A new job. Without a schedule and an interval, or with `schedule_enabled` false, it runs once, at once."""

    model_config = ConfigDict(json_schema_extra={"examples": _CREATE_EXAMPLES})

    name: Annotated[Name | None, Field(description="Generated when it is left out.")] = None
    handler: Annotated[Name, Field(description="The code that it runs.")]


class OpenJobCreate(JobFields):
    """A new job of the configured handler, unless it names another. Fields that are not listed are parameters."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": _CREATE_EXAMPLES})

    name: Annotated[Name | None, Field(description="Generated when it is left out.")] = None
    handler: Name | None = None


def _may_be_null(field: str) -> bool:
    option = options.OPTIONS[options.HTTP_FIELDS[field].option]
    return options.OPTIONS[option.field].nullable


def _of_update(schema: dict[str, Any]) -> None:
    """Null is only allowed for fields that may be missing, so the document offers it for those only."""
    schema["examples"] = [{"interval_minutes": 15}, {"schedule": None}]
    for name, field in schema["properties"].items():
        if not _may_be_null(name):
            field["anyOf"] = [each for each in field["anyOf"] if each != {"type": "null"}]
            field.pop("default", None)


class JobUpdate(JobFields):
    """Only the named fields change; an object is replaced as a whole. `null` removes an option that may be missing."""

    model_config = ConfigDict(json_schema_extra=_of_update)


class OpenJobUpdate(JobUpdate):
    """Only the named fields change. Fields that are not listed are parameters, of which the others stay too."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_of_update)


if TYPE_CHECKING:

    class JobFilterFields(QueryFields): ...
else:
    JobFilterFields = filter_model("JobFilterFields", QueryFields, filters.FIELDS)


class JobList(JobFilterFields):
    """Filters, sorting and paging of jobs."""

    q: Annotated[Short | None, Field(description="The same as `search`.")] = None
    sort: Annotated[Literal[SORTS], Field(description="A `-` before the field reverses the order.")] = "name"  # type: ignore[valid-type]
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = PAGE
    offset: Offset = 0
    cursor: Annotated[
        str | None, Field(max_length=100, pattern=NO_NUL, description="`next_cursor` of the previous page.")
    ] = None
    system: System = False


class JobRemoval(Strict):
    model_config = ConfigDict(strict=False)

    force: Annotated[
        bool,
        Field(description="Even if executions wait or run (they are cancelled), or other jobs come after it."),
    ] = False
    purge: Annotated[bool, Field(description="Remove its history too.")] = False
