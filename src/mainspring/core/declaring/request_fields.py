"""Fields of a job as the HTTP interface and the command line name them, read as options.

`schedule` sets `trigger`, `timezone` sets `tz`, and `max_retries` counts one try less than `max_attempts`. The table of
options says which field sets which option.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...model.errors import InvalidValue
from .options import HTTP_FIELDS, OPTIONS


def options_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The options that these fields set. Names of options that HTTP does not know are options already.

    Where an interval and a schedule are both given, the interval wins.
    """
    if {"retry", "retry_backoff_seconds"} <= fields.keys():
        raise InvalidValue("retry", fields["retry"], "no waits beside retry_backoff_seconds", "Give one of them")
    weaker = "interval_minutes" if fields.get("interval_minutes") is None else "schedule"
    unsaid = {weaker} if {"schedule", "interval_minutes"} <= fields.keys() else set()
    options = {}
    for name, value in fields.items():
        if name in unsaid:
            continue
        if (field := HTTP_FIELDS.get(name)) is None:
            options[name] = value
        else:
            options[field.option] = field.read(name, value)
    return options


def taken_away(names: Iterable[str]) -> dict[str, None]:
    """The options to set to None so that these fields are taken away."""
    return {_stored_option(name): None for name in names}


def name_in_requests(option: str) -> str:
    """How requests name this option, for errors; names that are no options stay as they are."""
    if option in HTTP_FIELDS or option not in OPTIONS:
        return option
    fields = OPTIONS[OPTIONS[option].field or option].http_fields
    return fields[0].name if fields and fields[0].same_value else option


def _stored_option(name: str) -> str:
    option = HTTP_FIELDS[name].option if name in HTTP_FIELDS else name
    return OPTIONS[option].field if option in OPTIONS else option
