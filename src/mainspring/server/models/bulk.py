"""Requests that steer many jobs or executions at once: which, and what to do with them. Filters have the same names as
in the client and on the command line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta
from pydantic import ConfigDict, Field, model_validator

from ...core.render.entities import JsonForm
from ..responses import ErrorBodyJson
from .fields import Instant, JobStateName, Name, Reason, Short, StateName, Strict

MOST_IN_BULK = 1_000

_Ids = Annotated[list[Short], Field(min_length=1, max_length=MOST_IN_BULK)]
_After = Annotated[
    Short | None, Field(description="`next` of the previous answer, to continue there; only with a filter.")
]


def _of_filter(schema: dict[str, Any]) -> None:
    """An empty filter would match everything, so at least one field is required, and null is not allowed."""
    schema["minProperties"] = 1
    for field in schema["properties"].values():
        field["anyOf"] = [each for each in field["anyOf"] if each != {"type": "null"}]
        field.pop("default", None)


class _Filter(Strict):
    model_config = ConfigDict(json_schema_extra=_of_filter)

    @model_validator(mode="before")
    @classmethod
    def _says_something(cls, given: Any) -> Any:
        if isinstance(given, dict) and any(value is None for value in given.values()):
            raise ValueError("null is not allowed: leave the field out")
        return given


class JobBulkFilter(_Filter):
    status: Annotated[list[JobStateName], Field(min_length=1, max_length=7)] | None = None
    handler: Short | None = None
    queue: Short | None = None
    origin: Literal["code", "api"] | None = None
    last_status: StateName | None = None
    paused: bool | None = None
    orphaned: bool | None = None
    search: Annotated[Short | None, Field(description="Part of a name, handler or description.")] = None


class ExecutionBulkFilter(_Filter):
    job: Name | None = None
    status: Annotated[list[StateName], Field(min_length=1, max_length=8)] | None = None
    trigger: Literal["schedule", "api", "manual", "enqueue", "retry", "backfill", "catch_up", "dependency"] | None = (
        None
    )
    tenant: Short | None = None
    trace_id: Short | None = None
    parent_id: Short | None = None
    since: Instant | None = None
    until: Instant | None = None


_ONE_OF_THEM: list[Any] = [
    {
        "required": ["ids"],
        "properties": {"ids": {"type": "array"}, "filter": {"type": "null"}, "after": {"type": "null"}},
    },
    {"required": ["filter"], "properties": {"filter": {"type": "object"}, "ids": {"type": "null"}}},
]


class _Chosen(Strict):
    """Those named by `ids`, or all that match the filter."""

    @model_validator(mode="after")
    def _one_of_them(self) -> _Chosen:
        if (getattr(self, "ids", None) is None) == (getattr(self, "filter", None) is None):
            raise ValueError("give either ids or filter")
        return self


class JobBulk(_Chosen):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"command": "pause", "filter": {"queue": "reports"}}], "oneOf": _ONE_OF_THEM}
    )

    command: Literal["pause", "resume", "cancel", "retry"]
    ids: _Ids | None = None
    filter: JobBulkFilter | None = None
    after: _After = None
    note: Annotated[Reason | None, Field(description="Why; for pause and cancel.")] = None


class ExecutionBulk(_Chosen):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"command": "retry", "filter": {"job": "crawl", "status": ["failed"]}}],
            "oneOf": _ONE_OF_THEM,
        }
    )

    command: Literal["cancel", "retry"]
    ids: _Ids | None = None
    filter: ExecutionBulkFilter | None = None
    after: _After = None
    note: Annotated[Reason | None, Field(description="Why; for cancel.")] = None


class BulkItemJson(JsonForm):
    id: str
    done: bool
    execution_id: str | None = None
    status: str | None = None
    error: ErrorBodyJson | None = None


class BulkJson(JsonForm):
    command: str
    matched: int
    done: int
    refused: int
    more: Annotated[bool, Meta(description="The filter matches more than one request handles.")]
    next: Annotated[str | None, Meta(description="Send it as `after` to continue.")]
    results: list[BulkItemJson]
