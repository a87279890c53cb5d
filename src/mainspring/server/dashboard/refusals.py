"""A form that was refused is shown again: the page that has it, with the error and everything that was typed.

The page is rendered anew by its own route. Then it is changed here as a browser would change it: the fields of the form
get the values that were sent, the popup around it is opened, and the error stands above its fields. So neither routes
nor templates know about refusals, nothing that was typed is kept on the server or in a cookie, and no script is needed.

The address of such a page is that of its form, which can only be sent. Its forms therefore name the page that they are
on, and its scripts find it in `data-page`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

import msgspec
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from .forms import PAGE, Form

_BUTTONS = frozenset({"hidden", "submit", "button", "reset", "image"})
_BOXES = frozenset({"checkbox", "radio"})


# --- the page ---------------------------------------------------------------------------------------------------


class _NoPage(Exception):
    """What the address leads to is no page, and may never end."""


async def page_at(request: Request, path: str) -> Response | None:
    """The page at this path of the dashboard, as the same browser would get it; None if there is none."""
    address, _, query = path.partition("#")[0].partition("?")
    scope = {name: value for name, value in request.scope.items() if name not in ("route", "endpoint", "path_params")}
    scope |= {"method": "GET", "path": unquote(address), "raw_path": address.encode(), "query_string": query.encode()}
    scope["state"] = {}
    answer = _Answer()
    try:
        await request.app.router(scope, _disconnected, answer.take)
    except _NoPage:
        return None
    return answer.response if answer.response.status_code == 200 else None


async def _disconnected() -> dict[str, Any]:
    """A page reads no body. A stream would wait for the end of the connection."""
    return {"type": "http.disconnect"}


class _Answer:
    def __init__(self) -> None:
        self.response = Response()

    async def take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.response.status_code, self.response.raw_headers = message["status"], list(message["headers"])
            if not self.response.headers.get("content-type", "").startswith("text/html"):
                raise _NoPage
        else:
            self.response.body = bytes(self.response.body) + message.get("body", b"")


# --- its form ---------------------------------------------------------------------------------------------------


class Tag(msgspec.Struct):
    """A start tag and its place in the page. `end` is where its content begins, `close` where that ends."""

    name: str
    attributes: dict[str, str | None]
    begin: int
    end: int
    close: int = 0
    inside: list[Tag] = []
    words: str = ""

    def get(self, name: str) -> str:
        return self.attributes.get(name) or ""

    @property
    def kind(self) -> str:
        return self.get("type") or "text"

    @property
    def typed(self) -> bool:
        """Whether it is a field for people."""
        return self.name != "input" or self.kind not in _BUTTONS

    @property
    def secret(self) -> bool:
        return self.kind == "password" or "data-secret" in self.attributes

    def written(self, **changes: str | bool) -> str:
        """The tag with other attributes; False removes one."""
        kept = {name: value for name, value in self.attributes.items() if name not in changes}
        parts = [name if value is None else f'{name}="{escape(value)}"' for name, value in kept.items()]
        parts += [
            name if value is True else f'{name}="{escape(value)}"'
            for name, value in changes.items()
            if value is not False
        ]
        return f"<{' '.join([self.name, *parts])}>"


class FoundForm(msgspec.Struct):
    tag: Tag
    around: list[Tag]
    """The `details` that hide it while they are closed."""
    fields: list[Tag]

    def likeness(self, sent: Form) -> int:
        """How many of its hidden fields are as they were sent: a page may have one form for each row of a list."""
        hidden = [each for each in self.fields if each.kind == "hidden"]
        return sum(each.get("value") in sent.values(each.get("name")) for each in hidden)


class _Reader(HTMLParser):
    """Finds the forms of a page that change something, and where their parts are in its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[FoundForm] = []
        self.body: Tag | None = None
        self._lines = [0, *(each.end() for each in re.finditer("\n", page))]
        self._details: list[Tag] = []
        self._form: FoundForm | None = None
        self._field: Tag | None = None
        self._option: Tag | None = None
        self.feed(page)
        self.close()

    @property
    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        begin = self._place
        found = Tag(tag, dict(attrs), begin, begin + len(self.get_starttag_text() or ""), inside=[])
        self._option = None
        if tag == "body":
            self.body = found
        elif tag == "details":
            self._details.append(found)
        elif tag == "form" and found.get("method") == "post":
            self._form = FoundForm(found, list(self._details), [])
            self.forms.append(self._form)
        elif tag in ("input", "textarea", "select") and self._form is not None and found.get("name"):
            self._form.fields.append(found)
            self._field = found
        elif tag == "option" and self._field is not None:
            self._field.inside.append(found)
            self._option = found

    def handle_endtag(self, tag: str) -> None:
        self._option = None
        if tag == "details" and self._details:
            self._details.pop()
        elif tag == "form":
            self._form = None
        elif tag == "textarea" and self._field is not None:
            self._field.close = self._place

    def handle_data(self, data: str) -> None:
        if self._option is not None:
            self._option.words += data


