"""What an attempt left behind, its exception and its result, as text for the record. Nothing here raises.

To describe an exception or a result is to run code of the application: a `__str__`, a `__repr__`, a property. That code
may raise anything, or never return. `is_plain` and `is_plain_error` tell what can be described without running any.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import UUID

import msgspec

from ...model.error_groups import Fingerprint
from ...model.errors import NonRetryable
from ...model.values.payload import class_name, safe_text
from ..rules.fingerprint import Frame, fingerprint

ERROR_LIMIT = 4_096
TRACEBACK_LIMIT = 32_768
FRAMES = 200
LOOKED_AT = 10_000
"""Values inside a result after which it counts as not plain: it takes too long on the event loop."""
LINKS = 20
"""Causes and contexts of an exception after which it counts as not plain."""

_PACKAGE = Path(__file__).parents[2]
_ENGINE = (
    *(f"{_PACKAGE / folder}{os.sep}" for folder in ("core/engine", "core/tenants", "processes", "contrib")),
    str(_PACKAGE / "core/declaring/around.py"),
    f"{Path(asyncio.__file__).parent}{os.sep}",
)
"""What lies between the worker and a handler: where its own files and those of the event loop are."""
_OURS = f"{__name__.partition('.')[0]}."
_SCALARS = frozenset({str, int, float, bool, type(None), datetime, date, time, timedelta, UUID, Decimal, bytes})
_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
_WITH_MORE = (BaseExceptionGroup, SyntaxError, AttributeError)
"""Errors whose traceback shows more than their arguments."""
_SHOWN = ("__cause__", "__context__", "__traceback__", "args")
_READ = frozenset({*_SHOWN, "__str__", "__getattribute__", "__class__", "__suppress_context__", "__notes__"})
"""What a class may replace, and a description reads."""

# These look past what a class or a metaclass has replaced.
_cause, _context, _traceback, _args = (BaseException.__dict__[name].__get__ for name in _SHOWN)
_exceptions = BaseExceptionGroup.__dict__["exceptions"].__get__
_qualname = type.__dict__["__qualname__"].__get__
_mro, _namespace = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
_attribute, _class_attribute = object.__getattribute__, type.__getattribute__


def describe_error(error: BaseException) -> str:
    """`Type: message`, whatever the exception's own `__str__` does."""
    name = class_name(type(error))
    try:
        message = str.__str__(str(error))
    except BaseException as broken:
        message = f"<no message: {class_name(type(broken))} in __str__>"
    return safe_text(f"{name}: {message}" if message else name, ERROR_LIMIT)


def describe_traceback(error: BaseException) -> str:
    """The traceback as Python prints it, from the handler on: the frames above it are the engine's. Of an exception
    that cannot be printed, the frames and its description."""
    try:
        shown = _from_the_handler(_traceback(error))
        text = "".join(traceback.format_exception(type(error), error, shown, limit=-FRAMES))
    except BaseException:
        text = f"Traceback (most recent call last):\n{_frames(error)}{describe_error(error)}\n"
    return safe_text(text, TRACEBACK_LIMIT)


def fingerprint_of(error: BaseException, described: str) -> Fingerprint:
    """The fingerprint of an exception; `described` is what `describe_error` says about it. Of an exception group, that
    of the first exception in it: a `TaskGroup` says the same about every error."""
    first = _first_of(error)
    kind, frames = type(first), _traceback(first) or _traceback(error)
    name = class_name(kind)
    message = (described if first is error else describe_error(first)).removeprefix(name).removeprefix(": ")
    try:
        return fingerprint(_qualified(kind), message, _walked(_from_the_handler(frames)))
    except BaseException:
        return fingerprint(name, message)


def _first_of(error: BaseException) -> BaseException:
    left = LINKS
    while issubclass(type(error), BaseExceptionGroup) and left:
        error, left = _exceptions(error)[0], left - 1
    return error


