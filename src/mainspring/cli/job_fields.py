"""Fields of a job given on the command line: a schedule, parameters, and any other by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..app.mainspring import Mainspring
from ..core.commands.job_creation import OPTION_OF, options_of
from ..core.declaring.edits import EDITABLE
from ..model.errors import InvalidValue, nearest
from .parameters import read_params, textual_parameters
from .session import Session

_AS_IN_CODE = tuple(name for name in EDITABLE if name != "trigger")  # which is an object there
_KNOWN = sorted({*OPTION_OF, *_AS_IN_CODE})
_TYPED = {"tz": "timezone", "trigger": "schedule", "cron": "schedule"}
"""What a field of core is called here."""


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
    known = {name: fields[name] for name in _AS_IN_CODE if name in fields} | options_of(fields)
    given = read_params(params, pairs, textual_parameters(app, handler))
    return known if given is None else {**known, "params": given}


def taken_out(names: Sequence[str]) -> dict[str, None]:
    """Fields to be taken away, as options."""
    for name in names:
        check_field(name, "--without")
    return {OPTION_OF.get(name, name): None for name in names}


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
        name = _TYPED.get(error.field, error.field)
        raise InvalidValue(name, error.value, error.allowed, error.remedy) from None
