"""Reading JSON that strangers and operators send.

To read JSON holds the event loop, and a thread would not help: the reader keeps the interpreter's lock. The time goes
with the number of values, not with the bytes, so the values are counted first, at a fraction of what reading costs.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgspec

from ..errors import InvalidValue
from .payload import MAX_DEPTH, Verbatim

MOST_VALUES = 12_000
"""Items of lists and fields of objects, together with the lists and objects themselves."""
MOST_LEVELS = MAX_DEPTH + 10
"""Parameters may have `MAX_DEPTH` levels, and a request has some around them."""
MOST_LONG_NUMBERS = 500
"""Numbers with an exponent of three digits, and runs of 25 digits: each can take as long to read as a hundred other
values."""

_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(each for each in range(256) if each not in b"[]{}")
_NUMBERS = bytes.maketrans(b"123456789E", b"000000000e")


def read_json(field: str, text: bytes) -> Any:
    """The value, or `InvalidValue` for one of too many values or levels. Raises `msgspec.DecodeError` for what is no
    JSON.

    >>> read_json("body", b'{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> read_json("body", b"[" * 200 + b"]" * 200)
    Traceback (most recent call last):
    ...
    mainspring.model.errors.InvalidValue: body: 200 levels is not valid; allowed: at most 110 levels
    >>> read_json("b", b"[" + b"1e-300," * 600 + b"0]")
    Traceback (most recent call last):
    ...
    mainspring.model.errors.InvalidValue: b: 600 numbers with many digits or a large exponent is not valid; allowed: \
at most 500. Write them as text
    """
    check_json(field, text)
    return msgspec.json.decode(text)


def check_json(field: str, text: bytes) -> None:
    """Refuse what has too many values or levels, without reading it."""
    if len(text) <= MOST_LEVELS:
        return
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"")
    if (strings := bare.count(b'"') // 2) > 2 * MOST_VALUES:  # a field has two: its name and its value
        raise _too_many(field, strings // 2)
    outside = b"".join(bare.split(b'"')[::2])
    brackets = outside.translate(_BRACKETS, _NO_BRACKETS)
    if (values := outside.count(b",") + brackets.count(b"[")) > MOST_VALUES:
        raise _too_many(field, values)
    numbers = outside.translate(_NUMBERS, b"+-.")
    if (long := numbers.count(b"e000") + numbers.count(b"0" * 25)) > MOST_LONG_NUMBERS:
        found = Verbatim(f"{long:,} numbers with many digits or a large exponent")
        raise InvalidValue(field, found, f"at most {MOST_LONG_NUMBERS}", "Write them as text")
    levels = max(accumulate(1 if each == ord("[") else -1 for each in brackets), default=0)
    if levels > MOST_LEVELS:
        raise InvalidValue(field, Verbatim(f"{levels} levels"), f"at most {MOST_LEVELS} levels")


def _too_many(field: str, found: int) -> InvalidValue:
    allowed = f"at most {MOST_VALUES:,} values of JSON"
    remedy = "Store large data elsewhere and send where it is, or send several requests"
    return InvalidValue(field, Verbatim(f"{found:,} values or more"), allowed, remedy)
