"""The contents of a store as whole records, in which form they are copied from one store to another."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ..execution import ExecutionRow
from ..job import Job, JobStats
from .entries import Entry
from .messages import Audit, LogLine

RecordKind: TypeAlias = Literal["incarnations", "executions", "audits", "entries", "jobs"]
EntryId: TypeAlias = tuple[str, str, str]
"""Kind, scope and key of an entry."""


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers and statistics of a job's executions, which outlive both the executions and the job.

    `last_number` is the last number given to an execution; `stats` covers all that ever ended.
    """

    job_id: str
    job: str
    last_number: int
    stats: JobStats | None = None


class ExecutionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An execution, live or finished, with its log lines. `keep` is false for one that is deleted when its follow-ups
    are done."""

    execution: ExecutionRow
    keep: bool = True
    logs: tuple[tuple[int, LogLine], ...] = ()


Record: TypeAlias = Incarnation | ExecutionRecord | Audit | Entry | Job


def key_of(record: Record) -> str:
    """The key of a record among those of its kind; records are read in the order of their keys."""
    match record:
        case Incarnation():
            return record.job_id
        case ExecutionRecord():
            return record.execution.id
        case Audit():
            return record.id
        case Entry():
            return entry_key(record.kind, record.scope, record.key)
        case Job():
            return record.name


def entry_key(kind: str, scope: str, key: str) -> str:
    """One text that sorts like (kind, scope, key). The separator is smaller than any character of a scope, because the
    two smallest characters are escaped there."""
    escaped = scope.replace("\1", "\1\2").replace("\0", "\1\1")
    return f"{kind}\0{escaped}\0{key}"


def place_of(key: str) -> EntryId:
    """Kind, scope and key of the entry with this record key; an empty key gives a place before all others.

    >>> place_of(key_of(Entry(kind="window", scope="nightly", key="007")))
    ('window', 'nightly', '007')
    >>> place_of("")
    ('', '', '')
    """
    kind, scope, key = (*key.split("\0", 2), "", "")[:3]
    return kind, scope.replace("\1\1", "\0").replace("\1\2", "\1"), key
