"""Parameters given on the command line: `--params JSON` and `--param key=value`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from ..model.errors import shown


def read_params(text: str | None, pairs: Sequence[str]) -> dict[str, Any] | None:
    """The pairs on top of the object; None when neither is given.

    >>> read_params('{"a": 1}', ["b=2", "c=two", 'd="2"'])
    {'a': 1, 'b': 2, 'c': 'two', 'd': '2'}
    """
    if text is None and not pairs:
        return None
    return _object(text) | dict(_pair(pair) for pair in pairs)


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


def _pair(pair: str) -> tuple[str, Any]:
    """The value is JSON where it reads as JSON, otherwise text."""
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{shown(pair)} is not key=value", param_hint="--param")
    try:
        return name, msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError):
        return name, text
