"""One request for a page of the dashboard: what a route of the API knows about it, and how the page is made."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, tzinfo
from functools import cache, cached_property
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote, urlencode

import msgspec
from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from ...model.errors import InvalidValue, MainspringError
from ...model.time.zones import known_zone
from ...model.triggers.base import instant_text
from ...version import VERSION
from ..access import GuardedRoute, Principal, Role, covers, guard_of, needs
from ..access.browsers import FORM, SESSION, cookie_of, form_token_of, new_form_token, session_of
from ..engine import Engine
from ..errors import Problem, http_problem, problem_of, unexpected, validation_problem
from ..request import Call, Turns
from . import format
from .assets import TOKEN_PLACE, read_assets, read_templates
from .cookies import drop_cookie, set_cookie
from .forms import PAGE, Form, read_form
from .live import LIVE_HEADER, ZONE, LivePages, page_of
from .refusals import page_at, shown_again
from .table_labels import label_cells
from .traceback import split_traceback

PREFIX = "/dashboard"
NOTICE = "mainspring_notice"
SHORT_NOTICE = 200
LONGEST_NOTICE = 3_000
"""Characters of a notice in its cookie: browsers drop cookies of more than 4,096 bytes."""
SMALL_PAGE = 100_000
"""Characters of a page whose tables are labelled on the event loop, which takes a few milliseconds."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}

NAVIGATION = (
    ("", "Overview", "h"),
    ("jobs", "Jobs", "j"),
    ("executions", "Executions", "x"),
    ("errors", "Errors", "e"),
    ("timeline", "Timeline", "t"),
    ("queues", "Queues", "q"),
    ("changes", "Changes", "c"),
    ("system", "System", "s"),
)
"""The first part of the path, the words in the header, and the key after `g`."""
FURTHER = (
    ("workers", "Workers"),
    ("tenants", "Tenants"),
    ("bulk", "Bulk actions"),
    ("backfills", "Backfills"),
    ("webhooks", "Webhooks"),
    ("locks", "Locks"),
)
"""Pages that the header has behind "More"."""


_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+").fullmatch


def _escaped(part: str) -> str:
    """A part of a path. Most texts stand there as they are, and a page has hundreds of them."""
    return part if _PLAIN(part) else quote(part, safe="")


class Notice(msgspec.Struct, frozen=True):
    """What a form did, for the page after it. `undo` is the address of the form that takes it back, with its fields."""

    text: str
    kind: Literal["ok", "bad"] = "ok"
    undo: str | None = None
    fields: dict[str, str] = {}

    def cookie(self) -> str:
        """The value of its cookie. A long notice loses the end of its text, or even its undo, but never all of it."""
        text = self.text.encode("utf-8", "replace").decode()
        tries = (
            Notice(text, self.kind, self.undo, self.fields),
            Notice(text[:SHORT_NOTICE], self.kind, self.undo, self.fields),
            Notice(text[:SHORT_NOTICE], self.kind),
        )
        values = [quote(msgspec.json.encode(each).decode()) for each in tries]
        return next((value for value in values if len(value) <= LONGEST_NOTICE), values[-1])


