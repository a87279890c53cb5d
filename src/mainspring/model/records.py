"""What a store holds, as whole records: how everything is read out of one store and put into another."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .changes import Audit, LogLine
from .execution import Execution
from .job import Job, JobStats

RecordKind: TypeAlias = Literal["incarnations", "executions", "audits", "jobs"]


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

    execution: Execution
    keep: bool = True
    logs: tuple[tuple[int, LogLine], ...] = ()


Record: TypeAlias = Incarnation | ExecutionRecord | Audit | Job


def key_of(record: Record) -> str:
    """What a record is known by among those of its kind: they are read in the order of their keys."""
    match record:
        case Incarnation():
            return record.job_id
        case ExecutionRecord():
            return record.execution.id
        case Audit():
            return record.id
        case Job():
            return record.name
