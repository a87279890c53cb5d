"""Checks of single values that options take, where no function of the model does it already.

Each takes the name of the field and the value, and returns the value to store or raises `InvalidValue`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ...model.calendars.hours import encode_hours, hours_of
from ...model.defaults import API_BACKOFF_LIMIT, PAYLOAD_LIMIT
from ...model.errors import InvalidValue
from ...model.labels import LONGEST_TAG, MOST_TAGS
from ...model.policies import MAX_ATTEMPTS, Retention, Retry
from ...model.triggers import Trigger, cron, every, once
from ...model.values.payload import encode_payload, presentable, safe_text
from ...model.values.reading import duration, instant_or_local, whole, words
from ...model.windows import encode_window_spec, window_spec

NO_WINDOW = "none"


def check_switch(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(field, presentable(value), "True or False")
    return value


def check_description(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidValue(field, presentable(value), "text")
    return safe_text(value, 1_000)


def check_mapping(
    field: str, value: Any, allowed: str = "an object (dict)", limit: int = PAYLOAD_LIMIT
) -> dict[str, Any]:
    """Plain data that JSON can hold, with names as keys."""
    if not isinstance(value, Mapping):
        raise InvalidValue(field, presentable(value), allowed)
    plain = dict(value)
    encode_payload(field, plain, limit)
    return plain


def check_tags(field: str, value: Any) -> tuple[str, ...]:
    """One word, or several of them; a repeated one counts once."""
    if not isinstance(value, Iterable) or isinstance(value, bytes | Mapping):
        raise InvalidValue(field, presentable(value), f"up to {MOST_TAGS} texts")
    given = (value,) if isinstance(value, str) else value
    tags = tuple(dict.fromkeys(words(field, tag, LONGEST_TAG) for tag in given))
    if len(tags) > MOST_TAGS:
        raise InvalidValue(field, presentable(list(tags)), f"at most {MOST_TAGS} of them")
    return tags


def check_window(field: str, value: Any) -> str | dict[str, Any] | None:
    """`"none"` is a job without a window, whatever the settings say about jobs that name none."""
    if value == NO_WINDOW:
        return None
    return encode_window_spec(window_spec(value, field))


def check_hours(field: str, value: Any) -> dict[str, Any]:
    return encode_hours(hours_of(value))


def check_exceptions(field: str, value: Any) -> tuple[str, ...]:
    """Exceptions by name: where the policy is only stored, their classes need not be known."""
    single = isinstance(value, (str, type)) or not isinstance(value, Iterable)
    return tuple(_exception_name(field, item) for item in ((value,) if single else value))


def _exception_name(field: str, item: Any) -> str:
    if isinstance(item, type) and issubclass(item, BaseException):
        return item.__name__ if item.__module__ == "builtins" else f"{item.__module__}.{item.__qualname__}"
    if isinstance(item, str) and all(part.isidentifier() for part in item.split(".")):
        return item
    raise InvalidValue(field, presentable(item), "exception classes, or their names such as 'ValueError'")


def check_retention(field: str, value: Any) -> Retention:
    if isinstance(value, Retention):
        return value
    if not isinstance(value, Mapping):
        raise InvalidValue(field, presentable(value), "a Retention(...)")
    for unknown in value.keys() - set(Retention.__struct_fields__):
        raise InvalidValue(field, presentable(value), f"fields of Retention, which has no {unknown!r}")
    try:
        return msgspec.convert(dict(value), Retention)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidValue):
            raise error.__cause__ from None
        raise InvalidValue(field, presentable(value), f"fields of Retention ({error})") from None


# --- fields of the HTTP interface that say an option in another way -------------------------------------------


def attempts_of_retries(field: str, value: Any) -> int:
    """`max_retries` counts the tries after the first one."""
    return whole(field, value, 0, MAX_ATTEMPTS - 1) + 1


def api_backoff(field: str, value: Any) -> Retry:
    """`retry_backoff_seconds`: the wait before the first retry, which doubles up to an hour."""
    seconds = duration(field, value, allow_zero=True)
    return Retry(initial=seconds, multiplier=2.0, max=max(seconds, API_BACKOFF_LIMIT))


def trigger_of_text(field: str, value: Any) -> Trigger | None:
    """A schedule as text: cron, `@every 30m` or `@once 2026-01-01T00:00:00Z`. None takes the trigger away.

    >>> trigger_of_text("schedule", "@every 90s").describe()
    'every 1 minute 30 seconds'
    >>> trigger_of_text("schedule", "0 25 * * *")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    mainspring.model.errors.InvalidValue: schedule: '0 25 * * *' is not valid; allowed: as hour, instead of '25': 0-2...
    """
    if value is None:
        return None
    word, _, rest = value.strip().partition(" ") if isinstance(value, str) else ("", "", "")
    if word == "@every" and rest:
        return every(seconds=duration(field, rest))
    if word == "@once" and rest:
        return once(instant_or_local(field, rest))
    try:
        return cron(value)
    except InvalidValue as error:
        part = error.field.removeprefix("cron").strip()
        where = f"as {part}, instead of {error.value!r}: " if part else ""
        allowed = f"{where}{error.allowed}; or @every 30m, @once 2026-01-01T00:00:00Z"
        raise InvalidValue(field, value, allowed, error.remedy) from None
