"""Filters of bulk commands, by name and checked: the same ones for code, command line and HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..model.changes import ExecutionQuery
from ..model.errors import InvalidValue, nearest
from ..model.execution import Execution, State
from ..model.job import JobState
from ..model.payload import presentable
from ..model.values import choice, words
from .job_lists import JobFilter
from .queries import execution_query

EXECUTION_FILTERS = ("job", "status", "tenant", "trace_id", "parent_id", "trigger", "since", "until")
_STATES = tuple(state.value for state in State)
_JOB_STATES = tuple(state.value for state in JobState)


def job_filter(given: Mapping[str, Any]) -> JobFilter:
    """One filter at least: to steer everything there is must be said in so many words."""
    fields = _said(given, JobFilter.__struct_fields__)
    for name, value in fields.items():
        match name:
            case "status":
                fields[name] = _statuses(value, _JOB_STATES)
            case "last_status":
                choice(name, value, _STATES)
            case "origin":
                choice(name, value, ("code", "api"))
            case "paused" | "orphaned":
                if not isinstance(value, bool):
                    raise InvalidValue(name, presentable(value), "True or False")
            case _:
                words(name, value)
    return JobFilter(**fields)


def execution_filters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    fields = _said(given, EXECUTION_FILTERS)
    if "status" in fields:
        fields["status"] = _statuses(fields["status"], _STATES)
    execution_query(**fields)
    return fields


def is_wanted(execution: Execution, query: ExecutionQuery) -> bool:
    """Whether these filters find it."""
    same = all(
        getattr(query, name) in (None, getattr(execution, name))
        for name in ("job", "tenant", "trace_id", "parent_id", "trigger")
    )
    return (
        same
        and (query.states is None or execution.state in query.states)
        and (query.created_from is None or execution.created >= query.created_from)
        and (query.created_to is None or execution.created < query.created_to)
    )


def _said(given: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    for name in given:
        if name not in known:
            guess = nearest(name, known)
            raise InvalidValue("filter", name, ", ".join(known), f"Did you mean {guess!r}?" if guess else "")
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        allowed = f"names or ids, or one at least of {', '.join(known)}"
        raise InvalidValue("filter", dict(given), allowed, "Say which are meant")
    return fields


def _statuses(value: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    """One status or several; none at all would find nothing."""
    several = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    names = tuple(value) if several else (value,)
    if not names:
        raise InvalidValue("status", list(names), f"one or several of {', '.join(known)}")
    return tuple(choice("status", presentable(name), known) for name in names)