def shown_again(page: str, path: str, action: str, sent: Form, error: str) -> str | None:
    """The page with the form for `action`, a path, as it was sent, and the error in it. None if the page has no such
    form, or none in which anything is typed."""
    found = _Reader(page)
    alike = [form for form in found.forms if unquote(form.tag.get("action")) == action]
    form = max(alike, key=lambda each: each.likeness(sent), default=None)
    if form is None or not any(field.typed for field in form.fields):
        return None
    edits = [(each.begin, each.end, each.written(open=True)) for each in form.around]
    edits += _filled(form, sent)
    where = Markup('<input type="hidden" name="{}" value="{}">').format(PAGE, path)
    for each in found.forms:
        words = Markup('<p class="bad-text break" role="alert">{}</p>').format(error) if each is form else ""
        edits.append((each.tag.end, each.tag.end, f"{words}{where}"))
    if found.body is not None:
        edits.append((found.body.begin, found.body.end, found.body.written(**{"data-page": path})))
    return _edited(page, edits)


Edit = tuple[int, int, str]
"""What replaces the text between two places."""


def _filled(form: FoundForm, sent: Form) -> Iterator[Edit]:
    """The fields as they were sent; the first one gets the focus, so that browsers show it. Hidden fields stay, and so
    do those of secrets, which are never sent back."""
    given: dict[str, Iterator[str]] = defaultdict(lambda: iter(()))
    given |= {field.get("name"): iter(sent.values(field.get("name"))) for field in form.fields}
    first = next(field for field in form.fields if field.typed)
    for field in form.fields:
        focus: dict[str, str | bool] = {"autofocus": True} if field is first else {}
        if not field.typed:
            continue
        if field.secret:
            yield field.begin, field.end, field.written(**focus)
        elif field.kind in _BOXES:
            chosen = (field.get("value") or "on") in sent.values(field.get("name"))
            yield field.begin, field.end, field.written(checked=chosen, **focus)
        elif field.name == "select":
            yield field.begin, field.end, field.written(**focus)
            chosen_values = sent.values(field.get("name"))
            for option in field.inside:
                value = option.attributes.get("value", option.words.strip()) or ""
                yield option.begin, option.end, option.written(selected=value in chosen_values)
        elif (text := next(given[field.get("name")], None)) is not None:
            if field.name == "textarea":
                yield field.begin, field.end, field.written(**focus)
                yield field.end, field.close, f"\n{escape(text)}"
            else:
                yield field.begin, field.end, field.written(value=text, **focus)


def _edited(page: str, edits: list[Edit]) -> str:
    parts, at = [], 0
    for begin, end, text in sorted(edits, key=lambda edit: edit[:2]):
        parts += [page[at:begin], text]
        at = end
    return "".join([*parts, page[at:]])
