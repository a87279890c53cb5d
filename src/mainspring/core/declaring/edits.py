"""An operator's edit of a job: the same options as a declaration, checked by the same rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ...model.errors import InvalidValue, nearest
from ...model.job import JobSpec
from ...model.triggers.combined import decode_trigger
from ...model.values.payload import presentable
from .options import OPTIONS, job_spec
from .signature import Signature
from .tenant_options import CODE_ONLY

EDITABLE = tuple(name for name in OPTIONS if name not in CODE_ONLY | {"allow_override"})
_FIELD_OF = {
    "cron": "trigger",
    "interval_minutes": "trigger",
    "interval_type": "trigger",
    "schedule_enabled": "enabled",
}
_MAY_BE_NONE = frozenset(
    {
        "trigger",
        "timeout",
        "grace",
        "window",
        "hours",
        "overlap_limit",
        "trigger_role",
        "tenant_concurrency",
        "ping",
        "after",
        "not_before",
    }
)


def edited_fields(spec: JobSpec, signature: Signature | None, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the specification that these options set, as plain JSON data.

    None takes a trigger, timeout, grace, window, limit or hours away. Everything not named stays as it is.
    """
    check_known(changes)
    fields = {_FIELD_OF.get(name, name) for name in changes}
    for name, value in changes.items():
        if value is None and _FIELD_OF.get(name, name) not in _MAY_BE_NONE:
            raise InvalidValue(name, None, "a value", "To take edits back, revert the job")
    new = job_spec(spec.handler, signature, _present_options(spec, fields, changes) | dict(changes), spec.tz)
    return {field: _plain(getattr(new, field)) for field in sorted(fields)}


def check_known(names: Iterable[str]) -> None:
    """Refuse what is no option of a job that can be edited."""
    for name in names:
        if name not in EDITABLE:
            hint = f"Did you mean {guess!r}?" if (guess := nearest(name, EDITABLE)) else ""
            raise InvalidValue("field", presentable(name), ", ".join(EDITABLE), hint)


def _present_options(spec: JobSpec, edited: set[str], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What is in force now, as options. A new trigger brings its own zone; a new policy drops the old one's limit."""
    options = {field: getattr(spec, field) for field in spec.__struct_fields__ if field != "handler"}
    if spec.trigger is not None:
        options["trigger"] = decode_trigger(spec.trigger)
    if "trigger" in edited:
        del options["trigger"]
    if getattr(changes.get("trigger"), "tz", None) is not None:
        del options["tz"]
    if changes.get("overlap", "allow") != "allow":
        del options["overlap_limit"]
    return options


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
