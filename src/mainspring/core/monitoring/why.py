"""Why a job is not running: what is known of it, as ordered reasons, the ones that stand in the way first.

`reasons` is pure: it looks at `Facts` and at nothing else. `facts` gathers them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...model.execution import LIVE, ExecutionRow, State
from ...model.limits import decode_limits
from ...model.store.messages import ExecutionQuery, WorkerInfo
from ...model.time.instants import Micros, maybe_datetime
from ...model.values.reading import duration_text
from ..dependencies.compatibility import describe_conflict
from ..dependencies.joins import group_words
from ..ports import Store
from ..queries.job_view import JobView
from ..queries.queries import Queries
from ..rules.limits import limit_of, limit_words
from ..rules.opening_hours import Closing
from ..views.records import WorkerView
from .why_parents import WaitingFor, waiting_for

LOOKED_AT = 100
LOOKED_AT_RUNNING = LOOKED_AT_WAITING = 1_000
PLACES = 5
NAMED = 5
LATE = 5_000_000
"""Microseconds after which a tick that nobody made is worth a word."""


class Place(msgspec.Struct, frozen=True):
    """Which of its own share's waiting executions this one is, and how many other shares wait beside it: of the same
    queue, handler and priority, whatever job they belong to. Not `exact` where so many wait that only some were seen.
    """

    number: int
    others: int
    exact: bool = True


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """`alive` are the newest executions of the job that have not ended, `workers` the processes heard of lately."""

    view: JobView
    now: Micros
    workers: Sequence[WorkerInfo]
    alive: Sequence[ExecutionRow]
    holders: Mapping[str, Sequence[ExecutionRow]] = {}
    """What runs under the keys that executions of the job wait for, on all jobs."""
    places: Mapping[str, Place] = {}
    """Where those of its executions stand that are ready and take turns with other shares, by id."""
    newest: ExecutionRow | None = None
    """The execution that was made last, whatever became of it."""
    waiting_for: WaitingFor = WaitingFor()
    """Of a job that comes after others."""


async def facts(store: Store, queries: Queries, name: str, only: ExecutionRow | None = None) -> Facts:
    """With `only`, of its executions that wait this one alone is looked at."""
    view = await queries.job(name)
    wanted = ExecutionQuery(job_id=view.job.id, states=LIVE, limit=LOOKED_AT)
    if only is None:
        alive = await store.find(wanted)
    else:
        alive = [only, *await store.find(msgspec.structs.replace(wanted, states=frozenset({State.RUNNING})))]
    now, workers, holders = await store.now(), await queries.workers(), dict[str, list[ExecutionRow]]()
    if any(each.state is State.PENDING for each in alive):
        running = await store.find(ExecutionQuery(states=frozenset({State.RUNNING}), limit=LOOKED_AT_RUNNING))
        holders = _holders(running, alive)
        workers = counted(workers, running) if len(running) < LOOKED_AT_RUNNING else workers
    return Facts(
        view=view,
        now=now,
        workers=workers,
        alive=alive,
        holders=holders,
        places=await _places(store, alive, now),
        newest=next(iter(await store.find(ExecutionQuery(job_id=view.job.id, limit=1))), None),
        waiting_for=await waiting_for(store, view.job) if view.after and only is None else WaitingFor(),
    )


def _holders(running: Sequence[ExecutionRow], alive: Sequence[ExecutionRow]) -> dict[str, list[ExecutionRow]]:
    """Whatever job it belongs to: a limit is shared by all who name its key."""
    held: dict[str, list[ExecutionRow]] = {each.parked: [] for each in alive if each.parked is not None}
    for each in running if held else ():
        for limit in decode_limits(each.limits) if each.limits is not None else ():
            if limit.key in held:
                held[limit.key].append(each)
    return held


async def _places(store: Store, alive: Sequence[ExecutionRow], now: Micros) -> dict[str, Place]:
    """Only the oldest few are looked up: who asks wants to know of what should have begun by now."""
    asked = [each for each in alive if is_ready(each, now) and each.share is not None][-PLACES:]
    if not asked:
        return {}
    pending = frozenset({State.PENDING})
    waiting = await store.find(ExecutionQuery(states=pending, limit=LOOKED_AT_WAITING))
    exact = len(waiting) < LOOKED_AT_WAITING
    places = {}
    for each in asked:
        place = place_of(each, waiting, now)
        if not exact:  # the newest were seen: of its own job and tenant, the older ones can be counted
            before = ExecutionQuery(job_id=each.job_id, tenant=each.tenant, states=pending, before=each.id)
            same = await store.count(before, LOOKED_AT_WAITING) if each.share == each.tenant else 0
            place = Place(max(place.number, same + 1), place.others, exact=False)
        places[each.id] = place
    return places


def place_of(execution: ExecutionRow, waiting: Sequence[ExecutionRow], now: Micros) -> Place:
    """Turns are taken by those of one queue, handler and priority."""
    lane = (execution.queue, execution.handler, execution.priority)
    beside = [each for each in waiting if is_ready(each, now) and (each.queue, each.handler, each.priority) == lane]
    ahead = sum(each.share == execution.share and each.id < execution.id for each in beside)
    return Place(ahead + 1, len({each.share for each in beside} - {execution.share}))


def is_ready(execution: ExecutionRow, now: Micros) -> bool:
    return execution.state is State.PENDING and execution.parked is None and execution.due <= now


def reasons(known: Facts) -> list[Reason]:
    """Ordered: what an operator did, what the schedule says, what the job's own rules say, what is missing."""
    return [
        *_controls(known),
        *_schedule(known),
        *_parents(known),
        *_held(known),
        *_workers(known),
        *_running(known),
        *_passed_over(known),
    ]


