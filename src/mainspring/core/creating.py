"""Jobs made and edited through the HTTP interface: its fields as options of a declaration, with its own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.errors import InvalidValue
from ..model.ids import Chance
from ..model.policies import Retry
from ..model.triggers import Trigger, cron, every, once
from ..model.values import duration, instant, whole
from .declare import job_spec
from .edits import EDITABLE

MAX_RETRIES, BACKOFF, LONGEST_BACKOFF = 3, 60.0, 3600.0
"""What a job made through the interface gets when it says nothing about retries."""

SAME_NAME = tuple(name for name in EDITABLE if name not in ("cron", "trigger", "max_attempts", "retry", "tz"))


def options_of(fields: Mapping[str, Any], backoff: float = BACKOFF) -> dict[str, Any]:
    """The fields of the interface as options of a declaration. Where interval and schedule are both given, the
    interval wins."""
    options = {name: fields[name] for name in SAME_NAME if name in fields}
    if "timezone" in fields:
        options["tz"] = fields["timezone"]
    if fields.get("interval_minutes") is None and "schedule" in fields:
        options["trigger"] = None if fields["schedule"] is None else trigger_of(fields["schedule"])
        options.pop("interval_minutes", None)
    if "max_retries" in fields:
        options["max_attempts"] = whole("max_retries", fields["max_retries"], 0, 999) + 1
    if "retry_backoff_seconds" in fields:
        backoff = duration("retry_backoff_seconds", fields["retry_backoff_seconds"], allow_zero=True)
        options["retry"] = Retry(initial=backoff, multiplier=2.0, max=max(backoff, LONGEST_BACKOFF))
    return options


def with_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a new job gets where it says nothing."""
    patient = Retry(initial=BACKOFF, multiplier=2.0, max=LONGEST_BACKOFF)
    return {"max_attempts": MAX_RETRIES + 1, "retry": patient, **options}


def trigger_of(text: str) -> Trigger:
    """A schedule as text, the way it is shown: cron, `@every 30m` or `@once 2026-01-01T00:00:00Z`.

    >>> trigger_of("@every 90s").describe()
    'every 1 minute 30 seconds'
    """
    word, _, rest = text.strip().partition(" ")
    if word == "@every" and rest:
        return every(seconds=duration("schedule", rest))
    if word == "@once" and rest:
        return once(instant("schedule", rest))
    try:
        return cron(text)
    except InvalidValue as error:
        allowed = f"{error.allowed}; or @every 30m, @once 2026-01-01T00:00:00Z"
        raise InvalidValue("schedule", text, allowed, error.remedy) from None


def generated_name(handler: str, chance: Chance) -> str:
    """For a job that nobody named: its handler, and enough chance that no two are alike."""
    return f"{handler[:80]}-{chance.randbytes(6).hex()}"


__all__ = ["generated_name", "job_spec", "options_of", "trigger_of", "with_defaults"]
