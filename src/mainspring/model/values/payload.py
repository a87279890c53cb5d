"""JSON in and out of executions.

What comes in (`encode_payload`) is kept exactly or refused with the place inside the payload. What goes out
(`safe_text`, `safe_json`) never fails: a result that cannot be stored must not keep its execution from ending, so
it is made storable, cut, and says so.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from ..defaults import PAYLOAD_LIMIT
from ..errors import ExecutionCancelled, InvalidValue

MAX_DEPTH = 100
NO_LIMIT = 2**40
"""Bytes, where only the form of a payload is checked."""
LOWEST, HIGHEST = -(2**63), 2**64 - 1
"""Integers every JSON reader we store for keeps exactly: signed or unsigned 64 bits."""

_JSON_TYPES = "null, true, false, numbers, text, lists, and objects with text keys"
_REPLACEMENT = "\ufffd"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")
_PLAIN = (str, bool)
_encode = msgspec.json.Encoder().encode
_WITH_TEXT_FORM = (datetime, date, time, timedelta, UUID, Decimal, bytes, bytearray)


# ---------------------------------------------------------------- what comes in: exact or refused


def encode_payload(field: str, value: Any, limit: int = PAYLOAD_LIMIT) -> str:
    """JSON text that reads back as exactly this value, or `InvalidValue` naming the place inside it.

    >>> encode_payload("params", {"shift": "42", "tags": ["a", "b"]})
    '{"shift":"42","tags":["a","b"]}'
    >>> encode_payload("params", {"items": [1, float("inf")]})
    Traceback (most recent call last):
    ...
    mainspring.model.errors.InvalidValue: params.items[1]: inf is not valid; allowed: a finite number
    """
    text = plainly(value)
    if text is not None and len(text) <= limit:
        return text.decode()
    try:
        _Check(limit).value(value, 0)
    except _Refused as refused:
        where = field + _inner_path(refused.path)
        raise InvalidValue(where, presentable(refused.value), refused.allowed, refused.remedy) from None
    except _TooLarge:
        raise _oversize(field, f"more than {limit} bytes", limit) from None
    text = msgspec.json.encode(value, enc_hook=_plain_scalar)
    if len(text) > limit:
        raise _oversize(field, f"{len(text)} bytes", limit)
    return text.decode()


def plainly(value: Any) -> bytes | None:
    """A fast path for an object of plain scalars; None for everything else."""
    if type(value) is not dict:
        return None
    for key, item in value.items():
        usual = LOWEST <= item <= HIGHEST if type(item) is int else item is None or type(item) in _PLAIN
        if not usual or type(key) is not str:
            return None
    try:
        text = _encode(value)
    except UnicodeEncodeError:  # half a surrogate pair: the full walk names the place
        return None
    return None if b"\\u0000" in text else text


class Verbatim(str):
    """Text that an error shows as it is, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str.__str__(self)


def presentable(value: Any) -> Any:
    """A stand-in for `value` in an error: one that can always be printed and pickled."""
    if value is None or type(value) in (bool, float) or (type(value) is int and LOWEST <= value <= HIGHEST):
        return value
    if type(value) is str and len(value) <= 1_000:
        return value
    return Verbatim(_guarded(lambda: repr(value), f"<{class_name(type(value))}>"))


_class_name = type.__dict__["__name__"].__get__


def class_name(kind: type) -> str:
    """The name of a class, read past a metaclass that would raise."""
    return str.__str__(_class_name(kind))


class _Refused(Exception):
    def __init__(self, value: Any, allowed: str, remedy: str = "") -> None:
        self.value, self.allowed, self.remedy = value, allowed, remedy
        self.path: list[str] = []


class _TooLarge(Exception):
    pass


