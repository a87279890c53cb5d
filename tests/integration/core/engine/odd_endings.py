"""Everything a handler may raise or return that is hard to look at: the cases of test_odd_endings.py.

A case is a function without parameters. `RAISED` must end as a failed attempt, `RETURNED` as a completed one.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import decimal
import enum
import io
import json
import math
import pathlib
import re
import socket
import subprocess
import threading
import types
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NoReturn

import msgspec

Case = Callable[[], Any]
BROKEN: dict[str, type[BaseException]] = {
    "error": RuntimeError,
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "cancelled": asyncio.CancelledError,
}
"""What a hostile method raises. `BaseException` is not caught by `except Exception`."""

RAISED: dict[str, Case] = {}
RETURNED: dict[str, Case] = {}


def raiser(error: BaseException | type[BaseException]) -> Case:
    def call() -> NoReturn:
        raise error

    return call


def refuse(kind: str) -> Callable[..., NoReturn]:
    def method(*args: Any, **kwargs: Any) -> NoReturn:
        raise BROKEN[kind]("do not look at me")

    return method


# --- exceptions whose parts raise when they are looked at ----------------------------------------------------


def error_class(name: str, namespace: dict[str, Any], base: type[BaseException] = Exception) -> type[BaseException]:
    return types.new_class(name, (base,), exec_body=lambda body: body.update(namespace))


for _kind in BROKEN:
    for _part in ("__str__", "__repr__", "__getattribute__", "__eq__", "__hash__", "__reduce__"):
        _made = error_class("Hostile", {_part: refuse(_kind)})
        RAISED[f"{_part} raises {_kind}"] = raiser(_made("text"))
    for _part in (
        "__class__",
        "__module__",
        "__traceback__",
        "__cause__",
        "__context__",
        "__notes__",
        "args",
        "add_note",
    ):
        _made = error_class("Hostile", {_part: property(refuse(_kind))})
        RAISED[f"{_part} raises {_kind}"] = raiser(_made("text"))
    RAISED[f"the argument's __str__ raises {_kind}"] = raiser(ValueError(type("Arg", (), {"__str__": refuse(_kind)})()))
    RAISED[f"the argument's __repr__ raises {_kind}"] = raiser(
        ValueError(1, type("Arg", (), {"__repr__": refuse(_kind)})())
    )

    class _Meta(type):
        __getattribute__ = refuse(_kind)

    class _Shown(type):
        __repr__ = __str__ = __hash__ = __eq__ = refuse(_kind)  # type: ignore[assignment]

    RAISED[f"a class whose attributes raise {_kind}"] = raiser(_Meta("Hidden", (Exception,), {})("text"))
    RAISED[f"a class that cannot be hashed or shown: {_kind}"] = raiser(_Shown("Shy", (Exception,), {})("text"))


class Text(str):
    """Text whose own methods raise."""

    __str__ = __repr__ = __format__ = __len__ = __bool__ = __eq__ = refuse("exit")  # type: ignore[assignment]
    __hash__ = __getitem__ = __iter__ = __add__ = __contains__ = encode = strip = refuse("error")  # type: ignore


class Number(int):
    __str__ = __repr__ = __format__ = __int__ = __index__ = __bool__ = __eq__ = __le__ = __ge__ = __lt__ = __gt__ = (
        refuse("exit")  # type: ignore[assignment]
    )
    __hash__ = refuse("error")  # type: ignore[assignment]


class Fraction(float):
    __str__ = __repr__ = __format__ = __float__ = __bool__ = __eq__ = refuse("exit")  # type: ignore[assignment]
    __hash__ = refuse("error")  # type: ignore[assignment]


class Table(dict):  # type: ignore[type-arg]
    items = keys = values = __iter__ = __len__ = __bool__ = __getitem__ = refuse("exit")  # type: ignore[assignment]
    __repr__ = __eq__ = refuse("interrupt")  # type: ignore[assignment]


class Row(list):  # type: ignore[type-arg]
    __iter__ = __len__ = __bool__ = __getitem__ = __repr__ = __eq__ = refuse("cancelled")  # type: ignore[assignment]


class Pair(tuple):  # type: ignore[type-arg]
    __iter__ = __len__ = __bool__ = __getitem__ = __repr__ = refuse("interrupt")  # type: ignore[assignment]


class Untrue:
    __bool__ = __len__ = __iter__ = __eq__ = __repr__ = __str__ = refuse("interrupt")  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Closed:
    """Nothing of it can be read."""

    __getattribute__ = refuse("exit")  # type: ignore[assignment]


class Disguised:
    __class__ = property(refuse("cancelled"))  # type: ignore[assignment]


def named(name: str) -> BaseException:
    kind = error_class("Named", {})
    kind.__qualname__ = name
    with contextlib.suppress(UnicodeEncodeError):
        kind.__name__ = name
    return kind("text")


class SaysText(Exception):
    def __str__(self) -> str:
        return Text("text of a subclass")


class SaysNothing(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class Loops(Exception):
    def __str__(self) -> str:
        return str(self)


class Base(BaseException):
    """Not an Exception."""


class Exits(SystemExit):
    """A subclass of what ends a process."""


class ListensToCancel(asyncio.CancelledError):
    pass


def with_notes(notes: Any) -> BaseException:
    error = ValueError("noted")
    error.__notes__ = notes
    return error


def grouped(depth: int, inner: BaseException | None = None) -> BaseException:
    group: BaseException = inner or ValueError("innermost")
    for level in range(depth):
        group = BaseExceptionGroup(f"level {level}", [group])
    return group


def chain(length: int, attribute: str = "__cause__") -> BaseException:
    first = last = ValueError("link 0")
    for number in range(1, length):
        further = ValueError(f"link {number}")
        setattr(last, attribute, further)
        last = further
    return first


def circle() -> BaseException:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


def with_cause(cause: BaseException) -> Case:
    def call() -> NoReturn:
        raise LookupError("outer") from cause

    return call


def endless(depth: int = 0) -> Any:
    return endless(depth + 1)


def in_except() -> NoReturn:
    try:
        endless()
    except RecursionError as error:
        raise SaysText from error


def in_finally() -> Any:
    try:
        raise SystemExit("first")
    finally:
        raise KeyboardInterrupt("second")


def in_cleanup() -> Any:
    with contextlib.ExitStack() as stack:
        stack.callback(raiser(MemoryError("in cleanup")))
        raise GeneratorExit("in the body")


def exhausted() -> Any:
    return next(iter(()))


async def forgotten() -> None:
    """Returned by a handler, which makes it a failure: nobody awaits it."""


RAISED |= {
    "a coroutine that nobody awaits": forgotten,
    "__str__ returns a hostile subclass": raiser(SaysText()),
    "__str__ returns no text": raiser(SaysNothing()),
    "__str__ calls itself": raiser(Loops()),
    "a name of hostile text": raiser(named(Text("Named"))),
    "an empty name": raiser(named("")),
    "half a surrogate pair in its name": raiser(named("a\ud800b")),
    "a name of a million characters": raiser(named("N" * 1_000_000)),
    "hostile text": raiser(ValueError(Text("hostile"))),
    "a hostile number": raiser(ValueError(Number(7))),
    "a hostile dict": raiser(ValueError(Table(a=1))),
    "nothing of its argument can be read": raiser(ValueError(Closed())),
    "NUL": raiser(ValueError("a\x00b")),
    "half a surrogate pair": raiser(ValueError("a\ud800b")),
    "a million characters": raiser(ValueError("x" * 1_000_000)),
    "100,000 lines": raiser(ValueError("\n" * 100_000)),
    "terminal control sequences": raiser(ValueError("\x1b[2J\x1b]0;title\x07")),
    "a percent sign": raiser(ValueError("%s %d %(x)s {} {0}")),
    "an integer of 10,000 digits": raiser(ValueError(10**10_000)),
    "no arguments": raiser(Exception()),
    "a class instead of an object": raiser(LookupError),
    "notes": raiser(with_notes(["one", "two"])),
    "notes that are no list": raiser(with_notes(7)),
    "hostile notes": raiser(with_notes([Text("note"), Closed(), None])),
    "a hundred thousand notes": raiser(with_notes(["note"] * 10_000)),
    "a group": raiser(ExceptionGroup("both", [ValueError("a"), KeyError("b")])),
    "a group of BaseExceptions": raiser(BaseExceptionGroup("both", [SystemExit(1), KeyboardInterrupt()])),
    "groups 50 deep": raiser(grouped(50)),
    "groups 2,000 deep": raiser(grouped(2_000)),
    "a hostile member of a group": raiser(grouped(3, SaysText())),
    "a closed member of a group": raiser(grouped(3, error_class("C", {"__getattribute__": refuse("exit")})("text"))),
    "a group of 2,000": raiser(ExceptionGroup("many", [ValueError(str(n)) for n in range(2_000)])),
    "a chain of 2,000 causes": raiser(chain(2_000)),
    "a chain of 2,000 contexts": raiser(chain(2_000, "__context__")),
    "causes in a circle": raiser(circle()),
    "a hostile cause": with_cause(SaysText()),
    "a closed cause": with_cause(error_class("C", {"__getattribute__": refuse("exit")})("text")),
    "SystemExit": raiser(SystemExit(3)),
    "SystemExit without a code": raiser(SystemExit),
    "SystemExit with a closed code": raiser(SystemExit(Closed())),
    "a subclass of SystemExit": raiser(Exits(Closed())),
    "sys.exit as text": raiser(SystemExit("bye")),
    "KeyboardInterrupt": raiser(KeyboardInterrupt()),
    "GeneratorExit": raiser(GeneratorExit()),
    "StopIteration": raiser(StopIteration(1)),
    "StopIteration of next": exhausted,
    "StopAsyncIteration": raiser(StopAsyncIteration()),
    "CancelledError by hand": raiser(asyncio.CancelledError("by hand")),
    "a subclass of CancelledError": raiser(ListensToCancel()),
    "InvalidStateError": raiser(asyncio.InvalidStateError()),
    "a TimeoutError of its own": raiser(TimeoutError("theirs")),
    "RecursionError": endless,
    "RecursionError by hand": raiser(RecursionError("by hand")),
    "an error after a RecursionError": in_except,
    "MemoryError": raiser(MemoryError()),
    "a huge allocation": lambda: bytearray(2**62),
    "BaseException": raiser(BaseException("bare")),
    "a BaseException of its own": raiser(Base(Closed())),
    "an error in finally": in_finally,
    "an error in a callback": in_cleanup,
    "AssertionError": raiser(AssertionError(Closed())),
    "KeyError of a closed key": raiser(KeyError(Closed())),
    "OSError": raiser(OSError(28, "No space left on device", Closed())),
    "UnicodeDecodeError": lambda: b"\xff".decode("utf-8"),
    "UnicodeEncodeError": lambda: "\ud800".encode(),
    "SyntaxError": lambda: compile("def", "nowhere", "exec"),
    "SyntaxError with details": raiser(SyntaxError("bad", ("file", 1, 1, "text", 1, 1))),
    "ImportError": lambda: __import__("mainspring_of_nowhere"),
    "json": lambda: json.loads("{"),
    "msgspec": lambda: msgspec.json.decode("{"),
    "a failed subprocess": raiser(subprocess.CalledProcessError(1, [Closed()])),  # type: ignore[list-item]
    "a name that cannot be resolved": raiser(socket.gaierror(-2, "Name or service not known")),
    "decimal": lambda: decimal.Decimal("x"),
    "re": lambda: re.compile("("),
    "a warning": raiser(DeprecationWarning("raised")),
    "an attribute of nothing": lambda: None.missing,  # type: ignore[attr-defined]
}


# --- results -------------------------------------------------------------------------------------------------


def cyclic() -> list[Any]:
    inner: list[Any] = [1]
    inner.append({"again": inner})
    return inner


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"in": value}
    return value


class Colour(enum.Enum):
    RED = 1


Colour.RED._value_ = Closed()  # type: ignore[assignment]


@dataclasses.dataclass
class Order:
    id: Any


class Record(msgspec.Struct):
    id: Any


class Model:
    def __init__(self, dump: Callable[..., Any]) -> None:
        self.model_dump = dump


class Shrinking(Mapping[str, Any]):
    """A mapping that lies about what it has."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["a", "b"])

    def __len__(self) -> int:
        return -1


