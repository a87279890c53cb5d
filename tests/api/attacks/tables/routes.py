"""The same attacks at every route that the application has: none is answered with an error of the server, and none with
what the caller may not see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from fastapi.routing import APIRoute

from mainspring import Mainspring
from tests.api.attacks.attack import Attack, attack

NO_ERROR = (200, 202, 303, 304, 307, 400, 401, 403, 404, 405, 409, 415, 422)
REFUSED = (303, 307, 400, 401, 403, 404, 405, 415)
FIELDS = (
    *("q", "search", "sort", "limit", "offset", "cursor", "page", "status", "since", "until", "span", "job", "queue"),
    *("tenant", "handler", "begin", "end", "at", "name", "tag", "level", "after", "wait", "timezone", "next", "target"),
    *("actor", "action", "zone", "range", "day", "month", "view", "group", "error", "kind", "state", "ids", "filter"),
)
VALUES = {
    "NUL in every parameter": "\0",
    "SQL in every parameter": "' OR 1=1 --",
    "a number below zero in every parameter": "-1",
    "a huge number in every parameter": "9" * 400,
    "a date out of all time in every parameter": "99999-99-99T99:99:99Z",
    "markup in every parameter": "<script>alert(1)</script>",
    "nothing in every parameter": "",
    "a surrogate in every parameter": "\ufffe\U0010ffff",
}
OPEN = {"/healthz", "/readyz", "/", "/dashboard/login", "/dashboard/static/{name}"}


def _routes() -> Iterator[tuple[str, str]]:
    for route in Mainspring("memory://").asgi().routes:
        if isinstance(route, APIRoute):
            for method in sorted(route.methods):
                yield method, route.path


def _aimed(path: str, name: str) -> str:
    return re.sub(r"\{[^}]+\}", name, path)


def attacks() -> list[Attack]:
    made = []
    for method, path in _routes():
        if method == "GET":
            made += [_question(path, kind, value) for kind, value in VALUES.items()]
        if path in OPEN or path.startswith("/hooks/"):
            continue
        request = f"{method} {_aimed(path, 'greet')}"
        made.append(attack("a stranger at every route", request, *REFUSED, never=("close-the-year",)))
        raised = (("x-role-limit", "root"),)
        made.append(attack("an unknown role limit at every route", request, *REFUSED, who="viewer", headers=raised))
        made.append(attack("another method at every route", f"TRACE {_aimed(path, 'greet')}", 405))
    return made


def _question(path: str, kind: str, value: str) -> Attack:
    query = "&".join(f"{field}={quote(value)}" for field in FIELDS)
    never = ("<script>alert",) if path.startswith("/dashboard") else ()
    return attack(kind, f"GET {_aimed(path, 'greet')}?{query}", *NO_ERROR, who="viewer", never=never)