class Visit(Call):
    """A request for a page, or a form that was sent from one."""

    @cached_property
    def root(self) -> str:
        """Where the dashboard is mounted."""
        return str(self.request.scope.get("root_path", "")) + PREFIX

    @property
    def address(self) -> str:
        """Where the API is, as the browser sees it: by https if it came so, perhaps to a trusted proxy."""
        scheme = "https" if guard_of(self.request).is_https(self.request) else "http"
        return f"{scheme}://{self.request.url.netloc}{self.root.removesuffix(PREFIX)}"

    def url(self, *parts: str, **query: Any) -> str:
        """The address of a page: `url("jobs", name)`, `url("executions", status="failed")`. Parts and values may hold
        any character; None is left out, a list is repeated."""
        path = "".join([f"/{_escaped(str(part))}" for part in parts if part != ""])
        if not query:
            return self.root + path
        given = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "", [], ())}
        return f"{self.root}{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")

    @cached_property
    def here(self) -> str:
        """The address of this page, with its filters."""
        return page_of(self.request)

    @cached_property
    def live(self) -> bool:
        """Whether an open page asks for itself again. It needs neither the frame nor a notice."""
        return LIVE_HEADER in self.request.headers

    def with_query(self, **changes: Any) -> str:
        """The address of this page with some parameters of its query changed; None removes one."""
        kept = [(name, value) for name, value in self.request.query_params.multi_items() if name not in changes]
        added = [
            (name, each)
            for name, value in changes.items()
            if value is not None
            for each in (value if isinstance(value, list | tuple) else [value])
        ]
        query = urlencode([*kept, *added])
        return self.request.url.path + (f"?{query}" if query else "")

    @cached_property
    def now(self) -> datetime:
        return datetime.now(UTC)

    @cached_property
    def zone(self) -> tzinfo:
        """The viewer's time zone, as the script of an earlier page found it; UTC until then."""
        try:
            return known_zone(cookie_of(self.request, ZONE) or "UTC")
        except InvalidValue:
            return UTC

    def may_act(self, view: Any = None) -> bool:
        """Whether actions are offered: to operators, and for one job to those whom it permits to steer it."""
        return self.operates and (view is None or covers(self.principal, view))

    # --- answers --------------------------------------------------------------------------------------------
    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """The page that this template makes of the values. Its folder, or the name of a template without one, is the
        area that the header marks."""
        area = template.removesuffix(".html").partition("/")[0]
        return Page(self, template, {"visit": self, "area": area, **values}, status)

    @cached_property
    def notice(self) -> Notice | None:
        """What the form before this page did."""
        return None if self.live else read_notice(self.request)

    def done(
        self, text: str, to: str | None = None, *, undo: str | None = None, fields: Mapping[str, str] | None = None
    ) -> Response:
        """Go to a page, by default back to the one that has the form, and say what was done there. `undo` is the
        address of the form that takes it back, with its `fields`."""
        self.engine.problems.cache.forget()  # the next overview must not show what was mended
        return self._see(to, Notice(text, "ok", undo, dict(fields or {})))

    def failed(self, text: str, to: str | None = None) -> Response:
        """As `done`, for what could not be done."""
        return self._see(to, Notice(text, "bad"))

    def _see(self, to: str | None, notice: Notice) -> Response:
        response = RedirectResponse(to or self._back(), 303)
        set_cookie(response, self.request, NOTICE, notice.cookie(), 60)
        return response

    def _back(self) -> str:
        """The page that the form was on."""
        return page_of_form(self.request) or self.root


def render(template: str, values: Mapping[str, Any]) -> str:
    return read_templates().get_template(template).render(values)


def page_response(request: Request, text: str, status: int = 200) -> Response:
    """An HTML answer with the token of this browser's forms."""
    response = Response(media_type="text/html; charset=utf-8", status_code=status, headers=HEADERS)
    fill_in(response, request, text)
    return response


def fill_in(response: Response, request: Request, text: str) -> None:
    """Give the answer its content. A page that several browsers share gets the token of each later."""
    token = form_token_of(request)
    if token is None or LIVE_HEADER not in request.headers:
        if token is None:
            token = new_form_token()
            set_cookie(response, request, FORM, token, None)
        text = text.replace(TOKEN_PLACE, token)
    response.body = text.encode("utf-8", "replace")
    response.headers["Content-Length"] = str(len(response.body))


class Page(Response):
    """A page that is rendered after its route has returned, in steps, so that other requests get their turn."""

    media_type = "text/html; charset=utf-8"

    def __init__(self, visit: Visit, template: str, values: Mapping[str, Any], status: int) -> None:
        super().__init__(status_code=status, headers=HEADERS)
        self._visit, self._template, self._values = visit, template, values

    async def finish(self) -> None:
        await asyncio.sleep(0)  # what it shows has just been read
        pieces, turns = [], Turns()
        for piece in read_templates().get_template(self._template).generate(self._values):
            pieces.append(piece)
            await turns.take()
        request, text = self._visit.request, "".join(pieces)
        labelled = label_cells(text) if len(text) <= SMALL_PAGE else await asyncio.to_thread(label_cells, text)
        fill_in(self, request, labelled)
        if self._visit.notice is not None:
            drop_cookie(self, request, NOTICE)


