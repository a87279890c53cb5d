"""Why a job is not running: what is known of it, as ordered reasons, the ones that stand in the way first.

`reasons` is pure: it looks at `Facts` and at nothing else. `facts` gathers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..model.changes import ExecutionQuery, WorkerInfo
from ..model.execution import LIVE, Execution, State
from ..model.instants import Micros, maybe_datetime
from ..model.values import duration_text
from .opening import Closing
from .ports import Store
from .queries import Queries
from .views import JobView

LOOKED_AT = 100
LATE = 5_000_000
"""Microseconds after which a tick that nobody made is worth a word."""


class Reason(msgspec.Struct, frozen=True):
    """`blocking` tells what keeps the job from running from what is merely so: it runs, or its time has not come."""

    code: str
    message: str
    blocking: bool = True
    details: dict[str, Any] = {}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """`alive` are the newest executions of the job that have not ended, `workers` the processes heard of lately."""

    view: JobView
    now: Micros
    workers: Sequence[WorkerInfo]
    alive: Sequence[Execution]


async def facts(store: Store, queries: Queries, name: str) -> Facts:
    view = await queries.job(name)
    alive = await store.find(ExecutionQuery(job_id=view.job.id, states=LIVE, limit=LOOKED_AT))
    return Facts(view=view, now=await store.now(), workers=await queries.workers(), alive=alive)


def reasons(known: Facts) -> list[Reason]:
    """Ordered: what an operator did, what the schedule says, what the job's own rules say, what is missing."""
    return [*_controls(known), *_schedule(known), *_held(known), *_workers(known), *_running(known)]


# ---------------------------------------------------------------- what operators did


def _controls(known: Facts) -> list[Reason]:
    job = known.view.job
    found = []
    if job.cancelled is not None:
        since = _text(job.cancelled)
        found.append(Reason("cancelled", f"cancelled since {since}; reactivate it", details={"cancelled_at": since}))
    if job.paused is not None:
        details = {
            "paused_by": job.paused_by,
            "paused_at": _text(job.paused),
            "note": job.pause_note,
            "resume_at": _text(job.resume),
        }
        until = f" until {_text(job.resume)}" if job.resume is not None else ""
        note = f": {job.pause_note}" if job.pause_note else ""
        found.append(Reason("paused", f"paused by {job.paused_by or 'somebody'}{until}{note}", details=details))
    if not job.spec.enabled:
        found.append(Reason("disabled", "its schedule is disabled: it runs only when it is triggered"))
    return found


# ---------------------------------------------------------------- its schedule


def _schedule(known: Facts) -> list[Reason]:
    job = known.view.job
    if job.trigger is None:
        return [] if known.alive else [Reason("on_demand", "it has no schedule: it runs when it is triggered", False)]
    if not job.ticking:
        return []
    if job.next_run is None:
        return [Reason("no_next_run", f"its schedule ({job.trigger.expression()}) has no further time")]
    if known.view.closing is not None:
        return [_closed(known.view.closing, known.view.hours)]
    details = {"next_run_at": _text(job.next_run)}
    if job.next_run > known.now:
        wait = duration_text(max(1.0, float((job.next_run - known.now) // 1_000_000)))
        return [Reason("not_due", f"its next run is at {_text(job.next_run)}, in {wait}", False, details)]
    late = known.now - job.next_run
    if not _with_role(known.workers, "scheduler"):
        return [Reason("no_scheduler", "it is due, and no running process has the role scheduler", details=details)]
    if late > LATE:
        return [Reason("late", f"it was due at {_text(job.next_run)}, and no scheduler made it yet", details=details)]
    return []


def _closed(closing: Closing, hours: str | None) -> Reason:
    until = None if closing.until is None else closing.until.isoformat().replace("+00:00", "Z")
    details = {"until": until, "by": closing.by, "hours": hours}
    return Reason("hours_closed", f"closed until {until or 'further notice'} by {closing.by}", details=details)


# ---------------------------------------------------------------- its own rules


def _held(known: Facts) -> list[Reason]:
    """What waits though it is there: for its time, for a retry, for the execution that holds the job's key."""
    found = []
    runs = [each for each in known.alive if each.state is State.RUNNING]
    for waiting in (each for each in known.alive if each.state is State.PENDING):
        if waiting.staged and runs:
            holder = runs[-1].id
            message = f"execution {waiting.id} waits for {holder} to end (overlap {waiting.rules.overlap})"
            found.append(Reason("overlap", message, details={"execution_id": waiting.id, "holder": holder}))
        elif waiting.due > known.now:
            code = "retry_wait" if waiting.failures else "start_later"
            what = f"waits for try {waiting.attempt}" if waiting.failures else "is to start"
            message = f"execution {waiting.id} {what} at {_text(waiting.due)}"
            details = {"execution_id": waiting.id, "start_at": _text(waiting.due), "error": waiting.error}
            found.append(Reason(code, message, details=details))
    job = known.view.job
    if job.spec.overlap == "skip" and known.alive and not runs and not found:
        holder = known.alive[-1].id
        message = f"execution {holder} has not ended, so no other one may begin (overlap skip)"
        found.append(Reason("overlap", message, details={"holder": holder}))
    limit = job.spec.overlap_limit
    if limit is not None and len(runs) >= limit:
        message = f"{len(runs)} of at most {limit} executions run"
        found.append(Reason("limit_reached", message, details={"limit": limit, "running": len(runs)}))
    return found


# ---------------------------------------------------------------- who would run it


def _workers(known: Facts) -> list[Reason]:
    spec, workers = known.view.job.spec, _with_role(known.workers, "worker")
    found = []
    if known.view.orphaned:
        found.append(Reason("orphaned", "no running process declares it: its code is gone, or not deployed yet"))
    if not workers:
        return [*found, Reason("no_worker", "no running process has the role worker")]
    able = [worker for worker in workers if spec.handler in worker.handlers]
    if not able:
        message = f"none of {len(workers)} running worker(s) has the handler {spec.handler!r}, or they exclude it"
        return [*found, Reason("no_handler", message, details={"handler": spec.handler})]
    serving = [worker for worker in able if worker.queues is None or spec.queue in worker.queues]
    if not serving:
        message = f"no worker that has the handler takes from the queue {spec.queue!r}"
        return [*found, Reason("queue_not_served", message, details={"queue": spec.queue})]
    if all(worker.running >= worker.concurrency for worker in serving):
        busy = sum(worker.running for worker in serving)
        slots = sum(worker.concurrency for worker in serving)
        message = f"all slots are busy: {busy} of {slots} on {len(serving)} worker(s)"
        found.append(Reason("slots_busy", message, details={"running": busy, "slots": slots}))
    return found


def _running(known: Facts) -> list[Reason]:
    runs = [each for each in known.alive if each.state in (State.RUNNING, State.WAITING)]
    return [
        Reason(
            "running" if each.state is State.RUNNING else "waiting_on_children",
            f"execution {each.id} runs since {_text(each.started)}"
            if each.state is State.RUNNING
            else f"execution {each.id} waits for its children",
            False,
            {"execution_id": each.id, "worker": each.owner, "started_at": _text(each.started)},
        )
        for each in runs
    ]


def _with_role(workers: Sequence[WorkerInfo], role: str) -> list[WorkerInfo]:
    return [worker for worker in workers if role in worker.roles]


def _text(at: Micros | None) -> str | None:
    moment = maybe_datetime(at)
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
