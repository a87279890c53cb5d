"""What the fields of all filter tables have in common: the kinds of values, and how values are checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, Literal, TypeAlias

import msgspec

from ...model.errors import InvalidValue, nearest
from ...model.labels import LONGEST_VALUE
from ...model.time.instants import Micros, seconds_to_micros, to_micros
from ...model.values.payload import presentable
from ...model.values.reading import choice, duration, identifier, instant, words

Kind: TypeAlias = Literal["name", "text", "pair", "choice", "switch", "duration", "instant"]
"""The kinds of values: a `name` is that of a job, a `pair` is a text such as `order_id=4711`, an `instant` is a time,
or text such as `2h` for two hours ago."""

LONGEST_TEXT = 200
LONGEST_PAIR = 2 * LONGEST_VALUE


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a filter."""

    name: str
    meaning: str
    """What it finds, as shown in the documentation, the OpenAPI document and `--help`."""
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    several: bool = False
    """Whether it may be repeated. One of several choices has to match; all of several pairs or tags have to."""
    only_true: bool = False
    """Of a switch: True is its only value."""

    def read(self, value: Any, now: Micros) -> Any:
        """The value to keep; raises `InvalidValue`."""
        if not self.several:
            return self._one(value, now)
        single = isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable)
        values = tuple(dict.fromkeys(self._one(each, now) for each in ((value,) if single else value)))
        if not values:
            allowed = f"one or several of {', '.join(self.choices)}" if self.choices else "one text or several"
            raise InvalidValue(self.name, [], allowed)
        return values

    def _one(self, value: Any, now: Micros) -> Any:
        match self.kind:
            case "name":
                return identifier(self.name, value)
            case "choice":
                return self._choice(value)
            case "switch":
                return self._switch(value)
            case "duration":
                return seconds_to_micros(duration(self.name, value))
            case "instant":
                return past_instant(self.name, value, now)
            case "pair":
                return _pair(self.name, value)
            case "text":
                return words(self.name, value, LONGEST_TEXT)

    def _switch(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InvalidValue(self.name, presentable(value), "True" if self.only_true else "True or False")
        if self.only_true and not value:
            raise InvalidValue(self.name, value, "True", "Leave it out to find the others too")
        return value

    def _choice(self, value: Any) -> str:
        text = value.value if isinstance(value, Enum) else presentable(value)
        return choice(self.name, text, self.choices)


Table: TypeAlias = Mapping[str, Field]


def table_of(*fields: Field) -> dict[str, Field]:
    return {field.name: field for field in fields}


def read_fields(table: Table, given: Mapping[str, Any], now: Micros) -> dict[str, Any]:
    """Check the given fields. None is the same as leaving a field out; an unknown name is refused."""
    for name in given:
        if name not in table:
            guess = nearest(name, table) if isinstance(name, str) else None
            raise InvalidValue("filter", name, ", ".join(table), f"Did you mean {guess!r}?" if guess else "")
    return {name: table[name].read(value, now) for name, value in given.items() if value is not None}


def refuse_nothing(table: Table, found: Mapping[str, Any]) -> None:
    """Refuse an empty filter, so that nobody steers everything by mistake."""
    if not found:
        allowed = f"names or ids, or one at least of {', '.join(table)}"
        raise InvalidValue("filter", {}, allowed, "Name the items, or give at least one filter")


def past_instant(field: str, value: Any, now: Micros) -> Micros:
    """An instant; a duration means that long ago.

    >>> past_instant("since", "2h", 10_000_000_000)
    2800000000
    """
    if isinstance(value, timedelta):
        return now - seconds_to_micros(duration(field, value))
    if isinstance(value, str) and value[-1:].isalpha() and value[:1].isdigit():
        try:
            return now - seconds_to_micros(duration(field, value, allow_zero=True))
        except InvalidValue:
            pass  # such as 2026-01-01T00:00:00Z
    try:
        return to_micros(instant(field, value))
    except InvalidValue as error:
        allowed = f"{error.allowed}; or text such as '2h', for two hours ago"
        raise InvalidValue(field, value, allowed, error.remedy) from None


def _pair(field: str, value: Any) -> str:
    text = words(field, value, LONGEST_PAIR)
    name, equals, rest = text.partition("=")
    if not equals or not name.strip() or not rest:
        raise InvalidValue(field, value, "a name and a value, such as 'order_id=4711'")
    return f"{name.strip()}={rest}"
