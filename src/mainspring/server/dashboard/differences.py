"""What differs between two versions of a record, field by field."""

from __future__ import annotations

from typing import Any

import msgspec

from .format import pretty_json

LONGEST = 300


class Difference(msgspec.Struct, frozen=True):
    """One field: what it was, or what code declares, and what it is now. None means that the field was not there.
    `link` leads to what it names now."""

    name: str
    before: str | None
    after: str | None
    link: str | None = None


def differences(before: Any, after: Any) -> list[Difference]:
    """The fields that differ.

    >>> differences({"queue": "mail", "priority": 1}, {"queue": "slow", "priority": 1})
    [Difference(name='queue', before='mail', after='slow', link=None)]
    """
    if not isinstance(before, dict) and not isinstance(after, dict):
        return [] if before == after else [Difference("", _text(before), _text(after))]
    old, new = (value if isinstance(value, dict) else {} for value in (before, after))
    names = [*old, *(name for name in new if name not in old)]
    return [
        Difference(str(name), _text(old.get(name)), _text(new.get(name)))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else pretty_json(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
