"""What requests may say; of jobs, see `job_models`. Strict: a number is not a text, an unknown field is an error,
everything has a bound.

What a value means is not decided here: names, durations, schedules and instants are read by the rules of core.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ...model.execution import State
from ...model.job import JobState

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
Cursor = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", description="`next_cursor` of the page before."),
]
"""Of a list whose items have ids that sort by time."""
Offset = Annotated[
    int, Field(ge=0, le=MOST_OFFSET, description="How many of the list to pass over; not together with `cursor`.")
]
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
    sort: Annotated[
        Literal["-created_at", "created_at"],
        Field(description="Newest first, or oldest first."),
    ] = "-created_at"
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = PAGE
    offset: Offset = 0
    cursor: Cursor | None = None


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


class TenantList(Strict):
    model_config = ConfigDict(strict=False)

    status: Annotated[list[State] | None, Field(max_length=8)] = None
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = PAGE
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = 0