def why_it_waits(known: Facts, waiting: ExecutionRow) -> list[Reason]:
    """Why one execution that is pending has not begun; nothing when somebody is about to take it."""
    if known.view.job.cancelled is not None:
        return [Reason("cancelled", "its job is cancelled, and so will it be")]
    held, ready = _waits(known, waiting), is_ready(waiting, known.now)
    found = [held] if held is not None and held.blocking else []
    nobody = nobody_for(waiting.handler, waiting.queue, known.workers)
    full = all_busy(waiting.handler, waiting.queue, known.workers) if ready else None
    return [*found, *(each for each in (nobody, full) if each is not None)]


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
        on_demand = Reason("on_demand", "it has no schedule: it runs when it is triggered", False)
        return [] if known.alive or job.spec.after else [on_demand]
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


def _parents(known: Facts) -> list[Reason]:
    """Of a job that comes after others: which of them it waits for in vain, and for which executions."""
    after, waits = known.view.after, known.waiting_for
    if not after:
        return []
    found = _in_vain(waits)
    found += [
        Reason(
            "waits_for_parent",
            f"it follows execution {each.id} of job {each.job!r}, which is {each.state}",
            details={"job": each.job, "execution_id": each.id, "state": each.state.value},
        )
        for each in waits.alive
    ]
    found += [
        Reason(
            "waits_for_parent",
            f"{', '.join(half.ended)} ended for {group_words(half.group)}; it waits for {', '.join(half.missing)}",
            details={"group": half.group, "ended": half.ended, "missing": list(half.missing)},
        )
        for half in waits.half
    ]
    if not found and not known.alive:
        found = [Reason("after", f"it runs when {' and '.join(after)} ended", False, {"after": list(after)})]
    return found


def _in_vain(waits: WaitingFor) -> list[Reason]:
    remedy = "take it out of `after`"
    found = [
        Reason(
            "parent_gone",
            f"it comes after job {name!r}, which does not exist: it was removed, or nobody has declared it yet; "
            f"create it, or {remedy}",
            details={"job": name},
        )
        for name in waits.gone
    ]
    for name, at in waits.cancelled.items():
        message = f"it comes after job {name!r}, which is cancelled since {_text(at)}; reactivate that, or {remedy}"
        found.append(Reason("parent_cancelled", message, details={"job": name, "cancelled_at": _text(at)}))
    for name, by in waits.paused.items():
        message = f"it comes after job {name!r}, which is paused by {by or 'somebody'}; resume or trigger that"
        found.append(Reason("parent_paused", message, details={"job": name, "paused_by": by}))
    if waits.never_meet is not None:
        found.append(
            Reason("parents_never_meet", describe_conflict(waits.never_meet), details={"jobs": list(waits.never_meet)})
        )
    return found


# ---------------------------------------------------------------- its own rules


def _held(known: Facts) -> list[Reason]:
    """What waits though it is there: for its time, for a retry, for the execution that holds the job's key."""
    waiting = [each for each in known.alive if each.state is State.PENDING]
    found = [told for each in waiting if (told := _waits(known, each)) is not None]
    runs = _runs(known)
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


def _runs(known: Facts) -> list[ExecutionRow]:
    return [each for each in known.alive if each.state is State.RUNNING]


def _waits(known: Facts, waiting: ExecutionRow) -> Reason | None:
    if waiting.parked is not None:
        return _limited(waiting, waiting.parked, known.holders.get(waiting.parked, ()))
    if waiting.id in known.places:
        return _in_turn(waiting, known.places[waiting.id])
    if waiting.staged and (runs := _runs(known)):
        holder = runs[-1].id
        message = f"execution {waiting.id} waits for {holder} to end (overlap {waiting.rules.overlap})"
        return Reason("overlap", message, details={"execution_id": waiting.id, "holder": holder})
    if waiting.due > known.now:
        code = "retry_wait" if waiting.failures else "start_later"
        what = f"waits for try {waiting.attempt}" if waiting.failures else "is to start"
        message = f"execution {waiting.id} {what} at {_text(waiting.due)}"
        details = {"execution_id": waiting.id, "start_at": _text(waiting.due), "error": waiting.error}
        return Reason(code, message, details=details)
    return None


