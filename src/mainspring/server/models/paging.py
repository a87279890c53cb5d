"""Pages of lists: the same fields for all of them, and bounded ranges of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ...core.queries.job_lists import COUNTED, total_of
from ...core.queries.queries import Queries
from ...core.render.entities import execution_shape
from ...core.views.execution import executions_of
from ...model.errors import InvalidValue
from ...model.values.reading import instant
from .commands import ExecutionFilter, JobExecutionList

MOST_DAYS = 3_660
_PAGING = {"limit", "offset", "cursor", "sort"}


def page(items: Sequence[Any], total: int | str, limit: int, offset: int, cursor: str | None) -> dict[str, Any]:
    return {"items": list(items), "total": total, "limit": limit, "offset": offset, "next_cursor": cursor}


async def execution_page(
    queries: Queries, wanted: JobExecutionList, job: str | None, lifetime: int | None = None
) -> dict[str, Any]:
    """One page of executions. `lifetime` is the total of a list that nothing filters: some may be pruned by now."""
    check_paging(wanted.offset, wanted.cursor)
    filters = execution_filters(wanted) | ({} if job is None else {"job": job})
    filters_and_paging: dict[str, Any] = {**filters, "limit": wanted.limit, "offset": wanted.offset}
    if wanted.sort == "created_at":
        found = await queries.oldest_executions(**filters_and_paging, after=wanted.cursor)
    else:
        found = await queries.executions(**filters_and_paging, before=wanted.cursor)
    if lifetime is None or set(filters) - {"job"}:
        total = total_of(await queries.count_executions(COUNTED + 1, **filters))
    else:
        total = lifetime
    more = found[-1].id if len(found) == wanted.limit else None
    return page([execution_shape(each) for each in executions_of(found)], total, wanted.limit, wanted.offset, more)


def execution_filters(wanted: ExecutionFilter) -> dict[str, Any]:
    """What was asked for, in the words of core."""
    given = wanted.model_dump(exclude_none=True, exclude=_PAGING)
    check_range(given.get("since"), given.get("until"))
    if "status" in given:
        given["status"] = [state.value for state in given["status"]]
    return given


def check_paging(offset: int, cursor: str | None) -> None:
    """A cursor says where a page begins; who passes over more of the list would leave something out unseen."""
    if cursor is not None and offset:
        remedy = "Leave offset out to go on from the cursor, or leave cursor out"
        raise InvalidValue("offset", offset, "nothing together with cursor", remedy)


def check_range(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """A range of time has a beginning before its end, and is bounded."""
    begin = None if since is None else instant("since", since)
    end = None if until is None else instant("until", until)
    if begin is None or end is None:
        return begin, end
    if end <= begin:
        raise InvalidValue("until", until, "a time after since")
    if end - begin > timedelta(days=MOST_DAYS):
        raise InvalidValue("until", until, f"at most {MOST_DAYS} days after since")
    return begin, end
