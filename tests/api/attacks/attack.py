"""One attack: a request, the answers that are allowed, and what no answer may contain."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from tests.api.access_support import STRANGER

Who = Literal["admin", "operator", "viewer", "stranger"]
Door = Literal["guarded", "loopback"]
"""`guarded`: tokens and JWTs are needed. `loopback`: nothing is configured, so this machine is served as admin."""

REFUSED = (400, 401, 403, 404, 405, 409, 413, 415, 422)
"""For attacks that may be refused in several ways, as long as they are refused."""
FORM = "application/x-www-form-urlencoded"


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is what the attacker tries; the same kind at several routes counts as one attack."""

    kind: str
    path: str
    expected: tuple[int, ...]
    method: str = "GET"
    who: Who = "stranger"
    door: Door = "guarded"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    peer: str = STRANGER
    host: str | None = "jobs.example"
    never: tuple[str, ...] = ()
    """What must not be in the head or the body of the answer."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.method} {self.path[:100]!r}"


class Reply(msgspec.Struct, frozen=True):
    status: int
    headers: tuple[tuple[str, str], ...]
    text: str

    def all(self, name: str) -> list[str]:
        return [value for each, value in self.headers if each == name]

    def get(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)


def attack(kind: str, request: str, *expected: int, json: Any = None, **more: Any) -> Attack:
    """`request` is the method and the path. A body of `json` gets its content type; one of bytes brings its own."""
    method, path = request.split(" ", 1)
    if json is not None:
        more |= with_json(json, more.pop("headers", ()))
    return Attack(kind=kind, method=method, path=path, expected=expected or REFUSED, **more)


def with_json(data: Any, headers: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    return {"body": json.dumps(data).encode(), "headers": (("content-type", "application/json"), *headers)}


def with_form(fields: Mapping[str, str], *headers: tuple[str, str]) -> dict[str, Any]:
    from urllib.parse import urlencode

    return {"body": urlencode(fields).encode(), "headers": (("content-type", FORM), *headers)}
