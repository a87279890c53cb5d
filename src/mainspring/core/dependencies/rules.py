"""Dependencies between jobs: pure rules.

The final ending of an execution is handed over to each job that names its job in `after`. That job gets an execution
with the same window, tick, tenant and trace once all its parents have ended. `joins.py` decides which endings of
several parents belong together; `hand_over.py` carries out what is decided here.
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
from ...model.values.ids import NO_CHANCE, follow_up_id
from ...model.values.reading import time_of_day, zone
from ..rules.new_execution import DEPENDENCY, for_chosen, new_execution
from .joins import ParentEnding, flow_of

FAILED_PARENT = "dependency_failed"
HELD_BACK = ("paused", "disabled")
"""Further reasons for recording a dependent execution as skipped."""
_NOT_JUDGED: Mapping[str, bool] = {}


def is_whole(execution: ExecutionRow) -> bool:
    """Whether this is a run of the whole job rather than the child of one tenant."""
    return execution.parent_id is None or (execution.from_backfill and execution.tenant is None)


def is_handed_over(execution: ExecutionRow) -> bool:
    """Whether dependents follow from this ending. An execution that was skipped for its own reasons (an overlap, a
    missed tick) did not take place; one that was skipped because of a parent, or by its own handler, passes the skip
    on."""
    if not execution.rules.feeds or not is_whole(execution):
        return False
    skipped = execution.state is State.SKIPPED and not execution.attempted
    return not skipped or execution.reason in (FAILED_PARENT, *HELD_BACK)


def concerns(job: Job, execution: ExecutionRow) -> bool:
    """Whether the job waits for this ending. A run for tenants that a caller chose is followed by jobs that run per
    tenant, not by a job that concerns all tenants at once."""
    return job.spec.tenants or not execution.for_some


# ---------------------------------------------------------------- what follows


class Proceed(msgspec.Struct, frozen=True):
    """All parents have ended, and the job runs."""


class Skip(msgspec.Struct, frozen=True):
    """All parents have ended, and the job is skipped for this reason: `parent`, if named, did not complete."""

    reason: str
    parent: str | None = None


class AwaitParents(msgspec.Struct, frozen=True):
    """Not all parents have ended."""

    missing: tuple[str, ...]


def after_parents(
    job: Job, parents: Mapping[str, ParentEnding], judged: Mapping[str, bool] = _NOT_JUDGED
) -> Proceed | Skip | AwaitParents:
    """What follows from these endings. For parents whose tenants the job runs for, `judged` says whether any tenant is
    left; the other parents must have completed."""
    spec = job.spec
    missing = tuple(name for name in spec.after if name not in parents)
    if missing:
        return AwaitParents(missing)
    bad = next((name for name in spec.after if not judged.get(name, parents[name].state is State.COMPLETED)), None)
    if bad is not None and spec.on_failed_parent == "skip":
        return Skip(FAILED_PARENT, bad)
    if job.paused is not None:
        return Skip("paused")
    return Proceed() if spec.enabled else Skip("disabled")


def dependent_id(job: Job, parents: Mapping[str, ParentEnding]) -> str:
    """Derived from the job's incarnation and the parents' executions alone, so that a repeated hand-over meets the same
    row."""
    ids = sorted(parent.id for parent in parents.values())
    return follow_up_id(ids[-1], DEPENDENCY, job.id, *ids)


def dependent(
    job: Job,
    last: ExecutionRow,
    parents: Mapping[str, ParentEnding],
    verdict: Proceed | Skip,
    now: Micros,
    tenant: str | None = None,
    some: bool = False,
) -> ExecutionRow:
    """The execution that follows from these parents, with the window, tick and trace of `last`. It runs for
    `tenant`, or else for the tenant of `last`; with `some`, for tenants that a caller chose."""
    window = None if last.window_begin is None or last.window_end is None else (last.window_begin, last.window_end)
    wanted = {name: parents[name] for name in job.spec.after}
    now = max(now, *(parent.finished for parent in wanted.values()))  # a parent may have ended since `now` was read
    words: dict[str, Any] = {"after": {name: parent.id for name, parent in wanted.items()}}
    execution = new_execution(
        job,
        id=dependent_id(job, wanted),
        trigger=DEPENDENCY,
        triggered_by=last.triggered_by,
        now=now,
        due=due_time(job, last.tick, now),
        chance=NO_CHANCE,
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
    verdict: Skip, parents: Mapping[str, ParentEnding], words: dict[str, Any], feeds: bool, now: Micros
) -> dict[str, Any]:
    """Final from the start. It keeps the mark, so that the skip is handed over as well."""
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
    """Now, or the time of day before which the job must not run, on the day of the tick or else today. A time that
    falls into a clock change's gap counts as reached when the gap ends."""
    if job.spec.not_before is None:
        return now
    local = zone("tz", job.spec.tz, warn=False)
    day = to_datetime(now if tick is None else tick).astimezone(local).date()
    earliest = datetime.combine(day, time_of_day("not_before", job.spec.not_before))
    return max(now, to_micros(localise(earliest, local)))