class Unending(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return key * 100

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield str(number)

    def __len__(self) -> int:
        return 2**40


async def agen() -> Any:
    yield 1


class Key(str):
    """Text that can be put into a dict, and raises afterwards."""

    __str__ = __repr__ = __format__ = __len__ = refuse("interrupt")  # type: ignore[assignment]


RETURNED |= {
    "nothing": lambda: None,
    "text with NUL": lambda: "a\x00b",
    "half a surrogate pair": lambda: "\ud800x",
    "not a number": lambda: {"share": math.nan},
    "infinite": lambda: [math.inf, -math.inf],
    "an integer of 5,000 digits": lambda: 10**5_000,
    "65 bits": lambda: 2**64,
    "hostile text": lambda: Text("hostile"),
    "a hostile number": lambda: Number(7),
    "a hostile fraction": lambda: Fraction(0.5),
    "a hostile dict": lambda: Table(a=1),
    "a hostile list": lambda: Row([1]),
    "a hostile tuple": lambda: Pair((1, 2)),
    "hostile keys": lambda: {Key("k"): 1},
    "raising __bool__, __len__, __iter__, __eq__": Untrue,
    "an object that cannot be read": Closed,
    "an object whose __class__ raises": Disguised,
    "a list of such objects": lambda: [Closed(), Disguised(), Untrue(), 1],
    "a dict of such objects": lambda: {"a": Closed(), "b": Disguised()},
    "a cycle": cyclic,
    "1,000 levels": lambda: nested(1_000),
    "20,000 levels": lambda: nested(20_000),
    "an object": object,
    "a class": lambda: Closed,
    "a class of a hostile metaclass": lambda: _Meta("Hidden", (), {}),
    "a module": lambda: types.ModuleType("m"),
    "a function": lambda: nested,
    "a bound method": lambda: "x".strip,
    "a generator": lambda: (n for n in range(3)),
    "an endless generator": lambda: iter(int, 1),
    "an async generator": agen,
    "a lock": threading.Lock,
    "an open file": io.BytesIO,
    "a weak reference": lambda: weakref.ref(Closed),
    "an exception": lambda: ValueError("returned"),
    "a hostile exception": SaysText,
    "an exception class": lambda: SystemExit,
    "NotImplemented": lambda: NotImplemented,
    "an ellipsis": lambda: ...,
    "bytes": lambda: b"\x00\xff",
    "a memoryview": lambda: memoryview(b"abc"),
    "a set": lambda: {1},
    "a frozen set of a set": lambda: frozenset({frozenset({1})}),
    "keys that are no text": lambda: {1: "a", None: "b", (1, 2): "c"},
    "a counter": lambda: collections.Counter("abc"),
    "a deque": lambda: collections.deque([1, 2]),
    "a mapping that raises": Shrinking,
    "an endless mapping": Unending,
    "an enum of a closed value": lambda: Colour.RED,
    "a dataclass with a closed field": lambda: Order(Closed()),
    "a dataclass without its field": lambda: object.__new__(Order),
    "a Struct with a closed field": lambda: Record(Closed()),
    "a model whose dump raises": lambda: Model(refuse("exit")),
    "a model whose dump returns itself": lambda: Model(lambda **_: Closed()),
    "datetime": lambda: datetime(2026, 1, 1, tzinfo=UTC),
    "date, time, timedelta": lambda: [date.max, time.min, timedelta.max],
    "decimal": lambda: decimal.Decimal("sNaN"),
    "uuid": lambda: uuid.UUID(int=0),
    "complex": lambda: complex(math.nan, 1),
    "a path": lambda: pathlib.PurePath("a"),
    "a range": lambda: range(10**18),
    "a million characters": lambda: "x" * 1_000_000,
    "100,000 items": lambda: list(range(100_000)),
}
