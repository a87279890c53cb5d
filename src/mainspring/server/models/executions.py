"""Lists of executions, of their tenants and of their log lines."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta
from pydantic import Field

from ...core.queries.job_lists import COUNTED, total_of
from ...core.queries.queries import Queries
from ...core.render.entities import PROGRESS, ExecutionJson, JsonForm, LogEntryJson, TenantRunJson, execution_json
from ...core.views.execution import executions_of
from ...model.execution import ExecutionRow, State
from .fields import MOST_OFFSET, PAGE, Cursor, Instant, Limit, Name, Offset, QueryFields, Short
from .lists import PageJson, check_paging, check_range, page

_PAGING = {"limit", "offset", "cursor", "sort"}


class ExecutionFilter(QueryFields):
    status: Annotated[list[State] | None, Field(max_length=8)] = None
    running: bool | None = None
    trigger: Literal["schedule", "api", "manual", "enqueue", "retry", "backfill", "catch_up", "dependency"] | None = (
        None
    )
    tenant: Short | None = None
    trace_id: Short | None = None
    parent_id: Short | None = None
    since: Annotated[Instant | None, Field(description="Created at this time or later.")] = None
    until: Annotated[Instant | None, Field(description="Created before this time.")] = None


class JobExecutionList(ExecutionFilter):
    sort: Annotated[
        Literal["-created_at", "created_at"],
        Field(description="Newest first, or oldest first."),
    ] = "-created_at"
    limit: Limit = PAGE
    offset: Offset = 0
    cursor: Cursor | None = None


class ExecutionList(JobExecutionList):
    job: Name | None = None


class ExecutionPageJson(PageJson):
    items: list[ExecutionJson]


class JobExecutionPageJson(PageJson):
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
    filters = execution_filters(wanted) | ({} if job is None else {"job": job})
    found = await _found(queries, wanted, filters)
    if job is not None and await queries.number(found):
        found = await _found(queries, wanted, filters)
    if lifetime is None or set(filters) - {"job"}:
        total = total_of(await queries.count_executions(COUNTED + 1, **filters))
    else:
        total = lifetime
    more = found[-1].id if len(found) == wanted.limit else None
    return page([execution_json(each) for each in executions_of(found)], total, wanted.limit, wanted.offset, more)


async def _found(queries: Queries, wanted: JobExecutionList, filters: dict[str, Any]) -> list[ExecutionRow]:
    options: dict[str, Any] = {**filters, "limit": wanted.limit, "offset": wanted.offset}
    if wanted.sort == "created_at":
        return await queries.oldest_executions(**options, after=wanted.cursor)
    return await queries.executions(**options, before=wanted.cursor)


def execution_filters(wanted: ExecutionFilter) -> dict[str, Any]:
    """The filters of a request, as `Queries.executions` takes them."""
    given = wanted.model_dump(exclude_none=True, exclude=_PAGING)
    check_range(given.get("since"), given.get("until"))
    if "status" in given:
        given["status"] = [state.value for state in given["status"]]
    return given


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
