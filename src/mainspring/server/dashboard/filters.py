"""The filters of lists and bulk actions: in the address of a page, in words, and as chips that remove one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.datastructures import QueryParams

from ...core.filters import errors, executions, jobs
from ...core.filters.fields import Field, Table
from ...model.errors import InvalidValue
from . import format
from .visit import Visit

TABLES: Mapping[str, Table] = {"executions": executions.FIELDS, "jobs": jobs.FIELDS, "errors": errors.FIELDS}
NOUNS = {"executions": ("execution", "executions"), "jobs": ("job", "jobs"), "errors": ("error group", "error groups")}

_SWITCHES = {"true": True, "false": False}
_WORDS = {
    "job": "of job {}",
    "handler": "with handler {}",
    "queue": "in queue {}",
    "status": "with status {}",
    "reason": "for the reason {}",
    "error_group": "of error group {}",
    "error": "whose error contains {}",
    "tenant": "of tenant {}",
    "worker": "on worker {}",
    "release": "of release {}",
    "trigger": "started by {}",
    "search": "with {}",
    "longer_than": "that took longer than {}",
    "since": "created since {}",
    "until": "created before {}",
    "trace_id": "of trace {}",
    "parent_id": "that belong to {}",
    "name": "whose name contains {}",
    "metadata": "with metadata {}",
    "tag": "tagged {}",
    "owner": "owned by {}",
    "origin": "created by {}",
    "last_status": "whose last run ended {}",
}
_OTHER_WORDS = {
    ("errors", "since"): "seen since {}",
    ("errors", "job"): "in job {}",
    ("errors", "tenant"): "for tenant {}",
    ("jobs", "search"): "that match {}",
}
_SWITCH_WORDS = {
    "running": ("that run now", "that do not run now"),
    "paused": ("that are paused", "that are not paused"),
    "orphaned": ("that no running process declares", "that a running process declares"),
    "overdue": ("whose next run is overdue", "whose next run is overdue"),
    "muted": ("that are muted", "that are not muted"),
}


def read_filter(table: Table, query: QueryParams) -> dict[str, Any]:
    """The filter in an address, as core takes it. Parameters that are no field of this table are left to the page; an
    empty one counts as not given."""
    given = {name: [value for value in query.getlist(name) if value] for name in table}
    return {name: _value(table[name], values) for name, values in given.items() if values}


def _value(field: Field, values: list[str]) -> Any:
    if field.several:
        return values
    if field.kind == "switch" and values[-1] not in _SWITCHES:
        raise InvalidValue(field.name, values[-1], "true or false")
    return _SWITCHES[values[-1]] if field.kind == "switch" else values[-1]


def filter_query(filter: Mapping[str, Any]) -> dict[str, Any]:
    """The other way round: parameters for `visit.url`."""
    return {name: _parameter(name, value) for name, value in filter.items()}


def _parameter(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}s" if name == "longer_than" and isinstance(value, int | float) else value


def filter_words(target: str, filter: Mapping[str, Any]) -> str:
    """
    >>> filter_words("executions", {"status": ["failed", "partial"], "queue": "mail"})
    'executions with status failed or partial, in queue mail'
    """
    return f"{NOUNS[target][1]} " + ", ".join(_field_words(target, name, value) for name, value in filter.items())


def _field_words(target: str, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return _SWITCH_WORDS[name][0 if value else 1]
    if isinstance(value, list | tuple):
        shown = (" or " if name == "status" else " and ").join(map(str, value))
    else:
        shown = format.span(value) if name == "longer_than" and isinstance(value, int | float) else str(value)
    return _OTHER_WORDS.get((target, name), _WORDS[name]).format(shown)


# --- chips ------------------------------------------------------------------------------------------------------

PLACES = ("cursor", "offset")
"""Where a list goes on: another filter begins at its first page."""


class Chip(msgspec.Struct, frozen=True):
    """A filter in force, with the address of the page without it."""

    name: str
    value: str
    without: str


def chips_of(visit: Visit, given: Mapping[str, Any]) -> list[Chip]:
    """One for each value of the filter."""
    found: list[Chip] = []
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        for each in values:
            others = [other for other in values if other != each] or None
            words = ("yes" if each else "no") if isinstance(each, bool) else str(each)
            without = visit.with_query(**{name: others, **dict.fromkeys(PLACES)})
            found.append(Chip(name.replace("_", " "), words, without))
    return found
