"""Jobs that come after other jobs: pure rules.

An execution that ends for good is handed over to each job that names its job in `after`: that job gets an execution
with the same window, tick, tenant and trace once all its parents have ended. Which endings of several parents belong
together says `core.dependencies.joins`; `core.dependencies.hand_over` does what is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.time.instants import Micros, to_datetime, to_micros
from ...model.time.timeline import localise
from ...model.values.ids import follow_up_id
from ...model.values.reading import time_of_day, zone
from ..rules.new_execution import DEPENDENCY, for_chosen, new_execution
from .joins import Ended, flow_of

FAILED_PARENT = "dependency_failed"
HELD_BACK = ("paused", "disabled")
"""Other reasons for which an execution that a dependency asked for is recorded as skipped."""
_NOBODY: Mapping[str, bool] = {}


def is_whole(execution: ExecutionRow) -> bool:
    """Whether it is a run of its job, and not the part of one tenant in it."""
    return execution.parent_id is None or (execution.from_backfill and execution.tenant is None)


def is_handed_over(execution: ExecutionRow) -> bool:
    """Whether others follow from this ending. What was skipped for reasons of its own (an overlap, a missed tick) has
    not taken place; what was skipped because of a parent passes that on."""
    if not execution.rules.feeds or not is_whole(execution):
        return False
    return execution.state is not State.SKIPPED or execution.reason in (FAILED_PARENT, *HELD_BACK)


def concerns(job: Job, execution: ExecutionRow) -> bool:
    """Whether this ending is one that the job waits for. A run for tenants that somebody chose is followed by what runs
    for these tenants, and not by a job that is about all of them at once."""
    return job.spec.tenants or not execution.for_some


# ---------------------------------------------------------------- what follows


class Run(msgspec.Struct, frozen=True):
    """All parents have ended, and the job runs."""


class Skip(msgspec.Struct, frozen=True):
    """All parents have ended, and it is recorded why the job does not run: `parent` did not complete, if one is
    named."""

    reason: str
    parent: str | None = None


class Wait(msgspec.Struct, frozen=True):
    """Not all parents have ended."""

    missing: tuple[str, ...]


def after_parents(job: Job, parents: Mapping[str, Ended], judged: Mapping[str, bool] = _NOBODY) -> Run | Skip | Wait:
    """What follows from these endings. `judged` says of parents whose tenants the job runs for whether one of those is
    left; of the others it counts whether they completed."""
    spec = job.spec
    missing = tuple(name for name in spec.after if name not in parents)
    if missing:
        return Wait(missing)
    bad = next((name for name in spec.after if not judged.get(name, parents[name].state is State.COMPLETED)), None)
    if bad is not None and spec.on_failed_parent == "skip":
        return Skip(FAILED_PARENT, bad)
    if job.paused is not None:
        return Skip("paused")
    return Run() if spec.enabled else Skip("disabled")


def dependent_id(job: Job, parents: Mapping[str, Ended]) -> str:
    """It follows from the job's incarnation and the parents' executions alone: whoever hands over again, hands over
    into the same row."""
    ids = sorted(parent.id for parent in parents.values())
    return follow_up_id(ids[-1], DEPENDENCY, job.id, *ids)


def dependent(
    job: Job,
    last: ExecutionRow,
    parents: Mapping[str, Ended],
    verdict: Run | Skip,
    now: Micros,
    tenant: str | None = None,
    some: bool = False,
) -> ExecutionRow:
    """The execution that follows from these parents; `last` is the one that it takes window, tick and trace from. It is
    for `tenant`, if one is given, else for that of `last`; with `some`, for tenants that somebody chose."""
    window = None if last.window_begin is None or last.window_end is None else (last.window_begin, last.window_end)
    wanted = {name: parents[name] for name in job.spec.after}
    now = max(now, *(parent.finished for parent in wanted.values()))  # one may have ended since `now` was asked for
    words: dict[str, Any] = {"after": {name: parent.id for name, parent in wanted.items()}}
    execution = new_execution(
        job,
        id=dependent_id(job, wanted),
        trigger=DEPENDENCY,
        triggered_by=last.triggered_by,
        now=now,
        due=due_time(job, last.tick, now),
        chance=_NOTHING,
        window=window,
        tick=last.tick,
        tenant=tenant or last.tenant,
        flow=flow_of(last),
    )
    fields: dict[str, Any] = {"trace_id": last.trace_id, "traceparent": last.traceparent}
    if some and execution.fans_out:
        fields["policy"] = for_chosen(execution.policy)
    if isinstance(verdict, Skip):
        fields |= _skipped(verdict, wanted, words, job.spec.feeds, now)
    fields["metadata_json"] = msgspec.json.encode(words).decode()
    return msgspec.structs.replace(execution, **fields)


def _skipped(
    verdict: Skip, parents: Mapping[str, Ended], words: dict[str, Any], feeds: bool, now: Micros
) -> dict[str, Any]:
    """Final from the start; the mark stays, so that the skip is handed over in its turn."""
    error = None
    if verdict.parent is not None:
        parent = parents[verdict.parent]
        words["failed_parent"] = verdict.parent
        error = f"job {verdict.parent!r} did not complete: execution {parent.id} is {parent.state}"
    keys = {"overlap_key": None, "running_overlap_key": None, "staged": False}
    return keys | {
        "state": State.SKIPPED,
        "reason": verdict.reason,
        "error": error,
        "finished": now,
        "due": now,
        "todo": feeds,
    }


def due_time(job: Job, tick: Micros | None, now: Micros) -> Micros:
    """Now, or at the time of day before which the job must not run, on the day of the tick or else today. A time that
    a clock change leaves out is over when the change is."""
    if job.spec.not_before is None:
        return now
    local = zone("tz", job.spec.tz, warn=False)
    day = to_datetime(now if tick is None else tick).astimezone(local).date()
    earliest = datetime.combine(day, time_of_day("not_before", job.spec.not_before))
    return max(now, to_micros(localise(earliest, local)))


class _Nothing:
    """What follows has an id of its own: nothing about it is left to chance."""

    def randbytes(self, n: int, /) -> bytes:
        raise AssertionError("a dependent has an id of its own")

    def random(self) -> float:
        raise AssertionError("a dependent has an id of its own")


_NOTHING = _Nothing()
