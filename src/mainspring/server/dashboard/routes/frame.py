"""What all pages share: the stylesheet and scripts, the live stream, login and logout, and unknown addresses."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response, StreamingResponse

from ....core.queries.queries import EXECUTION_ID
from ....model.values.reading import is_identifier
from ...access import Refused, anyone, guard_of
from ...access.browsers import LONGEST_COOKIE, SESSION
from ..assets import read_assets
from ..cookies import drop_cookie, set_cookie
from ..forms import read_form
from ..live import LivePages
from ..visit import PREFIX, STRANGER, PageRoute, Viewing, Visit, local_path, page_response, render

router = APIRouter(route_class=PageRoute, include_in_schema=False)

Anyone = Depends(anyone)


@router.get("/", dependencies=[Anyone])
async def to_dashboard(request: Request) -> Response:
    return RedirectResponse(request.scope.get("root_path", "") + PREFIX, 307)


@router.get(f"{PREFIX}/static/{{name}}", dependencies=[Anyone])
async def static_file(request: Request, name: str) -> Response:
    asset = read_assets().get(name)
    if asset is None:
        raise HTTPException(404)
    headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)


@router.get(f"{PREFIX}/live")
async def live(visit: Viewing, page: Annotated[str, Query(max_length=8_000)] = "") -> Response:
    """Server-sent events: `changed` when this page should ask for itself again."""
    state = visit.request.app.state
    pages: LivePages = state.live_pages
    events = pages.stream(visit.request, visit.engine.queries, state.streams, visit.stream_holder(), page)
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@router.get(f"{PREFIX}/search")
async def search(visit: Viewing, q: Annotated[str, Query(max_length=500)] = "") -> Response:
    """What the field in the header means: an execution's id, a search key with its value, or a part of a job's name."""
    wanted = q.strip()
    if EXECUTION_ID.fullmatch(wanted.lower()):
        return RedirectResponse(visit.url("executions", wanted.lower()), 303)
    key, equals, value = wanted.partition("=")
    if equals and key.strip() and value.strip():
        return RedirectResponse(visit.url("executions", search=f"{key.strip()}={value.strip()}"), 303)
    if is_identifier(wanted) and await visit.engine.queries.named([wanted]):
        return RedirectResponse(visit.url("jobs", wanted), 303)
    return RedirectResponse(visit.url("jobs", search=wanted), 303)


@router.get(f"{PREFIX}/login", dependencies=[Anyone])
async def login_page(request: Request, next: Annotated[str, Query(max_length=4_000)] = "") -> Response:
    return _login_page(request, next)


@router.post(f"{PREFIX}/login", dependencies=[Anyone])
async def log_in(request: Request) -> Response:
    """Verify an API token or JWT, and keep it in a cookie."""
    form = await read_form(request, request.app.state.application.settings.security.api_hosts)
    credential, next = form.get("credential") or "", form.get("next") or ""
    try:
        await guard_of(request).log_in(request, credential)
    except Refused as refusal:
        return _login_page(request, next, refusal.message, refusal.status)
    if len(credential) > LONGEST_COOKIE:
        return _login_page(
            request, next, f"this JWT is too long for a cookie: at most {LONGEST_COOKIE} characters", 400
        )
    response = RedirectResponse(local_path(next, request) or request.scope.get("root_path", "") + PREFIX, 303)
    set_cookie(response, request, SESSION, credential, None)
    return response


@router.post(f"{PREFIX}/logout", dependencies=[Anyone])
async def log_out(request: Request) -> Response:
    await read_form(request, request.app.state.application.settings.security.api_hosts)
    response = RedirectResponse(f"{request.scope.get('root_path', '')}{PREFIX}/login", 303)
    drop_cookie(response, request, SESSION)
    return response


def _login_page(request: Request, next: str, error: str | None = None, status: int = 200) -> Response:
    visit = Visit(request, STRANGER, None)  # type: ignore[arg-type]
    needed = guard_of(request).authenticates
    values = {"visit": visit, "area": "login", "next": next, "error": error, "needed": needed}
    return page_response(request, render("frame/login.html", values), status)


@router.get(f"{PREFIX}/{{rest:path}}")
async def unknown_page(visit: Viewing, rest: str) -> Response:
    raise HTTPException(404)
