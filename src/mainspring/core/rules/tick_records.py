"""What a tick leaves in the store: its execution, or the record of why there is none."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.occurrences import Occurrence
from ...model.time.instants import Micros, to_datetime, to_micros
from ...model.values.ids import Chance, tick_id
from ...model.windows import resolve
from .new_execution import new_execution

_INSTANT = timedelta(microseconds=1)


def tick_execution(job: Job, tick: Micros, trigger: str, now: Micros, chance: Chance, due: Micros) -> ExecutionRow:
    """A tick of a fixed delay is marked from the start: if it is skipped, the next one still has to be planned."""
    return new_execution(
        job,
        id=tick_id(job.id, tick),
        trigger=trigger,
        now=now,
        chance=chance,
        tick=tick,
        due=due,
        window=window_at(job, tick),
        todo=job.trigger is not None and job.trigger.fixed_delay,
    )


def window_at(job: Job, at: Micros) -> tuple[Micros, Micros] | None:
    """The data window that a run of this job at that instant covers, in the job's own zone."""
    if job.spec.window is None:
        return None
    instant = to_datetime(at)
    previous = job.trigger.previous(instant - _INSTANT) if job.trigger is not None else None
    window = resolve(job.spec.window, instant, job.spec.tz, previous)
    return to_micros(window.begin), to_micros(window.end)


def gap_record(job: Job, gap: tuple[Micros, Micros, int, bool], now: Micros, chance: Chance, why: str) -> ExecutionRow:
    first, last, count, exact = gap
    words = {
        "from": to_datetime(first).isoformat(),
        "to": to_datetime(last).isoformat(),
        "count": count,
        "exact": exact,
        "because": "the job was paused" if why == "paused" else "no scheduler was running",
    }
    record = new_execution(
        job, id=tick_id(job.id, first, "missed"), trigger="schedule", now=now, chance=chance, tick=first, due=first
    )
    return _skipped(record, now, "missed", words)


def skip_record(job: Job, skipped: Occurrence, now: Micros, chance: Chance) -> ExecutionRow:
    """An occurrence that somebody skipped, under the id that its run would have had."""
    record = tick_execution(job, skipped.tick, "schedule", now, chance, due=skipped.tick)
    by = msgspec.structs.replace(record, triggered_by=skipped.by, todo=False)
    return _skipped(by, now, "occurrence", {"by": skipped.by})


def _skipped(execution: ExecutionRow, now: Micros, reason: str, words: dict[str, Any]) -> ExecutionRow:
    return msgspec.structs.replace(
        execution,
        state=State.SKIPPED,
        reason=reason,
        finished=now,
        overlap_key=None,
        running_overlap_key=None,
        staged=False,
        metadata_json=msgspec.json.encode(words).decode(),
    )
