"""`/dashboard/locks`: named locks, and what executions hold against overlap and duplicates."""

from __future__ import annotations

from urllib.parse import unquote

from fastapi import APIRouter
from starlette.responses import Response

from ....core.locks import LockNotFound
from ....core.views.records import lock_view
from ....model.errors import InvalidValue
from ..visit import Administering, PageRoute, Viewing

router = APIRouter(prefix="/dashboard/locks", route_class=PageRoute, include_in_schema=False)

PAGE = 100


@router.get("")
async def locks_page(visit: Viewing, cursor: str | None = None) -> Response:
    held = await visit.engine.locks.page(PAGE, cursor)
    return visit.page("locks.html", locks=[lock_view(row) for row in held.rows], next_cursor=held.next_cursor)


@router.post("/release")
async def release_lock(sent: Administering) -> Response:
    """A name may begin or end with spaces, which forms do not keep: the field has it percent-encoded."""
    visit, given = sent.visit, sent.form.get("name")
    if given is None:
        raise InvalidValue("name", None, "the name of a lock")
    name = unquote(given)
    if not await visit.engine.locks.release(name, visit.by):
        raise LockNotFound(name)
    return visit.done(f"Lock {name} was released.", visit.url("locks"))