def _qualified(kind: type) -> str:
    """The name of a class with its module, read past a metaclass that would raise."""
    module, name = _namespace(kind).get("__module__"), _qualname(kind)
    return name if type(module) is not str or module == "builtins" else f"{module}.{name}"


def _walked(frames: TracebackType | None) -> Iterator[Frame]:
    left = LOOKED_AT
    while frames is not None and left:
        code, module = frames.tb_frame.f_code, dict.get(frames.tb_frame.f_globals, "__name__")
        yield Frame(code.co_filename, module if type(module) is str else "", code.co_qualname)
        frames, left = frames.tb_next, left - 1


def _from_the_handler(frames: TracebackType | None) -> TracebackType | None:
    """All frames if there is nothing but the engine's."""
    shown = frames
    while shown is not None and shown.tb_frame.f_code.co_filename.startswith(_ENGINE):
        shown = shown.tb_next
    return shown or frames


def _frames(error: BaseException) -> str:
    try:
        return "".join(traceback.format_tb(_traceback(error), limit=-FRAMES))
    except BaseException as broken:
        return f"  <the frames could not be formatted: {class_name(type(broken))}>\n"


def is_retryable(error: BaseException, non_retryable: tuple[str, ...]) -> bool:
    kind = type(error)
    return not issubclass(kind, NonRetryable) and (not non_retryable or _names(kind).isdisjoint(non_retryable))


def _names(kind: type) -> set[str]:
    """The names of a class and its bases, with and without the module."""
    names = set()
    for each in _mro(kind):
        names.add(class_name(each))
        try:
            names.add(str.__str__(f"{each.__module__}.{each.__qualname__}"))
        except BaseException:  # noqa: S112 - classes of the application may raise anything here
            continue
    return names


def is_plain(value: Any) -> bool:
    """Whether a value consists of plain data, so that writing it as JSON runs no code of the application."""
    if value is None:
        return True
    waiting, left = [value], LOOKED_AT
    while waiting and left:
        value, left = waiting.pop(), left - 1
        kind = type(value)
        usual = type(kind) is type  # a metaclass of the application may raise when its class is hashed
        if usual and kind in _SCALARS:
            continue
        if usual and kind in _CONTAINERS:
            waiting += value
            if kind is dict:
                waiting += value.values()
        elif (fields := _fields(value, kind)) is not None:
            waiting += fields
        else:
            return False
    return not waiting


def _fields(value: Any, kind: type) -> list[Any] | None:
    """The values inside an enum, a Struct or a dataclass that reads its attributes as other objects do."""
    if issubclass(kind, Enum):
        return [_attribute(value, "_value_")]
    if issubclass(kind, msgspec.Struct):
        return list(msgspec.structs.astuple(value))
    if type(kind) is not type or _class_attribute(kind, "__getattribute__") is not _attribute:
        return None
    try:
        return [_attribute(value, name) for name in _class_attribute(kind, "__dataclass_fields__")]
    except BaseException:
        return None


def is_plain_error(error: BaseException | None) -> bool:
    """Whether describing an exception, with all its causes and contexts, runs no code of the application."""
    waiting, left = [error], LINKS
    while waiting and left:
        each, left = waiting.pop(), left - 1
        if each is not None:
            if not _is_plain_link(each):
                return False
            waiting += (_cause(each), _context(each))
    return not any(each is not None for each in waiting)


def _is_plain_link(error: BaseException) -> bool:
    kind = type(error)
    if type(kind) is not type or issubclass(kind, _WITH_MORE):
        return False
    for base in _mro(kind)[:-2]:  # all but BaseException and object
        own = _namespace(base)
        module = own.get("__module__", "builtins")
        if type(module) is not str:
            return False
        replaced = _READ & own.keys()
        if replaced and module != "builtins" and not (replaced == {"__str__"} and module.startswith(_OURS)):
            return False
    return is_plain(_args(error)) and is_plain(_attribute(error, "__dict__").get("__notes__"))
