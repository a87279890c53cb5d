"""Simple ticks as arrays: the plan of a job moves on, and one execution is made that has its job's overlap key at most.

The server reads the arrays of many ticks in a third of the time it takes for the same as JSON, and writes them in one
statement. All other writes of jobs travel as JSON, through `write_jobs`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import astuple

from ....model.execution import ExecutionRow
from ....model.store.messages import Added, JobWrite, JobWritten
from ...common.ids import foreign_trace, is_stray
from ..database import Database
from ..executions.literals import numbers, texts
from ..executions.rows import body, lane_of
from ..statements import sql

_FIELDS = ExecutionRow.__struct_fields__
_FATE = slice(_FIELDS.index("overlap_slots"), _FIELDS.index("todo"))  # changed by what happens to an execution
_UNTOUCHED = astuple(ExecutionRow(id="", job="", job_id="", handler=""))[_FATE]


def is_simple(write: JobWrite) -> bool:
    if not write.only_plan or write.audit is not None or len(write.executions) != 1:
        return False
    [tick] = write.executions
    keys = (tick.unique_key, tick.running_unique_key)
    own = tick.tenant is None and tick.parent_id is None and foreign_trace(tick) is None
    return own and keys == (None, None) and astuple(tick)[_FATE] == _UNTOUCHED and not is_stray(tick)


async def write_ticks(db: Database, writes: Sequence[JobWrite]) -> list[JobWritten]:
    """In the order of names. The tick of a write that lost may still be due: the process that held its job may fail."""
    [(won, others)] = await db.query(sql("write_ticks", db.schema), _literals(writes), patient=False)
    written = [JobWritten(won=False)] * len(writes)
    for place in msgspec.json.decode(won or "[]"):
        written[place - 1] = JobWritten(won=True, added=(Added(writes[place - 1].executions[0].id, "added"),))
    for place, *outcome in msgspec.json.decode(others or "[]"):
        written[place - 1] = JobWritten(won=True, added=(Added(writes[place - 1].executions[0].id, *outcome),))
    return written


def _literals(writes: Sequence[JobWrite]) -> tuple[str | None, ...]:
    """The fields of the schema's type `ticks`."""
    jobs = [write.job for write in writes]
    ticks = [write.executions[0] for write in writes]
    return (
        texts([job.name for job in jobs]),
        texts([job.id for job in jobs]),
        numbers([write.seen_version for write in writes]),
        _optional([job.next_run for job in jobs]),
        _optional([job.last_tick for job in jobs]),
        _optional([job.due for job in jobs]),
        numbers([tick.id for tick in ticks]),
        texts([lane_of(tick) for tick in ticks]),
        numbers([tick.priority for tick in ticks]),
        numbers([tick.created for tick in ticks]),
        numbers([tick.due for tick in ticks]),
        texts([body(tick) for tick in ticks]),
        texts([tick.overlap_key for tick in ticks]),
        texts([tick.running_overlap_key for tick in ticks]),
        numbers([tick.staged for tick in ticks]) if any(tick.staged for tick in ticks) else None,
    )


def _optional(values: Sequence[int | None]) -> str:
    return numbers("NULL" if value is None else value for value in values)