def local_path(url: str, request: Request) -> str | None:
    """The path and query of an address, if it is a page of this dashboard: no form leads to another site. A proxy may
    have taken https off, so the scheme says nothing."""
    begin, host, rest = url.partition(f"//{request.url.netloc}")
    path = rest if host and begin in ("http:", "https:") else url
    root = str(request.scope.get("root_path", "")) + PREFIX
    inside = path == root or path.startswith((f"{root}/", f"{root}?"))
    return path if inside and "\\" not in path and not any(ord(each) < 33 for each in path) else None


def page_of_form(request: Request) -> str | None:
    """The page that has the form which this request sent, as far as the browser says."""
    form: Form | None = getattr(request.state, "form", None)
    given = None if form is None else form.get(PAGE)
    return local_path(given or request.headers.get("referer", ""), request)


def read_notice(request: Request) -> Notice | None:
    """None for a cookie that is no notice of ours, or whose undo would leave this dashboard."""
    try:
        found = msgspec.json.decode(unquote(cookie_of(request, NOTICE)), type=Notice)
    except ValueError:
        return None
    return found if found.undo is None or local_path(found.undo, request) else None


# --- who visits -------------------------------------------------------------------------------------------------


async def _visit(request: Request, principal: Principal) -> Visit:
    engine: Engine = await request.app.state.application.engine()
    return Visit(request, principal, engine)


async def _viewing(
    request: Request, principal: Annotated[Principal, Depends(needs(Role.VIEWER, cookies=True))]
) -> Visit:
    return await _visit(request, principal)


class Sent:
    """A form and the visit that it belongs to."""

    def __init__(self, visit: Visit, form: Form) -> None:
        self.visit, self.form = visit, form


async def _operating(
    request: Request, principal: Annotated[Principal, Depends(needs(Role.OPERATOR, cookies=True))]
) -> Sent:
    return await _sent(request, principal)


async def _administering(
    request: Request, principal: Annotated[Principal, Depends(needs(Role.ADMIN, cookies=True))]
) -> Sent:
    return await _sent(request, principal)


async def _sent(request: Request, principal: Principal) -> Sent:
    form = await read_form(request, request.app.state.application.settings.security.api_hosts)
    request.state.form = form
    return Sent(await _visit(request, principal), form)


Viewing = Annotated[Visit, Depends(_viewing)]
"""For pages."""
Operating = Annotated[Sent, Depends(_operating)]
"""For forms: the role was checked, then the form's token."""
Administering = Annotated[Sent, Depends(_administering)]


