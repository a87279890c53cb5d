"""What a store holds, as whole records: how everything is read out of one store and put into another."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ..execution import ExecutionRow
from ..job import Job, JobStats
from .entries import Entry
from .messages import Audit, LogLine

RecordKind: TypeAlias = Literal["incarnations", "executions", "audits", "entries", "jobs"]
Place: TypeAlias = tuple[str, str, str]
"""Kind, scope and key of an entry."""


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job's executions beyond the executions themselves; it outlives the job.

    `last_number` is the last number given to one of them, `stats` what became of all that ever ended.
    """

    job_id: str
    job: str
    last_number: int
    stats: JobStats | None = None


class ExecutionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An execution, live or finished, with its log lines. `keep` is false for one that goes when its follow-ups are
    done."""

    execution: ExecutionRow
    keep: bool = True
    logs: tuple[tuple[int, LogLine], ...] = ()


Record: TypeAlias = Incarnation | ExecutionRecord | Audit | Entry | Job


def key_of(record: Record) -> str:
    """What a record is known by among those of its kind: they are read in the order of their keys."""
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
    """One text that sorts as kind, scope and key do one after the other: what parts them is less than any character of
    a scope, because those as small are written as two greater ones."""
    escaped = scope.replace("\1", "\1\2").replace("\0", "\1\1")
    return f"{kind}\0{escaped}\0{key}"


def place_of(key: str) -> Place:
    """The place of the entry that has this key among all; one before all others for an empty key.

    >>> place_of(key_of(Entry(kind="window", scope="nightly", key="007")))
    ('window', 'nightly', '007')
    >>> place_of("")
    ('', '', '')
    """
    kind, scope, key = (*key.split("\0", 2), "", "")[:3]
    return kind, scope.replace("\1\1", "\0").replace("\1\2", "\1"), key
