"""Forms of the dashboard: what a browser sent, after its token was checked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ...model.errors import InvalidValue
from ..access.browsers import check_form

MOST_FIELDS = 2_000
SMALL = 16 * 1024
"""Bytes of a form that is read on the event loop. A megabyte takes 40 ms."""
PAGE = "page"
"""The field with the page that a form is on, where the address of the page does not say it."""


class Form:
    """The fields of a form. Text is stripped; an empty field counts as not given."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self._fields = [(name, value.replace("\r\n", "\n").strip()) for name, value in fields]

    def get(self, name: str) -> str | None:
        return next((value for found, value in self._fields if found == name and value), None)

    def all(self, name: str) -> list[str]:
        return [value for found, value in self._fields if found == name and value]

    def values(self, name: str) -> list[str]:
        """Every value of this field, empty ones too."""
        return [value for found, value in self._fields if found == name]

    def checked(self, name: str) -> bool:
        return self.get(name) is not None

    def whole(self, name: str) -> int | None:
        """A whole number."""
        given = self.get(name)
        return None if given is None else whole_number(name, given)

    def instant(self, name: str, zone: tzinfo) -> datetime | None:
        """What an input of the type `datetime-local` gives: a time in the viewer's zone."""
        given = self.get(name)
        try:
            found = None if given is None else datetime.fromisoformat(given)
        except ValueError:
            raise InvalidValue(name, given, "a date and a time, such as 2026-01-31T14:00") from None
        return found.replace(tzinfo=zone) if found is not None and found.tzinfo is None else found

    def under(self, prefix: str) -> dict[str, str]:
        """The fields whose names begin with this prefix, by the rest of their names; empty ones too."""
        return {name.removeprefix(prefix): value for name, value in self._fields if name.startswith(prefix)}

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)


def whole_number(field: str, text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 20):
        raise InvalidValue(field, text[:100], "a whole number")
    return int(text)


async def read_form(request: Request, names: Sequence[str] = ()) -> Form:
    """The form, if it was sent by a page of this dashboard; `names` are further names of this host."""
    body = await request.body()
    try:
        form = _parsed(body) if len(body) <= SMALL else await asyncio.to_thread(_parsed, body)
    except ValueError:
        raise HTTPException(400, f"the form cannot be read, or has more than {MOST_FIELDS} fields") from None
    check_form(request, form.get("csrf") or "", names)
    return form


def _parsed(body: bytes) -> Form:
    fields = parse_qsl(
        body.decode(),
        keep_blank_values=True,
        errors="strict",
        strict_parsing=bool(body),
        max_num_fields=MOST_FIELDS,
    )
    return Form(fields)
