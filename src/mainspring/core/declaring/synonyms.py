"""Names under which users look for a job option, often those of other schedulers, each with the option that they mean.

An unknown option is looked up here before its spelling is compared: `retries` is spelt like `retry`, but means
`max_attempts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...model.errors import InvalidValue, nearest
from ...model.triggers import Trigger, cron
from ...model.triggers.interval import period_as_call

_UNITS = ("weeks", "days", "minutes", "seconds")
SYNONYMS = {
    **dict.fromkeys(("every", "interval", "period", *_UNITS), "trigger"),
    **dict.fromkeys(("schedule", "crontab", "expression"), "cron"),
    **dict.fromkeys(("retries", "max_retries", "attempts", "tries"), "max_attempts"),
    **dict.fromkeys(("retry_delay", "default_retry_delay", "retry_backoff", "backoff"), "retry"),
    **dict.fromkeys(("timezone", "time_zone", "zone"), "tz"),
    **dict.fromkeys(("args", "kwargs", "arguments"), "params"),
    **dict.fromkeys(("time_limit", "soft_time_limit", "job_timeout"), "timeout"),
    **dict.fromkeys(("max_instances", "concurrency"), "overlap_limit"),
    **dict.fromkeys(("misfire_grace_time", "coalesce"), "missed"),
    **dict.fromkeys(("rate", "rate_limit"), "limits"),
    "depends_on": "after",
}
"""No option of ours is among them: `hours`, for one, are the opening hours of a job."""


def suggestion(name: Any, value: Any, known: Iterable[str]) -> str:
    """What to write instead of an unknown option, as a sentence; empty if no option comes near.

    >>> suggestion("retries", 3, ["retry", "max_attempts"])
    'Write max_attempts=4: the first attempt counts too'
    """
    allowed = tuple(known)
    meant = SYNONYMS.get(name) if isinstance(name, str) else None
    if meant in allowed:
        return f"Write {_argument(meant, name, value)}"
    guess = nearest(name, allowed) if isinstance(name, str) else None
    return f"Did you mean {guess!r}?" if guess else ""


def _argument(option: str, name: str, value: Any) -> str:
    """The option as one writes it, with the given value where that has an equivalent."""
    match option:
        case "trigger":
            return f"trigger={period_as_call(value, name if name in _UNITS else 'seconds')}"
        case "cron":
            return _schedule(value)
        case "max_attempts" if "retries" in name and type(value) is int:
            return f"max_attempts={value + 1}: the first attempt counts too"
        case "max_attempts" | "tz" if isinstance(value, str | int):
            return f"{option}={value!r}"
        case "overlap_limit":
            return "overlap_limit=... together with overlap='allow'"
        case _:
            return f"{option}=..."


def _schedule(value: Any) -> str:
    if isinstance(value, Trigger):
        return "trigger=..."
    try:
        cron(value)
    except InvalidValue:
        return "cron='0 2 * * *' or trigger=every(minutes=5)"
    return f"cron={value!r}"
