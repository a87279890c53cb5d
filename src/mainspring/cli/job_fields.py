"""Fields of a job given on the command line: a schedule, parameters, and any other by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..app.mainspring import Mainspring
from ..core.declaring.options import EDITABLE, HTTP_FIELDS
from ..core.declaring.request_fields import name_in_requests, options_of, taken_away
from ..model.errors import InvalidValue, nearest
from .parameters import read_params, textual_parameters
from .session import Session

_KNOWN = sorted({*HTTP_FIELDS, *EDITABLE} - {"trigger"})  # a trigger is an object, which only code can give


def read_fields(
    app: Mainspring,
    handler: str,
    schedule: str | None,
    timezone: str | None,
    params: str | None,
    pairs: Sequence[str],
    options: Sequence[str],
) -> dict[str, Any]:
    """What was typed, as options of a declaration: fields go by their names in code, or in the HTTP interface."""
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
    """Fields to be taken away, as options."""
    for name in names:
        check_field(name, "--without")
    return taken_away(names)


def check_field(name: str, option: str) -> None:
    if name not in _KNOWN:
        near = nearest(name, _KNOWN)
        hint = f"Did you mean {near!r}?" if near else f"Known are {', '.join(_KNOWN)}"
        raise click.BadParameter(f"a job has no field {name!r}. {hint}", param_hint=option)


def called(session: Session, work: Any) -> Any:
    """Refusals speak of the options that were typed."""
    try:
        return session.call(work)
    except InvalidValue as error:
        raise InvalidValue(name_in_requests(error.field), error.value, error.allowed, error.remedy) from None
