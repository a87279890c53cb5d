"""Lists of executions, of their tenants and of their log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta
from pydantic import Field

from ...core.filters.executions import FIELDS
from ...core.queries.execution_lists import ExecutionPage
from ...core.queries.queries import Queries
from ...core.render.entities import (
    PROGRESS,
    ExecutionJson,
    Instant,
    JsonForm,
    LogEntryJson,
    TenantRunJson,
    execution_json,
    instant_text,
)
from ...core.views.execution import executions_of
from ...model.execution import State
from ..request import items_in_turns
from .fields import MOST_OFFSET, PAGE, Cursor, Limit, Name, Offset, QueryFields
from .filters import System, filter_model
from .lists import PageJson, PlaceJson, check_paging, page

_PAGING = {"limit", "offset", "cursor", "sort", "system"}

if TYPE_CHECKING:

    class ExecutionFilterFields(QueryFields): ...
else:
    ExecutionFilterFields = filter_model("ExecutionFilterFields", QueryFields, FIELDS, without=frozenset({"job"}))


class JobExecutionList(ExecutionFilterFields):
    sort: Annotated[
        Literal["-created_at", "created_at"],
        Field(description="Newest first, or oldest first."),
    ] = "-created_at"
    limit: Limit = PAGE
    offset: Offset = 0
    cursor: Cursor | None = None


class ExecutionList(JobExecutionList):
    job: Annotated[Name | None, Field(description="The job, even if it was removed.")] = None
    system: System = False


class SearchedJson(PlaceJson):
    total: Annotated[
        int | Literal["10000+"] | None,
        Meta(description='Exact up to 10000, then "10000+"; null where counting would take too long.'),
    ]
    complete: Annotated[
        bool,
        Meta(description="False: a filter without an index has looked at 10,000 executions; `next_cursor` goes on."),
    ]
    searched_until: Annotated[
        Instant | None, Meta(description="Of an incomplete page: the time of the last execution it looked at.")
    ]


class ExecutionPageJson(SearchedJson):
    items: list[ExecutionJson]


class JobExecutionPageJson(SearchedJson):
    executions: list[ExecutionJson]


async def job_execution_page(queries: Queries, wanted: JobExecutionList, job: str, lifetime: int) -> dict[str, Any]:
    """One page of the executions of a job. Clients of interval schedulers know this list by the name `executions`."""
    found = await execution_page(queries, wanted, job, lifetime)
    return {"executions": found.pop("items"), **found}


async def execution_page(
    queries: Queries, wanted: JobExecutionList, job: str | None, lifetime: int | None = None
) -> dict[str, Any]:
    """One page of executions. `lifetime` is the total of a list without filters, which also counts those that
    retention has deleted."""
    check_paging(wanted.offset, wanted.cursor)
    given = wanted.model_dump(exclude_none=True, exclude=_PAGING) | ({} if job is None else {"job": job})
    lists = queries.execution_lists
    filter = await lists.filter(given, system=getattr(wanted, "system", False))

    async def read() -> ExecutionPage:
        oldest = wanted.sort == "created_at"
        return await lists.page(
            filter, limit=wanted.limit, offset=wanted.offset, cursor=wanted.cursor, oldest_first=oldest
        )

    found = await read()
    if job is not None and await queries.number(found.rows):
        found = await read()
    if lifetime is None or set(given) - {"job"}:
        total = await lists.total(filter, found, offset=wanted.offset, cursor=wanted.cursor)
    else:
        total = lifetime
    items = await items_in_turns(executions_of(found.rows), execution_json)
    return {
        **page(items, total, wanted.limit, wanted.offset, found.next),
        "complete": found.complete,
        "searched_until": instant_text(found.searched_until),
    }


class TenantList(QueryFields):
    status: Annotated[list[State] | None, Field(max_length=8)] = None
    limit: Limit = PAGE
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = 0


class TenantPageJson(PageJson):
    items: list[TenantRunJson]
    counts: Annotated[dict[str, int], Meta(description="How many tenants are in each state.")]


Level: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


class LogList(QueryFields):
    after: Annotated[int, Field(ge=0, le=2**53, description="Only lines with a greater number.")] = 0
    level: Annotated[Level | None, Field(description="Only lines of this level and above.")] = None
    limit: Annotated[int, Field(ge=1, le=1_000)] = 1_000


class LogsJson(JsonForm):
    execution_id: str
    items: list[LogEntryJson]
    next_after: Annotated[int, Meta(description="Where the next lines begin.")]


class ProgressJson(JsonForm):
    execution_id: str
    status: State
    progress: Annotated[dict[str, Any] | None, Meta(description=PROGRESS)]
    counters: dict[str, float]
