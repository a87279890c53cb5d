"""Parameters and fields of a job as typed: `--params JSON`, `--param key=value`, `--option key=value`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_args

import click
import msgspec

from ..app.mainspring import Mainspring
from ..core.declaring.job_specs import field_meant, name_in_requests, options_of, taken_away
from ..core.declaring.options import EDITABLE, HTTP_FIELDS
from ..core.declaring.signature import PayloadMismatch
from ..core.queries.part_of_id import SHORTEST as SHORTEST
from ..core.queries.part_of_id import is_part, with_part
from ..core.views.execution import Execution
from ..model.errors import ExecutionNotFound, InvalidValue, shown
from ..model.execution import ExecutionRow
from ..model.values.ids import short_id as short_id
from ..model.values.reading import duration, instant_or_local
from .session import ClientSession

_TEXT_OR_NONE = {str, type(None)}
FIELDS = sorted({*HTTP_FIELDS, *EDITABLE} - {"trigger"})  # a trigger is an object, which only code can give
_UNKNOWN: Mapping[str, Any] = MappingProxyType({})


Command = TypeVar("Command", bound=Callable[..., Any])

_params = click.option("--params", metavar="JSON", help="Parameters as one JSON object.")
_param = click.option(
    "--param",
    "pairs",
    metavar="KEY=VALUE",
    multiple=True,
    help="One parameter; a VALUE that is valid JSON is read as JSON.",
)
window_option = click.option(
    "--window",
    nargs=2,
    metavar="BEGIN END",
    help="The data window, such as 2026-03-01 2026-03-02T06:00; without an offset: in the job's zone.",
)


def params_options(command: Command) -> Command:
    """Adds `--params` and `--param`, which `read_params` reads: the command gets `params` and `pairs`."""
    return _params(_param(command))


def read_text(file: str, option: str) -> str:
    """The text of a file that an option names; `-` is standard input."""
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.BadParameter(f"{file!r} cannot be read: {reason}", param_hint=option) from None


def past_time(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """A duration before now, or a time; without an offset it is read in the reader's own zone, in which times are
    shown. Callback of an option."""
    if value is None:
        return None
    with suppress(InvalidValue):
        duration(option.name or "", value, allow_zero=True)
        return value
    return local_time(f"--{option.name}", value, "; or a duration such as 2h, for two hours ago").isoformat()


def local_time(field: str, value: str, others: str = "") -> datetime:
    """A time; without an offset it is read in the reader's own zone, in which times are shown."""
    try:
        found = instant_or_local(field, value)
    except InvalidValue:
        allowed = f"a time such as 2026-03-01T08:00, in your own zone, or 2026-03-01T08:00Z{others}"
        raise InvalidValue(field, value, allowed) from None
    return found.astimezone()


def read_params(text: str | None, pairs: Sequence[str], textual: Mapping[str, Any] = _UNKNOWN) -> dict[str, Any] | None:
    """The pairs on top of the object; None when neither is given. `textual` has the types of parameters that take text.

    >>> read_params('{"a": 1}', ["b=2", "c=two", 'd="2"', "e=2"], textual={"e": str})
    {'a': 1, 'b': 2, 'c': 'two', 'd': '2', 'e': '2'}
    """
    if text is None and not pairs:
        return None
    return _object(text) | dict(_pair(pair, textual) for pair in pairs)


def textual_parameters(app: Mainspring, handler: str) -> Mapping[str, Any]:
    """The parameters that take text or None, with their types; none of a handler that this process does not have."""
    if handler not in app._runtime.registry.names:
        return _UNKNOWN
    hints = {item.name: item.hint for item in app._runtime.registry.get(handler).signature.parameters.fields}
    return {name: hint for name, hint in hints.items() if hint is str or set(get_args(hint)) == _TEXT_OR_NONE}


def as_options(error: InvalidValue, pairs: Sequence[str]) -> InvalidValue:
    """An error about parameters or the window, in terms of the options that were typed."""
    if error.field.startswith("window"):
        return _window_error(error)
    about_type = not (isinstance(error, PayloadMismatch) and error.message)
    hint = quoting_hint(error.field.removeprefix("params."), pairs) if about_type else ""
    if not hint:
        return error
    return error.reworded(remedy=f"{error.remedy}. {hint}" if error.remedy else hint)


def quoting_hint(name: str, pairs: Sequence[str]) -> str:
    """How to type a value as text that was read as a number or another JSON value."""
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
    """The value is JSON if it can be read as JSON, otherwise text. Parameters that only take text need no quotes."""
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{shown(pair)} is not key=value", param_hint="--param")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError):
        return name, text
    as_read = name not in textual or isinstance(value, str) or (value is None and textual[name] is not str)
    return name, value if as_read else text


# --- fields of a job ------------------------------------------------------------------------------------------


def read_fields(
    app: Mainspring,
    handler: str,
    schedule: str | None,
    timezone: str | None,
    params: str | None,
    pairs: Sequence[str],
    options: Sequence[str],
) -> dict[str, Any]:
    """The options that were typed. A field may have its name in code or in the HTTP interface."""
    fields = read_params(None, options) or {}
    for field, value in (("schedule", schedule), ("timezone", timezone)):
        if value is not None:
            fields[field] = value
    for field in fields:
        check_field(field, "--option")
    if {"max_attempts", "max_retries"} <= fields.keys():
        raise click.BadParameter("max_retries is max_attempts less one; give one of them", param_hint="--option")
    known = options_of(fields)
    given = read_params(params, pairs, textual_parameters(app, handler))
    return known if given is None else {**known, "params": given}


def taken_out(names: Sequence[str]) -> dict[str, None]:
    """The options that remove these fields."""
    for name in names:
        check_field(name, "--without")
    return taken_away(names)


def check_field(name: str, option: str) -> None:
    if name not in FIELDS:
        near = field_meant(name, FIELDS)
        hint = f"Did you mean {near!r}?" if near else f"Known are {', '.join(FIELDS)}"
        raise click.BadParameter(f"a job has no field {name!r}. {hint}", param_hint=option)


def called(session: ClientSession, work: Any) -> Any:
    """Errors name the fields as they were typed."""
    try:
        return session.call(work)
    except InvalidValue as error:
        raise error.reworded(field=name_in_requests(error.field)) from None


async def find_execution(app: Mainspring, text: str) -> Execution:
    """The execution with this id, or with this beginning or ending of an id."""
    part = text.strip().lstrip("….").lower()
    if not is_part(part):
        return await app.get(text)
    found = await with_part((await app._runtime.engine()).queries, part)
    if not found:
        raise ExecutionNotFound(text)
    if len(found) > 1:
        raise InvalidValue("execution id", text, "a part that one execution has alone", f"It fits {_some(found)}")
    return Execution(found[0])


def _some(found: list[ExecutionRow]) -> str:
    return f"{found[0].id} and {found[1].id}" + (", among others" if len(found) > 2 else "")
