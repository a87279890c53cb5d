"""`/dashboard/executions`: the list, with every filter of the filter language."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.responses import Response

from .....core.filters.executions import FIELDS, last_worker
from .....core.filters.fields import read_fields
from .....core.queries.execution_lists import ExecutionPage
from .....core.queries.queries import EXECUTION_ID
from .....core.views.execution import executions_of, row_of
from .....model.errors import InvalidValue
from ...filters import chips_of, filter_query, read_filter
from ...visit import PageRoute, Viewing

router = APIRouter(prefix="/dashboard/executions", route_class=PageRoute, include_in_schema=False)

PAGE = 50
COMMON = ("job", "search", "tenant", "since")
"""Fields of the form that are open; the status has boxes of its own, the rest is behind "More filters"."""
PAGING = frozenset({"sort", "cursor", "system"})
NEWEST, OLDEST = "-created_at", "created_at"


@router.get("")
async def executions_page(visit: Viewing) -> Response:
    query = visit.request.query_params
    given: dict[str, Any] = {}
    system, sort, cursor = query.get("system") == "true", query.get("sort", NEWEST), query.get("cursor") or None
    lists, error, found, total = visit.engine.queries.execution_lists, None, ExecutionPage([]), None
    try:
        given = read_filter(FIELDS, query)
        _check_query(query, sort, cursor)
        wanted = await lists.filter(given, system=system)
        found = await lists.page(wanted, limit=PAGE, cursor=cursor, oldest_first=sort == OLDEST)
        total = await lists.total(wanted, found, cursor=cursor)
    except InvalidValue as invalid:
        error = invalid
    return visit.page(
        "executions/list.html",
        200 if error is None else 400,
        executions=executions_of(found.rows),
        found=found,
        more=found.next is not None and (cursor is not None or total != len(found.rows)),
        total=total,
        error=error,
        given=given,
        system=system,
        sort=sort,
        chips=chips_of(visit, given),
        fields=FIELDS,
        common=[FIELDS[name] for name in COMMON],
        rest=[field for name, field in FIELDS.items() if name not in COMMON and name != "status"],
        rest_is_open=system or any(name not in COMMON and name != "status" for name in given),
        bulk=filter_query(given),
        last_worker=lambda execution: last_worker(row_of(execution)),
    )


def _check_query(query: QueryParams, sort: str, cursor: str | None) -> None:
    read_fields(FIELDS, {name: None for name in query if name not in PAGING}, 0)
    if sort not in (NEWEST, OLDEST):
        raise InvalidValue("sort", sort, f"{NEWEST} or {OLDEST}")
    if cursor is not None and not EXECUTION_ID.fullmatch(cursor):
        raise InvalidValue("cursor", cursor, "the cursor of the page before", "Begin with the first page")
