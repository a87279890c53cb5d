"""Why a job is not running, as an ordered list of reasons. Pure: everything is decided from `why_facts.Facts`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from ...model.controls import Subject
from ...model.execution import ExecutionRow, State
from ...model.store.messages import WorkerInfo
from ...model.time.instants import SECOND, Micros, maybe_datetime
from ...model.values.reading import SYSTEM_PREFIX, duration_text
from ..dependencies.compatibility import describe_conflict
from ..dependencies.joins import group_words
from ..rules.limits import limit_of, limit_words
from ..rules.opening_hours import Closing
from ..rules.problems import span_text
from ..rules.stopping import overrun_hint
from ..views.job import job_of
from ..views.records import WorkerView
from .queues import serves
from .why_facts import Facts, Place, WaitingFor, is_ready

NAMED = 5
LATE = 5_000_000
"""Microseconds after which a tick that no scheduler has materialised is reported."""


class Reason(msgspec.Struct, frozen=True):
    """One reason why a job or an execution does not run, or information about it."""

    code: str
    """The reason for programs, such as `paused`."""
    message: str
    """The reason for people."""
    blocking: bool = True
    """Whether it keeps the job from running; False is information, such as that it runs already."""
    details: dict[str, Any] = {}
    """The facts behind it, for programs to read."""


def reasons(known: Facts) -> list[Reason]:
    """Ordered: what an operator did, what the schedule says, what the job's own rules say, what is missing."""
    return [
        *_controls(known),
        *_schedule(known),
        *_parents(known),
        *_held(known),
        *_workers(known),
        *_running(known),
        *_skipped(known),
    ]


def why_it_waits(known: Facts, waiting: ExecutionRow) -> list[Reason]:
    """Why one pending execution has not begun; empty when a worker is about to claim it."""
    if job_of(known.view).cancelled is not None:
        return [Reason("cancelled", "its job is cancelled, so it will be cancelled too")]
    held, ready = _waits(known, waiting), is_ready(waiting, known.now)
    found = _paused_job(known) if waiting.held or _holds(known) else []
    found += _paused_lane(known, waiting.handler, waiting.queue)
    found += [held] if held is not None and held.blocking else []
    nobody = nobody_for(waiting.handler, waiting.queue, known.workers)
    full = all_busy(waiting.handler, waiting.queue, known.workers) if ready else None
    return [*found, *(each for each in (nobody, full) if each is not None)]


# ---------------------------------------------------------------- operators


def _controls(known: Facts) -> list[Reason]:
    job = job_of(known.view)
    found = []
    if job.cancelled is not None:
        since = _text(job.cancelled)
        found.append(Reason("cancelled", f"cancelled since {since}; reactivate it", details={"cancelled_at": since}))
    if job.paused is not None:
        found.append(_pause("paused", "", job.paused_by, job.paused, job.pause_note, job.resume))
    lanes = [(job.spec.handler, job.spec.queue), *((each.handler, each.queue) for each in known.alive)]
    paused = [reason for lane in dict.fromkeys(lanes) for reason in _paused_lane(known, *lane)]
    found += {reason.message: reason for reason in paused}.values()
    if not job.spec.enabled:
        found.append(Reason("disabled", "its schedule is disabled: it runs only when it is triggered"))
    return found


def _holds(known: Facts) -> bool:
    return job_of(known.view).holds_executions


def _paused_job(known: Facts) -> list[Reason]:
    """For an execution that waits because its job is paused."""
    job = job_of(known.view)
    if job.paused is None:
        return [Reason("released_soon", "its job was resumed, and it begins as soon as it is released")]
    return [_pause("paused", "its job is ", job.paused_by, job.paused, job.pause_note, job.resume)]


def _paused_lane(known: Facts, handler: str, queue: str) -> list[Reason]:
    """What operators paused that this handler in this queue needs."""
    found = []
    lane: tuple[tuple[Subject, str], ...] = (("queue", queue), ("handler", handler))
    for subject, name in lane:
        control = known.controls.get((subject, name))
        if control is not None and control.paused is not None:
            words = f"its {subject} {name!r} is "
            reason = _pause(f"{subject}_paused", words, control.by, control.paused, control.note, control.until)
            found.append(msgspec.structs.replace(reason, details={subject: name, **reason.details}))
    return found


