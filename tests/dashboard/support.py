"""A browser without scripts, for pages that are served in this process: it keeps cookies, reads pages and sends their
forms as a person would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

import httpx
import msgspec

from mainspring import Mainspring
from mainspring.model.values.access import Role
from mainspring.server.access.browsers import FORM, SESSION
from mainspring.server.dashboard.visit import NOTICE

LOCAL = ("127.0.0.1", 50_000)
ORIGIN = "http://localhost"
HEADERS = {"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN}


class Page(HTMLParser):
    """What a page says, its links, and its forms that change something with the values of their fields, by address. Of
    several forms with one address the last one counts."""

    def __init__(self, html: str, url: str = "", status: int = 200) -> None:
        super().__init__()
        self.html, self.url, self.status = html, url, status
        self.links: list[str] = []
        self.forms: dict[str, dict[str, str]] = {}
        self.opened: list[str] = []
        """The addresses of the forms that are in sight: no `details` around them is closed."""
        self.body: dict[str, str] = {}
        self._words: list[str] = []
        self._form: dict[str, str] | None = None
        self._details: list[bool] = []
        self._field = ""
        self._tag = ""
        self.feed(html)

    @property
    def text(self) -> str:
        """What a person reads, with single spaces."""
        return " ".join(" ".join(self._words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._tag = tag
        match tag:
            case "body":
                self.body = given
            case "details":
                self._details.append("open" in given)
            case "a":
                self.links.append(given.get("href", ""))
            case "form" if given.get("method") == "post":
                self._form = self.forms[given["action"]] = {}
                if all(self._details):
                    self.opened.append(given["action"])
            case "input" | "textarea" | "select" if self._form is not None and "name" in given:
                self._field = given["name"]
                if given.get("type") not in ("checkbox", "radio") or "checked" in given:
                    self._form[self._field] = given.get("value", "")
            case "option" if self._form is not None and "selected" in given:
                self._form[self._field] = given.get("value", "")
                self._tag = "option" if "value" in given else "chosen"

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""
        if tag == "details":
            self._details.pop()
        if tag == "form":
            self._form = None

    def handle_data(self, data: str) -> None:
        if self._tag not in ("script", "style"):
            self._words.append(data)
        if self._tag in ("textarea", "chosen") and self._form is not None:
            self._form[self._field] = data.removeprefix("\n")


class Pages:
    """Paths are relative to the dashboard: `await pages.get("queues")`."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def get(self, path: str = "", status: int = 200) -> str:
        answer = await self.http.get(f"/dashboard/{path}" if path else "/dashboard")
        assert answer.status_code == status, (answer.status_code, answer.text)
        return answer.text

    async def open(self, path: str = "", **query: Any) -> Page:
        """A page after all redirects, whatever its status."""
        url = f"/dashboard/{path}" if path else "/dashboard"
        return _page(await self.http.get(url, params=query or None, follow_redirects=True))

    async def press(self, page: Page, action: str, **fields: Any) -> Page:
        """Send the form of this page whose address ends like this, with some fields changed."""
        [url] = [each for each in page.forms if each.endswith(action)] or [""]
        assert url, f"no form for {action} among {sorted(page.forms)}"
        headers = {**HEADERS, "Referer": page.url}
        data = {**page.forms[url], **fields}
        return _page(await self.http.post(url, data=data, headers=headers, follow_redirects=True))

    async def send(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form that no page needs to have, with the token that this browser got with its first page."""
        if FORM not in self.http.cookies:
            await self.http.get("/dashboard/login")
        sent = {"csrf": self.http.cookies[FORM], **{name: value for name, value in fields.items() if value is not None}}
        return await self.http.post(
            f"/dashboard/{path}", data=sent, headers={**HEADERS, "Referer": f"{ORIGIN}/dashboard"}
        )

    async def act(self, path: str, **fields: Any) -> dict[str, Any]:
        """Send a form that works, and return the notice that the next page shows."""
        notice = notice_of(await self.send(path, **fields))
        assert notice["kind"] == "ok", notice
        return notice

    async def undo(self, notice: dict[str, Any]) -> dict[str, Any]:
        """Press the button of a notice."""
        return await self.act(notice["undo"].removeprefix("/dashboard/"), **notice["fields"])

    async def refused(self, path: str, **fields: Any) -> str:
        """Send a form that does not work, and return why."""
        notice = notice_of(await self.send(path, **fields))
        assert notice["kind"] == "bad", notice
        return str(notice["text"])


def notice_of(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 303, (answer.status_code, answer.text)
    found: dict[str, Any] = msgspec.json.decode(unquote(answer.cookies[NOTICE].strip('"')))
    return found


@asynccontextmanager
async def pages_of(app: Mainspring, role: Role | None = None, credential: str | None = None) -> AsyncIterator[Pages]:
    """Somebody with this role, in an application with `api_tokens`, or with this credential; without either, somebody
    on this machine, who is an administrator where nobody has to log in."""
    transport = httpx.ASGITransport(app.asgi(), client=LOCAL)
    async with httpx.AsyncClient(
        transport=transport, base_url=ORIGIN, timeout=60, headers={"Accept": "text/html"}
    ) as http:
        if role is not None:
            credential = (await app.tokens.create(f"test-{role}", role)).text.reveal()
        if credential is not None:
            http.cookies.set(SESSION, credential, domain="localhost.local")
        yield Pages(http)


def _page(answer: httpx.Response) -> Page:
    return Page(answer.text, str(answer.url), answer.status_code)


def text_of(page: str) -> str:
    """The words of a page, with single spaces."""
    return Page(page).text


def links_of(page: str) -> list[str]:
    return Page(page).links


def actions_of(page: str) -> list[str]:
    """The addresses of its forms that change something, but for the one that logs out."""
    return [each for each in Page(page).forms if not each.endswith("/logout")]