class _Check:
    """One walk over a payload. `left` bounds it: every value and character takes at least a byte of JSON."""

    __slots__ = ("left",)

    def __init__(self, limit: int) -> None:
        self.left = limit

    def value(self, value: Any, depth: int) -> None:
        self._spend(1)
        if value is None or value is True or value is False:
            return
        if isinstance(value, str):
            self._text(value)
        elif isinstance(value, int):
            if not LOWEST <= value <= HIGHEST:
                raise _Refused(value, "an integer of at most 64 bits", "Send longer numbers as text")
        elif isinstance(value, float):
            if not math.isfinite(value):
                raise _Refused(value, "a finite number")
        elif isinstance(value, (dict, list, tuple)):
            self._container(value, depth)
        else:
            raise _Refused(value, _JSON_TYPES, _remedy_for(value))

    def _container(self, value: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise _Refused(Verbatim("deeper nesting"), f"at most {MAX_DEPTH} levels", "A value may not contain itself")
        keyed = isinstance(value, dict)
        place: Any = None
        try:
            for place, item in value.items() if isinstance(value, dict) else enumerate(value):
                if keyed:
                    self._key(place)
                if item is None or type(item) is bool or (type(item) is int and LOWEST <= item <= HIGHEST):
                    self._spend(1)  # as `value` would, in half the time
                else:
                    self.value(item, depth + 1)
        except _Refused as refused:
            refused.path.append(_step(place))
            raise

    def _key(self, key: Any) -> None:
        self._spend(1)
        if not isinstance(key, str):
            raise _Refused(key, "text as the key of an object", f"Use {_guarded(lambda: str(key), 'text')!r}")
        self._text(key)

    def _text(self, text: str) -> None:
        self._spend(len(text))
        if found := _UNSTORABLE.search(text):
            if found[0] == "\0":
                raise _Refused(text, "text without NUL characters", "Remove \\x00 from it, or send bytes as base64")
            raise _Refused(text, "text of whole Unicode characters", f"It holds half a surrogate pair: {found[0]!a}")

    def _spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _TooLarge


def _inner_path(steps: list[str]) -> str:
    """The steps, innermost first, as one readable path."""
    outward = steps[::-1]
    return "".join(outward if len(outward) <= 12 else [*outward[:6], "...", *outward[-3:]])


def _step(place: Any) -> str:
    if isinstance(place, int):
        return f"[{place}]"
    if isinstance(place, str) and _PLAIN_KEY.fullmatch(place):
        return f".{place}"
    return f"[{safe_text(repr(presentable(place)), 60)}]"


def _remedy_for(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, (*_WITH_TEXT_FORM, Enum)) or dataclasses.is_dataclass(value):
        return f"Annotate the handler's parameter as {kind}, and it is converted; or send text"
    return f"{kind} has no JSON form: send its id or its fields"


def _oversize(field: str, size: str, limit: int) -> InvalidValue:
    allowed = f"a payload of at most {limit} bytes of JSON"
    return InvalidValue(field, Verbatim(size), allowed, "Store large data elsewhere and send where it is")


def _plain_scalar(value: Any) -> Any:
    """msgspec knows no subclasses of the scalars; their plain value is the same."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


# ---------------------------------------------------------------- what goes out: always storable


def storable(text: str) -> str:
    """The text, with U+FFFD for what no store takes.

    >>> storable("a" + chr(0) + "b") == "a" + chr(0xFFFD) + "b"
    True
    """
    return _UNSTORABLE.sub(_REPLACEMENT, text)


def safe_text(text: Any, limit: int) -> str:
    """Text of at most `limit` characters that every store takes. Never raises.

    What cannot be stored becomes U+FFFD. Of long text the beginning and the end stay, and the middle says how much
    is missing.

    >>> safe_text("a" + chr(0) + "b", 100) == "a" + chr(0xFFFD) + "b"
    True
    >>> safe_text("x" * 1000, 40)
    'xxxxxxx...[987 characters cut]...xxxxxx'
    """
    plain = _guarded(lambda: str.__str__(text if isinstance(text, str) else str(text)), f"<{class_name(type(text))}>")
    if len(plain) > limit:
        plain = _shortened(plain, limit)
    return storable(plain)


def _shortened(text: str, limit: int) -> str:
    room = limit - len(f"...[{len(text)} characters cut]...")
    if room <= 0:
        return text[: max(limit, 0)]
    tail = room // 2
    return f"{text[: room - tail]}...[{len(text) - room} characters cut]...{text[len(text) - tail :]}"


def safe_json(value: Any, limit: int) -> str:
    """JSON text of at most `limit` bytes that every store and reader takes. Never raises.

    Values without a JSON form become text. What is too large is replaced by an object that says so and shows the
    beginning: `{"truncated": true, "bytes": 812345, "head": "..."}` (bytes is null when they were not all counted).

    >>> safe_json({"at": datetime(2026, 1, 1), "share": float("nan")}, 1000)
    '{"at":"2026-01-01T00:00:00","share":"nan"}'
    """
    for make in (lambda: encode_payload("value", value, limit), lambda: _tamed_json(value, limit)):
        if (text := _guarded(make, "")) != "":
            return text  # type: ignore[no-any-return]
    return msgspec.json.encode(f"<{class_name(type(value))} without a JSON form>"[:limit]).decode()


def _tamed_json(value: Any, limit: int) -> str:
    tamer = _Tamer(16 * limit + 10_000)  # enough to count the size of most values, and bounded
    text = msgspec.json.encode(tamer.tame(value, 0))
    if len(text) <= limit and not tamer.cut:
        return text.decode()
    size = None if tamer.cut else len(text)
    head = text[:limit].decode("utf-8", "ignore")
    while head:
        note = msgspec.json.encode({"truncated": True, "bytes": size, "head": head})
        if len(note) <= limit:
            return note.decode()
        head = head[: max(len(head) - max(len(note) - limit, 1), 0)]
    return "null"


class _Tamer:
    """Makes JSON values of anything. `left` bounds the work: what comes after is cut."""

    __slots__ = ("cut", "left", "path")

    def __init__(self, budget: int) -> None:
        self.left = budget
        self.cut = False
        self.path: set[int] = set()

    def tame(self, value: Any, depth: int) -> Any:
        self.left -= 1
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int and LOWEST <= value <= HIGHEST:
            return value
        if kind is float:
            return value if math.isfinite(value) else repr(value)
        if kind is str:
            return self._text(value)
        if depth >= MAX_DEPTH:
            return "... nested too deep"
        if id(value) in self.path:
            return "... contains itself"
        self.path.add(id(value))
        try:
            return _guarded(lambda: self._compound(value, depth), f"<{class_name(kind)} without a JSON form>")
        finally:
            self.path.discard(id(value))

    def _compound(self, value: Any, depth: int) -> Any:
        plain = _plain_form(value)
        if isinstance(plain, Mapping):
            return self._object(plain.items(), depth)
        if isinstance(plain, (list, tuple, Set)):
            return self._array(plain, depth)
        if type(plain) in (str, int, float) and plain is not value:
            return self.tame(plain, depth + 1)
        return self._text(plain if isinstance(plain, str) else _guarded(lambda: repr(plain), _number_words(plain)))

    def _object(self, items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        tamed = {}
        for key, item in items:
            if self._spent():
                break
            tamed[self._text(key)] = self.tame(item, depth + 1)
        return tamed

    def _array(self, items: Iterable[Any], depth: int) -> list[Any]:
        tamed = []
        for item in items:
            if self._spent():
                break
            tamed.append(self.tame(item, depth + 1))
        return tamed

    def _text(self, text: Any) -> str:
        plain = safe_text(text, max(self.left, 0) + 100)
        self.left -= len(plain)
        self.cut = self.cut or (isinstance(text, str) and len(text) > len(plain))
        return plain

    def _spent(self) -> bool:
        self.cut = self.cut or self.left <= 0
        return self.cut


def _plain_form(value: Any) -> Any:
    """One layer of an object as plain data; the object itself when there is no such form."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if isinstance(value, _WITH_TEXT_FORM):
        return msgspec.to_builtins(value)
    if isinstance(value, (str, float)) or (isinstance(value, int) and LOWEST <= value <= HIGHEST):
        return _plain_scalar(value)
    dump = getattr(value, "model_dump", None)  # pydantic, which is never imported here
    return dump(mode="json") if callable(dump) and not isinstance(value, type) else value


def _number_words(value: Any) -> str:
    """Python refuses to convert very long integers to text."""
    return f"<int of {value.bit_length()} bits>" if isinstance(value, int) else f"<{class_name(type(value))}>"


def _guarded(make: Callable[[], Any], otherwise: str) -> Any:
    """Call foreign code such as a `__repr__`; if it raises, return `otherwise`. A stop passes: it is no error of that
    code, and comes once only."""
    try:
        return make()
    except ExecutionCancelled:
        raise
    except BaseException:  # EXE-8: even a SystemExit raised by a result's __repr__ must not stop a completion
        return otherwise
