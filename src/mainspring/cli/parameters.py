"""Parameters given on the command line: `--params JSON` and `--param key=value`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, get_args

import click
import msgspec

from ..app.mainspring import Mainspring
from ..model.errors import InvalidValue, shown

_TEXT_OR_NONE = {str, type(None)}
_UNKNOWN: Mapping[str, Any] = MappingProxyType({})


def read_params(text: str | None, pairs: Sequence[str], textual: Mapping[str, Any] = _UNKNOWN) -> dict[str, Any] | None:
    """The pairs on top of the object; None when neither is given. `textual` has the types of parameters for text.

    >>> read_params('{"a": 1}', ["b=2", "c=two", 'd="2"', "e=2"], textual={"e": str})
    {'a': 1, 'b': 2, 'c': 'two', 'd': '2', 'e': '2'}
    """
    if text is None and not pairs:
        return None
    return _object(text) | dict(_pair(pair, textual) for pair in pairs)


def textual_parameters(app: Mainspring, handler: str) -> Mapping[str, Any]:
    """The parameters of a handler that take text or None, as far as this process knows the handler."""
    if handler not in app._runtime.registry.names:
        return _UNKNOWN
    hints = {item.name: item.hint for item in app._runtime.registry.get(handler).signature.parameters.fields}
    return {name: hint for name, hint in hints.items() if hint is str or set(get_args(hint)) == _TEXT_OR_NONE}


def as_options(error: InvalidValue, pairs: Sequence[str]) -> InvalidValue:
    """An error about parameters or the window, told in terms of the options that were typed."""
    if error.field.startswith("window"):
        return _window_error(error)
    hint = quoting_hint(error.field.removeprefix("params."), pairs)
    if not hint:
        return error
    remedy = f"{error.remedy}. {hint}" if error.remedy else hint
    return InvalidValue(error.field, error.value, error.allowed, remedy)


def quoting_hint(name: str, pairs: Sequence[str]) -> str:
    """How to give a parameter as text whose value was read as a number or a word of JSON."""
    for pair in pairs:
        key, _, text = pair.partition("=")
        if key == name and not isinstance(_pair(pair)[1], str | list | dict):
            return f"To give it as text: --param '{key}=\"{text}\"'"
    return ""


def _window_error(error: InvalidValue) -> InvalidValue:
    part = error.field.removeprefix("window").removeprefix(".").upper()
    field = f"--window {part}".rstrip()
    if "ISO 8601" in error.allowed:
        allowed = "a time such as 2026-03-01 or 2026-03-01T08:00; without an offset it is read in the job's zone"
        return InvalidValue(field, error.value, allowed)
    return InvalidValue(field, error.value, error.allowed.replace("window.begin", "BEGIN"), error.remedy)


def _object(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise click.BadParameter(f"{shown(text)} is not JSON ({error})", param_hint="--params") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f'{shown(text)} is not an object, such as {{"url": "x"}}', param_hint="--params")
    return value


def _pair(pair: str, textual: Mapping[str, Any] = _UNKNOWN) -> tuple[str, Any]:
    """The value is JSON where it reads as JSON, otherwise text; where only text fits, quotes may be left out."""
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{shown(pair)} is not key=value", param_hint="--param")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError):
        return name, text
    as_read = name not in textual or isinstance(value, str) or (value is None and textual[name] is not str)
    return name, value if as_read else text
