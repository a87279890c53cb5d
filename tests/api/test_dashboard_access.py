"""Who may do what on the dashboard, for every route that it has: the routes are read from the application."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute

from mainspring import Mainspring
from mainspring.server.access import Role, required_role
from mainspring.server.access.browsers import FORM, SESSION

OPEN_PAGES = {"/dashboard/login", "/dashboard/static/{name}"}
"""What strangers may read."""
NOT_PAGES = {"/dashboard/live", "/dashboard/search", "/dashboard/static/{name}"}
OPEN_FORMS = {"/dashboard/login", "/dashboard/logout"}
"""What viewers may send, and strangers."""
TOKEN = "ab" * 16
SITE = "http://jobs.example"
FOREIGN = (
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
)
OWN = {"origin": SITE, "sec-fetch-site": "same-origin"}


def _routes(app: Mainspring, method: str) -> list[APIRoute]:
    routes = [route for route in app.asgi().routes if isinstance(route, APIRoute)]
    return [route for route in routes if route.path.startswith("/dashboard") and method in (route.methods or ())]


def _address(route: APIRoute) -> str:
    return SITE + re.sub(r"\{[^}]+\}", "nothing-of-this-name", route.path)


@asynccontextmanager
async def _guarded(folder: Path) -> AsyncIterator[tuple[Mainspring, httpx.AsyncClient, dict[str, str]]]:
    """An application that asks for tokens, a client without one, and a token for each role."""
    app = Mainspring(f"sqlite:///{folder}/jobs.db", api_tokens=True)
    app.job("job")(lambda: None)
    await app.open()
    tokens = {str(role): (await app.tokens.create(f"test-{role}", role)).text.reveal() for role in Role}
    transport = httpx.ASGITransport(app.asgi(), client=("203.0.113.9", 50_000))
    async with httpx.AsyncClient(transport=transport) as http:
        yield app, http, tokens
    await app.close()


async def _send(
    http: httpx.AsyncClient, route: APIRoute, session: str | None, token: str = TOKEN, **headers: str
) -> int:
    cookies = f"{FORM}={TOKEN}" + (f"; {SESSION}={session}" if session else "")
    answer = await http.post(_address(route), data={"csrf": token}, headers={"cookie": cookies, **headers})
    return answer.status_code


@pytest.mark.req("DSH-2", "SEC-2")
async def test_every_form_refuses_viewers_and_admits_its_role(tmp_path: Path) -> None:
    async with _guarded(tmp_path) as (app, http, tokens):
        forms = [route for route in _routes(app, "POST") if route.path not in OPEN_FORMS]
        wrong = []
        for route in forms:
            role = required_role(route)
            assert role in (Role.OPERATOR, Role.ADMIN), f"{route.path} needs {role}"
            for given in Role:
                status = await _send(http, route, tokens[given])
                if (status == 403) == given.covers(role):
                    wrong.append(f"{route.path} answered {status} to a {given}")
            if (status := await _send(http, route, None)) not in (303, 401, 403):
                wrong.append(f"{route.path} answered {status} to a stranger")
        assert wrong == []
        assert forms


@pytest.mark.req("DSH-2", "SEC-2")
async def test_every_form_refuses_what_another_site_sends(tmp_path: Path) -> None:
    async with _guarded(tmp_path) as (app, http, tokens):
        session = tokens[Role.ADMIN]
        for route in _routes(app, "POST"):
            tried = {token: await _send(http, route, session, token) for token in ("", "cd" * 16)}
            tried |= {str(headers): await _send(http, route, session, **headers) for headers in FOREIGN}
            assert tried == dict.fromkeys(tried, 403), route.path
            assert await _send(http, route, session, **OWN) != 403, route.path


@pytest.mark.req("DSH-2", "SEC-2")
async def test_every_page_needs_a_viewer(tmp_path: Path) -> None:
    """Browsers are led to the login page and back; scripts of a page whose session has ended see the status."""
    async with _guarded(tmp_path) as (app, http, _):
        pages = [route for route in _routes(app, "GET") if route.path not in OPEN_PAGES]
        for route in pages:
            browser = await http.get(_address(route), headers={"accept": "text/html"})
            assert browser.status_code == 303, route.path
            assert browser.headers["location"].startswith("/dashboard/login?next=%2Fdashboard"), route.path
            assert (await http.get(_address(route))).status_code == 401, route.path
        assert pages


@pytest.mark.req("DSH-2", "SEC-2")
async def test_the_cookie_of_the_dashboard_is_no_credential_of_the_api(tmp_path: Path) -> None:
    async with _guarded(tmp_path) as (_, http, tokens):
        answer = await http.get(f"{SITE}/api/v1/jobs", headers={"cookie": f"{SESSION}={tokens[Role.ADMIN]}"})
        assert answer.status_code == 401


@pytest.mark.req("DSH-2")
async def test_every_page_has_a_strict_policy(tmp_path: Path) -> None:
    """Also one that says that there is no such thing, or that its address lacks something."""
    async with _guarded(tmp_path) as (app, http, tokens):
        for route in _routes(app, "GET"):
            if route.path in NOT_PAGES:
                continue
            answer = await http.get(_address(route), headers={"cookie": f"{SESSION}={tokens[Role.ADMIN]}"})
            assert answer.status_code in (200, 400, 404), route.path
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy, route.path
            assert "unsafe" not in policy, route.path
            assert "frame-ancestors 'none'" in policy, route.path