def _pause(code: str, subject: str, by: str | None, since: Micros, note: str | None, until: Micros | None) -> Reason:
    details = {"paused_by": by, "paused_at": _text(since), "note": note, "resume_at": _text(until)}
    began = f" since {_text(since)}" if subject else ""
    end = f" until {_text(until)}" if until is not None else ""
    words = f"{subject}paused by {by or 'an unknown user'}{began}{end}{f': {note}' if note else ''}"
    return Reason(code, words, details=details)


# ---------------------------------------------------------------- its schedule


def _schedule(known: Facts) -> list[Reason]:
    job = job_of(known.view)
    if job.trigger is None:
        on_demand = Reason("on_demand", "it has no schedule: it runs when it is triggered", False)
        return [] if known.alive or job.spec.after else [on_demand]
    if not job.ticking:
        return []
    if job.next_run is None:
        return [Reason("no_next_run", f"its schedule ({job.trigger.expression()}) has no further run")]
    if known.view.closing is not None:
        return [_closed(known.view.closing, known.view.hours)]
    details = {"next_run_at": _text(job.next_run)}
    if job.next_run > known.now:
        wait = span_text(max(1.0, round((job.next_run - known.now) / SECOND)))
        return [Reason("not_due", f"its next run is at {_text(job.next_run)}, in {wait}", False, details)]
    late = known.now - job.next_run
    if not _with_role(known.workers, "scheduler"):
        return [Reason("no_scheduler", "it is due, and no running process has the role scheduler", details=details)]
    if late > LATE:
        return [
            Reason(
                "late",
                f"it was due at {_text(job.next_run)}, and no scheduler has created its execution yet",
                details=details,
            )
        ]
    return []


def _closed(closing: Closing, hours: str | None) -> Reason:
    until = None if closing.until is None else closing.until.isoformat().replace("+00:00", "Z")
    details = {"until": until, "by": closing.by, "hours": hours}
    return Reason("hours_closed", f"closed until {until or 'further notice'} by {closing.by}", details=details)


def _parents(known: Facts) -> list[Reason]:
    """For a job with `after`: the parents that will never come, and the executions it waits for."""
    after, waits, tz = known.view.after, known.waiting_for, known.view.tz
    if not after:
        return []
    found = _never_coming(waits)
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
            f"{', '.join(half.ended)} ended for {group_words(half.group, tz)}; it waits for {', '.join(half.missing)}",
            details={"group": half.group, "ended": half.ended, "missing": list(half.missing)},
        )
        for half in waits.half
    ]
    if not found and not known.alive:
        found = [Reason("after", f"it runs when {' and '.join(after)} ended", False, {"after": list(after)})]
    return found


def _never_coming(waits: WaitingFor) -> list[Reason]:
    remedy = "take it out of `after`"
    found = [
        Reason(
            "parent_gone",
            f"it comes after job {name!r}, which does not exist: it was removed, or no process has declared it yet; "
            f"create it, or {remedy}",
            details={"job": name},
        )
        for name in waits.gone
    ]
    for name, at in waits.cancelled.items():
        message = f"it comes after job {name!r}, which is cancelled since {_text(at)}; reactivate that, or {remedy}"
        found.append(Reason("parent_cancelled", message, details={"job": name, "cancelled_at": _text(at)}))
    for name, by in waits.paused.items():
        message = f"it comes after job {name!r}, which is paused by {by or 'an unknown user'}; resume or trigger that"
        found.append(Reason("parent_paused", message, details={"job": name, "paused_by": by}))
    if waits.never_meet is not None:
        found.append(
            Reason("parents_never_meet", describe_conflict(waits.never_meet), details={"jobs": list(waits.never_meet)})
        )
    return found


# ---------------------------------------------------------------- its own rules


def _held(known: Facts) -> list[Reason]:
    """Executions that wait for their time, for a retry, or for the execution that holds the key of the job."""
    waiting = [each for each in known.alive if each.state is State.PENDING]
    found = [reason for each in waiting if (reason := _waits(known, each)) is not None]
    runs = _runs(known)
    job = job_of(known.view)
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
    if waiting.held:
        return None  # its job is paused, which is a reason of its own
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
        what = f"waits for attempt {waiting.attempt}" if waiting.failures else "is to start"
        message = f"execution {waiting.id} {what} at {_text(waiting.due)}"
        if waiting.error and not waiting.failures:  # handed back, or snoozed
            message += f", after an attempt that ended with: {waiting.error.splitlines()[0]}"
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


