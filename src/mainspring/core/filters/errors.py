"""The filters of error groups, for bulk actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model.time.instants import Micros
from .fields import Field, read_fields, refuse_nothing, table_of

FIELDS = table_of(
    Field(name="job", kind="name", meaning="a job in which it occurred"),
    Field(name="tenant", meaning="a tenant for which it occurred"),
    Field(name="since", kind="instant", meaning="last seen at this time or later; `2h` is two hours ago"),
    Field(name="muted", kind="switch", meaning="whether it is muted"),
)
"""Every filter of error groups by its name."""


def bulk_error_filter(given: Mapping[str, Any], now: Micros) -> dict[str, Any]:
    """The checked filter of a bulk action. It needs at least one field."""
    found = read_fields(FIELDS, given, now)
    refuse_nothing(FIELDS, found)
    return found