def _limited(waiting: ExecutionRow, key: str, holders: Sequence[ExecutionRow]) -> Reason:
    limit, words = limit_of(waiting, key), limit_words(waiting, key)
    held = [each.id for each in holders[:NAMED]]
    details: dict[str, Any] = {"execution_id": waiting.id, "key": key, "held_by": held}
    if limit is not None and limit.concurrency is None:
        details |= {"rate": limit.per_second, "burst": limit.burst}
        return Reason("rate_limited", f"execution {waiting.id} waits for its turn: {words}", details=details)
    by = f", held by {', '.join(held)}{' and others' if len(holders) > NAMED else ''}" if held else ""
    details |= {"limit": None if limit is None else limit.concurrency, "running": len(holders)}
    return Reason("limit_reached", f"execution {waiting.id} waits: {words}{by}", details=details)


def _in_turn(waiting: ExecutionRow, place: Place) -> Reason:
    least = "" if place.exact else "at least "
    words = f"execution {waiting.id} is {least}number {place.number} of {waiting.share!r} in its queue"
    others = f", which takes turns with {least}{place.others} other(s)" if place.others else ""
    details = {
        "execution_id": waiting.id,
        "share": waiting.share,
        "place": place.number,
        "other_shares": place.others,
        "exact": place.exact,
    }
    return Reason("fair_share", words + others, place.number > 1 or place.others > 0, details)


# ---------------------------------------------------------------- who would run it


def _workers(known: Facts) -> list[Reason]:
    """For the job itself, and for what waits of it in other queues than its own."""
    spec, found = known.view.job.spec, dict[str, Reason]()
    if known.view.orphaned:
        found["orphaned"] = Reason("orphaned", "no running process declares it: its code is gone, or not deployed yet")
    ready = [(each.handler, each.queue) for each in known.alive if is_ready(each, known.now)]
    for handler, queue in dict.fromkeys([(spec.handler, spec.queue), *ready]):
        reason = nobody_for(handler, queue, known.workers) or all_busy(handler, queue, known.workers)
        if reason is not None:
            found.setdefault(reason.message, reason)
    return list(found.values())


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


def _passed_over(known: Facts) -> list[Reason]:
    """Who asks why it did not run last night is told what became of its turn."""
    newest = known.newest
    if newest is None or newest.state is not State.SKIPPED:
        return []
    because = newest.error or newest.reason
    details = {"execution_id": newest.id, "reason": newest.reason}
    return [Reason("skipped", f"its last execution, {newest.id}, was skipped: {because}", False, details)]


def _with_role(workers: Sequence[WorkerInfo], role: str) -> list[WorkerInfo]:
    return [worker for worker in workers if role in worker.roles]


def _text(at: Micros | None) -> str | None:
    moment = maybe_datetime(at)
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


class Reason(msgspec.Struct, frozen=True):
    """`blocking` tells what keeps the job from running from what is merely so: it runs, or its time has not come."""

    code: str
    message: str
    blocking: bool = True
    details: dict[str, Any] = {}


def nobody_for(handler: str, queue: str, workers: Sequence[WorkerInfo | WorkerView]) -> Reason | None:
    """Why none of these processes would ever take it; None when one of them would."""
    if not workers:
        return Reason("no_worker", "no process is running")
    if not (at_work := [worker for worker in workers if "worker" in worker.roles]):
        return Reason("no_worker", "no running process has the role worker")
    if not (able := [worker for worker in at_work if handler in worker.handlers]):
        message = f"none of {len(at_work)} running worker(s) has the handler {handler!r}, or they exclude it"
        return Reason("no_handler", message, details={"handler": handler})
    if not any(_takes_from(worker, queue) for worker in able):
        message = f"no worker that has the handler takes from the queue {queue!r}"
        return Reason("queue_not_served", message, details={"queue": queue})
    return None


def all_busy(handler: str, queue: str, workers: Sequence[WorkerInfo]) -> Reason | None:
    """That every process which would take it is full; None when one of them is not."""
    serving = [
        worker
        for worker in workers
        if "worker" in worker.roles and handler in worker.handlers and _takes_from(worker, queue)
    ]
    if not serving or any(worker.running < worker.concurrency for worker in serving):
        return None
    busy, slots = (sum(getattr(worker, name) for worker in serving) for name in ("running", "concurrency"))
    message = f"all slots are busy: {busy} of {slots} on {len(serving)} worker(s)"
    return Reason("slots_busy", message, details={"running": busy, "slots": slots})


def counted(workers: Sequence[WorkerInfo], running: Sequence[ExecutionRow]) -> list[WorkerInfo]:
    """The processes with what they run now; what they say themselves is as old as their last heartbeat."""
    owners = Counter(each.owner for each in running)
    return [msgspec.structs.replace(worker, running=owners[worker.id]) for worker in workers]


def _takes_from(worker: WorkerInfo | WorkerView, queue: str) -> bool:
    return worker.queues is None or queue in worker.queues