# ---------------------------------------------------------------- workers


def _workers(known: Facts) -> list[Reason]:
    """For the job itself, and for its executions that wait in other queues."""
    spec, found = job_of(known.view).spec, dict[str, Reason]()
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
    late = [reason for each in runs if (reason := _overruns(known, each)) is not None]
    return late + [
        Reason(
            "running" if each.state is State.RUNNING else "waiting_on_children",
            f"execution {each.id} has been running since {_text(each.started)}"
            if each.state is State.RUNNING
            else f"execution {each.id} waits for its children",
            False,
            {"execution_id": each.id, "worker": each.owner, "started_at": _text(each.started), **_ends_by(each)},
        )
        for each in runs
    ]


def _ends_by(run: ExecutionRow) -> dict[str, str | None]:
    """Only for a job with a `run_timeout`."""
    return {} if (deadline := run.run_deadline) is None else {"run_timeout_at": _text(deadline)}


def _overruns(known: Facts, run: ExecutionRow) -> Reason | None:
    """Its handler was asked to stop, and goes on."""
    details = {"execution_id": run.id, "worker": run.owner}
    hint = overrun_hint(job_of(known.view).spec.isolation)
    match run.overruns(known.now):
        case "timeout":
            limit = f"its timeout of {duration_text(run.time_limit(run.claimed or known.now) or 0.0)}"
            message = f"execution {run.id} is past {limit}, and its handler does not stop{hint}"
            return Reason("past_timeout", message, details=details | {"timeout_at": _moment(run.timeout_at)})
        case "cancel":
            asked = _text(run.cancel_requested)
            message = f"execution {run.id} was cancelled at {asked}, and its handler does not stop{hint}"
            return Reason("ignores_cancel", message, details=details | {"cancel_requested_at": asked})
        case None:
            return None


def _skipped(known: Facts) -> list[Reason]:
    """The last execution was skipped: that explains why the job did not run last night."""
    newest = known.newest
    if newest is None or newest.state is not State.SKIPPED:
        return []
    because = newest.error or newest.reason
    details = {"execution_id": newest.id, "reason": newest.reason}
    return [Reason("skipped", f"its last execution, {newest.id}, was skipped: {because}", False, details)]


def _with_role(workers: Sequence[WorkerInfo], role: str) -> list[WorkerInfo]:
    return [worker for worker in workers if role in worker.roles]


def _text(at: Micros | None) -> str | None:
    return _moment(maybe_datetime(at))


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def nobody_for(handler: str, queue: str, workers: Sequence[WorkerInfo | WorkerView]) -> Reason | None:
    """Why none of these processes would ever claim it; None when one of them would."""
    if not workers:
        return Reason("no_worker", "no process is running")
    if not (at_work := [worker for worker in workers if "worker" in worker.roles]):
        return Reason("no_worker", "no running process has the role worker")
    at_work = [worker for worker in at_work if not worker.draining]
    if not at_work:
        return Reason("draining", "every running worker is being drained: none takes more work")
    if not (able := [worker for worker in at_work if handler in worker.handlers]):
        message = f"none of {len(at_work)} running worker(s) has the handler {handler!r}, or they exclude it"
        return Reason("no_handler", message, details={"handler": handler})
    if not any(serves(worker, queue) for worker in able):
        message = f"no worker that has the handler serves the queue {queue!r}"
        return Reason("queue_not_served", message, details={"queue": queue})
    return None


def all_busy(handler: str, queue: str, workers: Sequence[WorkerInfo]) -> Reason | None:
    """Every process that would claim it is full; None when one of them is not."""
    serving = [
        worker
        for worker in workers
        if "worker" in worker.roles and not worker.draining and handler in worker.handlers and serves(worker, queue)
    ]
    if not serving or any(worker.running < worker.concurrency for worker in serving):
        return None
    if handler.startswith(SYSTEM_PREFIX):  # it takes no slot
        return None
    busy, slots = (sum(getattr(worker, name) for worker in serving) for name in ("running", "concurrency"))
    message = f"all slots are busy: {busy} of {slots} on {len(serving)} worker(s)"
    return Reason("slots_busy", message, details={"running": busy, "slots": slots})
