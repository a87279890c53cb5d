"""Requests that steer many jobs or executions at once: which, and what to do with them. Filters have the same names as
in the client and on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from ...core.filters import errors, executions, jobs
from ...core.render.entities import BulkActionItemJson, BulkActionJson, JsonForm
from ..responses import ErrorBodyJson
from .fields import WHOLE, Limit, QueryFields, Reason, Short, Strict
from .filters import filter_model
from .lists import ShortList, ShortListJson

MOST_IN_BULK = 1_000

_Ids = Annotated[list[Short], Field(min_length=1, max_length=MOST_IN_BULK)]


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


if TYPE_CHECKING:

    class JobBulkFilter(_Filter): ...

    class ExecutionBulkFilter(_Filter): ...

    class ErrorBulkFilter(_Filter): ...
else:
    JobBulkFilter = filter_model("JobBulkFilter", _Filter, jobs.FIELDS)
    ExecutionBulkFilter = filter_model("ExecutionBulkFilter", _Filter, executions.FIELDS)
    ErrorBulkFilter = filter_model("ErrorBulkFilter", _Filter, errors.FIELDS)


_ONE_OF_THEM: list[Any] = [
    {"required": ["ids"], "properties": {"ids": {"type": "array"}, "filter": {"type": "null"}}},
    {"required": ["filter"], "properties": {"filter": {"type": "object"}, "ids": {"type": "null"}}},
]


class _Chosen(Strict):
    """Those named by `ids`, or all that match the filter."""

    @model_validator(mode="after")
    def _one_of_them(self) -> _Chosen:
        if (getattr(self, "ids", None) is None) == (getattr(self, "filter", None) is None):
            raise ValueError("give either ids or filter")
        return self


class JobBulk(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"command": "pause", "ids": ["crawl"]}]})

    command: Literal["pause", "resume", "cancel", "retry"]
    ids: _Ids
    note: Annotated[Reason | None, Field(description="Why; for pause and cancel.")] = None


class ExecutionBulk(Strict):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"command": "retry", "ids": ["0199c1f2-7d5e-7abc-8def-0123456789ab"]}]}
    )

    command: Literal["cancel", "retry"]
    ids: _Ids
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
    results: list[BulkItemJson]


# --- bulk actions: objects with progress ----------------------------------------------------------------------

Pace = Annotated[
    Annotated[float, Field(ge=1 / 3600, le=100_000)] | Annotated[str, Field(max_length=20, pattern=r"^[0-9.]+/[smh]$")],
    Field(description='The maximum rate: items per second, or text such as "60/m".', examples=["100/s"]),
]
_Params = Annotated[dict[str, Any], Field(description="New values of single parameters; the others stay.")]
_Remove = Annotated[list[Short], Field(max_length=100, description="Parameters to remove.")]


class _Start(_Chosen):
    pace: Pace | None = None
    note: Annotated[Reason | None, Field(description="Why; stored with the bulk action, and with what it cancels.")] = (
        None
    )
    dry_run: Annotated[bool, Field(description="Only count what matches, with a sample.")] = False


class ExecutionBulkStart(_Start):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"target": "executions", "action": "retry", "filter": {"job": "crawl", "status": ["failed"]}}],
            "oneOf": _ONE_OF_THEM,
        }
    )

    target: Literal["executions"]
    action: Literal["retry", "cancel", "edit", "delete"]
    ids: _Ids | None = None
    filter: ExecutionBulkFilter | None = None
    params: _Params | None = None
    remove: _Remove | None = None
    probe: Annotated[
        int, Field(ge=0, le=100, description="Run this many first, and the rest only if all of them complete."), WHOLE
    ] = 0


class JobBulkStart(_Start):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"target": "jobs", "action": "pause", "filter": {"queue": "reports"}}],
            "oneOf": _ONE_OF_THEM,
        }
    )

    target: Literal["jobs"]
    action: Literal["pause", "resume", "cancel", "retry", "delete"]
    ids: _Ids | None = None
    filter: JobBulkFilter | None = None


class ErrorBulkStart(_Chosen):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"target": "errors", "action": "mute", "ids": ["5f0c1a2b3c4d"]}],
            "oneOf": _ONE_OF_THEM,
        }
    )

    target: Literal["errors"]
    action: Literal["mute", "unmute"]
    ids: _Ids | None = None
    filter: ErrorBulkFilter | None = None
    note: Annotated[Reason | None, Field(description="Why; stored with the mute.")] = None
    dry_run: Annotated[bool, Field(description="Only show what would happen to them.")] = False


BulkStart = Annotated[ExecutionBulkStart | JobBulkStart | ErrorBulkStart, Field(discriminator="target")]


class BulkAbort(Strict):
    reason: Reason | None = None


class BulkList(ShortList):
    status: Literal["running", "probing", "aborting", "completed", "stopped", "aborted"] | None = None
    limit: Limit = 20
    sort: Literal["created_at", "-created_at"] = "-created_at"


class BulkActionsJson(ShortListJson):
    items: list[BulkActionJson]


class BulkItemList(QueryFields):
    status: Literal["planned", "done", "refused", "skipped"] | None = None
    limit: Limit = 100
    cursor: Annotated[Short | None, Field(description="`next_cursor` of the previous page.")] = None


class BulkItemsJson(JsonForm):
    items: list[BulkActionItemJson]
    next_cursor: str | None
