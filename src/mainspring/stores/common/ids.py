"""What an execution's id says: when the execution was created, and its trace id.

Ids begin with the time they were made at, so the executions created in a range of time lie in a range of ids. The
exceptions, called strays (a missed tick made up for later has the id of its tick), are marked when they are inserted.
"""

from __future__ import annotations

from functools import lru_cache
from uuid import UUID

from ...model.execution import ExecutionRow
from ...model.time.instants import Micros

SLACK = 2_000
"""Milliseconds by which the time in an id may differ from the creation time of its execution, unless it is a stray."""

_TIME_IN_ID = 13  # characters
_LAST_MILLI = (1 << 48) - 1


def first_id(millis: int) -> str:
    """The smallest id of this millisecond.

    >>> first_id(1_700_000_000_000)
    '018bcfe5-6800-0000-0000-000000000000'
    """
    digits = f"{min(max(millis, 0), _LAST_MILLI):012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"


def id_range(created_from: Micros | None, created_to: Micros | None) -> tuple[str | None, str | None]:
    """The ids, first (included) and last (excluded), of executions created in this range that are not strays."""
    return (
        None if created_from is None else first_id(created_from // 1000 - SLACK),
        None if created_to is None else first_id(created_to // 1000 + SLACK + 1),
    )


def is_stray(execution: ExecutionRow) -> bool:
    """Whether the id has another time than the creation of its execution."""
    return is_stray_id(execution.id[:_TIME_IN_ID], execution.created // 1000)


def is_stray_id(beginning: str, created_millis: int) -> bool:
    """`beginning` are the first 13 characters of an id."""
    first, last = _ids_near(created_millis)
    return not first <= beginning <= last


@lru_cache(maxsize=256)
def _ids_near(millis: int) -> tuple[str, str]:
    return first_id(millis - SLACK)[:_TIME_IN_ID], first_id(millis + SLACK)[:_TIME_IN_ID]


def foreign_trace(execution: ExecutionRow) -> str | None:
    """The trace id if it came from elsewhere; one that is the execution's own id needs no index."""
    own = execution.trace_id == execution.id.replace("-", "")
    return None if own or not execution.trace_id else execution.trace_id


def id_in_trace(trace_id: str) -> str | None:
    """The execution whose own id this trace id may be.

    >>> id_in_trace("018bcfe568007000800000000000abcd"), id_in_trace("foreign")
    ('018bcfe5-6800-7000-8000-00000000abcd', None)
    """
    try:
        return str(UUID(hex=trace_id))
    except ValueError:
        return None