class PageRoute(GuardedRoute):
    """Errors of a page are pages; a form that was refused is shown again on the page that has it. Strangers come to
    the login page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        route = super().get_route_handler()

        async def handler(request: Request) -> Response:
            response = await route(request)
            if isinstance(response, Page):
                await response.finish()
            return response

        async def answer(request: Request) -> Response:
            pages: LivePages = request.app.state.live_pages
            try:
                return await pages.answer(request, handler)
            except MainspringError as error:
                problem = problem_of(error)
                problem = unexpected(error) if problem.status >= 500 else problem
            except HTTPException as error:
                problem = http_problem(error)
            except RequestValidationError as error:
                problem = validation_problem(error.errors(), request.scope.get("route"))
            except Exception as error:
                problem = unexpected(error)
            return await refused_form(request, problem) or problem_page(request, problem)

        return answer


async def refused_form(request: Request, problem: Problem) -> Response | None:
    """The page that has the form, with what was typed and why it was refused; None for anything else."""
    form: Form | None = getattr(request.state, "form", None)
    path = page_of_form(request)
    if request.method != "POST" or problem.status >= 500 or form is None or path is None:
        return None
    page = await page_at(request, path)
    if page is None:
        return None
    whole, action = bytes(page.body).decode(), unquote(request.url.path)
    text = await asyncio.to_thread(shown_again, whole, path, action, form, problem.message)
    if text is None:
        return None
    page.status_code, page.body = problem.status, text.encode("utf-8", "replace")
    page.headers["Content-Length"] = str(len(page.body))
    return page


def problem_page(request: Request, problem: Problem) -> Response:
    """A problem as a page, or as a notice on the page that has the form."""
    guard = guard_of(request)
    visit = Visit(request, STRANGER, None)  # type: ignore[arg-type]
    if problem.status == 401 and guard.authenticates and "text/html" in request.headers.get("accept", ""):
        back = visit.here if request.method == "GET" else None
        return without_session(RedirectResponse(visit.url("login", next=back), 303), request)
    if request.method == "POST" and problem.status < 500 and "referer" in request.headers:
        return visit.failed(problem.message)
    text = render("frame/problem.html", {"visit": visit, "area": "problem", "problem": problem})
    response = page_response(request, text, problem.status)
    response.headers.update({name: value for name, value in problem.headers.items() if name != "WWW-Authenticate"})
    return without_session(response, request) if problem.status == 401 else response


def without_session(response: Response, request: Request) -> Response:
    """Forget a credential that is not valid any more: open pages would send it again and again, each time as a failed
    login."""
    if session_of(request) is not None:
        drop_cookie(response, request, SESSION)
    return response


STRANGER = Principal("", Role.VIEWER, "loopback")
"""The principal of pages without one: the login page, and those that say what went wrong."""


# --- what templates can use -------------------------------------------------------------------------------------


@pass_context
def _ago(context: Context, at: datetime | None) -> Markup:
    """`3 min ago` or `in 3 min`, kept true by the script."""
    visit: Visit = context["visit"]
    if at is None:
        return Markup("")
    return format.time_element(at, format.relative(at, visit.now), visit.zone, "relative")


@pass_context
def _clock(context: Context, at: datetime | None, zone: str | None = None) -> Markup:
    """The time of day in the viewer's zone, or in this one; with the date if that is not today."""
    visit: Visit = context["visit"]
    where = visit.zone if zone is None else known_zone(zone)
    return Markup("") if at is None else format.time_element(at, format.clock(at, where, visit.now), where)


@pass_context
def _job_clock(context: Context, at: datetime, zone: str) -> Markup:
    """As `clock`, with the time in the zone of a job as tooltip too."""
    visit: Visit = context["visit"]
    return format.time_element(at, format.clock(at, visit.zone, visit.now), visit.zone, also=known_zone(zone))


@pass_context
def _exact(context: Context, at: datetime | None, zone: str | None = None) -> str:
    visit: Visit = context["visit"]
    return "" if at is None else format.exact(at, visit.zone if zone is None else known_zone(zone))


@pass_context
def _weekday(context: Context, at: datetime, zone: str | None = None) -> Markup:
    """The day and the time in the viewer's zone, or in this one."""
    visit: Visit = context["visit"]
    where = visit.zone if zone is None else known_zone(zone)
    return format.time_element(at, format.weekday(at, where), where)


def _local(at: datetime, zone: str) -> str:
    return format.local_input(at, known_zone(zone))


def _asset_url(visit: Visit, name: str) -> str:
    return f"{visit.url('static', name)}?v={read_assets()[name].etag[1:-1]}"


@cache
def prepare_templates() -> None:
    """Give the templates their filters and globals, and compile them: a mistake shows at the start, and no request
    waits for the compiler."""
    environment = read_templates()
    environment.filters.update(
        ago=_ago,
        actor=format.actor,
        action_words=format.action_words,
        reason_words=format.reason_words,
        clock=_clock,
        job_clock=_job_clock,
        error_title=format.error_title,
        exact=_exact,
        weekday=_weekday,
        local=_local,
        instant=instant_text,
        number=format.number,
        percent=format.percent,
        span=format.span,
        ms=format.milliseconds,
        size=format.size,
        window=lambda window: format.window(window.begin, window.end),
        plural=format.plural,
        pretty=format.pretty_json,
        with_code=format.with_code,
        traceback_parts=split_traceback,
    )
    environment.globals.update(
        asset=_asset_url,
        form_token=TOKEN_PLACE,
        navigation=NAVIGATION,
        further=FURTHER,
        version=VERSION,
    )
    for name in environment.list_templates():
        environment.get_template(name)
