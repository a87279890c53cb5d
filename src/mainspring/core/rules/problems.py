"""What needs attention: from facts about the whole installation to an ordered list of problems. Pure functions.

Each area has one function here, which decides what is a problem and words it: the subject, then a sentence about it
("is late by 3 h 12 min"), then the facts behind it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from ...model.bulk import BulkRow
from ...model.controls import Control
from ...model.execution import ExecutionRow
from ...model.store.messages import WorkerInfo
from ...model.time.instants import SECOND, Micros, maybe_datetime, to_datetime, to_micros
from ...model.time.zones import known_zone
from .problem_facts import ErrorFacts, Facts, Lane, LateFacts, QueueFacts, RunFacts

ProblemKind: TypeAlias = Literal[
    "disk_space",
    "failing_loop",
    "no_scheduler",
    "no_worker",
    "new_error",
    "growing_error",
    "late_job",
    "stuck_run",
    "silent_worker",
    "no_handler",
    "queue_backing_up",
    "wakeups_down",
    "clock_skew",
    "job_conflict",
    "disabled_webhook",
    "failing_webhook",
    "stopped_bulk",
    "failed_backfill",
    "paused_queue",
    "paused_handler",
    "drained_worker",
    "mixed_releases",
]
"""The most urgent first: problems of the same severity are listed in this order."""
Severity: TypeAlias = Literal["bad", "warn"]
SubjectKind: TypeAlias = Literal[
    "job",
    "queue",
    "handler",
    "execution",
    "worker",
    "application",
    "error_group",
    "bulk",
    "backfill",
    "webhook",
    "store",
]
Fix: TypeAlias = Literal[
    "retry_probe",
    "open_error",
    "why",
    "open_queue",
    "resume",
    "open_execution",
    "open_executions",
    "open_worker",
    "undrain",
    "open_job",
    "open_changes",
    "open_bulk",
    "open_backfill",
    "enable_webhook",
    "open_webhook",
]

MOST = 50
MOST_OF_A_KIND = 15
"""One kind of problem never hides the others."""
LATE_SHOWN = 3
"""If more jobs are late for the same reason, they are one problem."""
NAMED = 20
"""How many names the details of a problem list."""

MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
NEW_FOR: Micros = DAY
"""How long an error group is new, and an ended bulk action or backfill is worth a line."""
RECENT_HOURS, GROWTH, LEAST_GROWN = 2, 5, 20
"""An error group grows if it had five times as many failures in the last two hours as usual, and at least 20."""
NOBODY_FOR: Micros = 10 * SECOND
"""How long ready work may be without a worker: as long as a deploy needs to replace one."""
WAITS_LONG: Micros = 5 * MINUTE
WAITS_TOO_LONG: Micros = HOUR
MUCH_READY = 1_000
STUCK_FACTOR, STUCK_LEAST, STUCK_RUNS = 4, MINUTE, 3
"""A run is stuck if it takes more than four times the average of at least three runs, and a minute longer."""
PAST_TIMEOUT: Micros = 10 * SECOND
CANCEL_LASTS: Micros = MINUTE
DRAINED_LONG: Micros = HOUR
FORGOTTEN_AFTER: Micros = HOUR
"""The row of a process that has been silent for this long is removed."""
MIXED_LONG: Micros = HOUR
DELIVERIES_FAIL_FOR: Micros = MINUTE
"""How long every delivery to an endpoint may fail: a receiver that restarts is back by then."""
FAILS_FOR = 5.0
"""Seconds that a loop may fail before it is a problem."""
LEAST_FREE, LEAST_FREE_SHARE = 1_000_000_000, 0.05


# --- problems


class Subject(msgspec.Struct, frozen=True):
    """What a problem is about."""

    kind: SubjectKind
    """What it is: a job, a queue, a worker and so on."""
    name: str
    """Its name for people."""
    id: str | None = None
    """Identifies it where the name does not."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that needs attention."""

    kind: ProblemKind
    """What kind of problem it is."""
    severity: Severity
    """How urgent it is."""
    subject: Subject
    """What it is about."""
    text: str
    """What is wrong; continues the name of the subject."""
    evidence: str = ""
    """The facts behind it."""
    since: datetime | None = None
    """When it began."""
    count: int = 1
    """How many there are of what it is about: failures, missed runs, ready executions."""
    fix: Fix | None = None
    """The action that solves it."""
    by: str | None = None
    """Who paused or drained the subject."""
    details: dict[str, Any] = {}
    """The facts for programs."""


class ProblemList(msgspec.Struct, frozen=True, kw_only=True):
    """What needs attention."""

    problems: list[Problem]
    """The most urgent problems first."""
    left_out: int
    """How many others there are."""
    checked_at: datetime
    """When this was found."""


def problems(facts: Facts) -> ProblemList:
    """Bad ones before warnings, each by kind, the newest of a kind first."""
    found = sorted(chain.from_iterable(rule(facts) for rule in RULES), key=_place)
    kinds: defaultdict[ProblemKind, int] = defaultdict(int)
    shown = []
    for each in found:
        kinds[each.kind] += 1
        if kinds[each.kind] <= MOST_OF_A_KIND:
            shown.append(each)
    shown = shown[:MOST]
    return ProblemList(problems=shown, left_out=len(found) - len(shown), checked_at=to_datetime(facts.now))


_ORDER = {kind: place for place, kind in enumerate(get_args(ProblemKind))}


def _place(problem: Problem) -> tuple[bool, int, int, str]:
    since = 0 if problem.since is None else to_micros(problem.since)
    return problem.severity != "bad", _ORDER[problem.kind], -since, problem.subject.name


# --- errors


def noticed(group: ErrorFacts, now: Micros) -> Literal["new_error", "growing_error"] | None:
    """Why an error group needs attention, as long as it is not mended."""
    if now - group.first_seen < NEW_FOR:
        return "new_error"
    return None if _growth(group.trend) is None else "growing_error"


def mended(group: ErrorFacts, now: Micros) -> bool:
    """Whether no failed run is left to retry, and all jobs work again. An error that only the automatic retries have
    absorbed may come back at any moment: it is mended after an hour without it."""
    return not group.open and group.completed and (group.failures > 0 or now - group.last_seen >= HOUR)


def error_problems(facts: Facts) -> Iterator[Problem]:
    """An error without open failures is a warning: every execution so far was retried, or will be."""
    for group in facts.errors:
        if mended(group, facts.now):
            continue
        match noticed(group, facts.now):
            case "new_error":
                last = _age(group.last_seen, facts.now)
                often = f"{_attempts(group.count)}, {_runs(group)}{_tenants(group)}{_release(group)}, last {last} ago"
                severity: Severity = "bad" if facts.now - group.last_seen < HOUR and group.open else "warn"
                yield _error(group, "new_error", severity, f"is new in {_jobs(group)}", often)
            case "growing_error":
                recent, before = _growth(group.trend) or (0, 0)
                often = f"{_attempts(recent)} in the last two hours, {before:,} in the 22 before{_tenants(group)}"
                text = f"occurs much more often than before in {_jobs(group)}"
                yield _error(group, "growing_error", "bad" if group.open else "warn", text, often)
            case None:
                pass


def _error(group: ErrorFacts, kind: ProblemKind, severity: Severity, text: str, evidence: str) -> Problem:
    details = {
        "jobs": list(group.jobs[:NAMED]),
        "jobs_total": group.jobs_total,
        "tenants_total": group.tenants_total,
        "attempts": group.count,
        "failures": group.failures,
        "open_failures": group.open,
        "first_release": group.release,
        "trend": list(group.trend),
    }
    return Problem(
        kind=kind,
        severity=severity,
        subject=Subject("error_group", group.title, group.id),
        text=text,
        evidence=evidence,
        since=to_datetime(group.first_seen),
        count=group.count,
        fix="retry_probe" if group.open else "open_error",
        details=details,
    )


def _growth(trend: Sequence[int]) -> tuple[int, int] | None:
    """The failures of the last two hours and those before, if the first are many more."""
    recent, before = sum(trend[-RECENT_HOURS:]), sum(trend[:-RECENT_HOURS])
    usual = before * RECENT_HOURS / max(1, len(trend) - RECENT_HOURS)
    return (recent, before) if recent >= max(LEAST_GROWN, GROWTH * usual) else None


def _attempts(count: int) -> str:
    return f"{count:,} failed attempt{'s' * (count != 1)}"


def _runs(group: ErrorFacts) -> str:
    """The runs that had no attempt left, and what became of them.

    >>> facts = ErrorFacts(id="e", title="E", count=3, failures=3, first_seen=0, last_seen=0, closed=2)
    >>> _runs(facts), _runs(msgspec.structs.replace(facts, closed=3))
    ('1 failed run', '3 failed runs, none left to retry')
    """
    if not group.failures:
        return "no run failed"
    if not group.open:
        return f"{_failed_runs(group.failures)}, none left to retry"
    return _failed_runs(group.open)


def _failed_runs(count: int) -> str:
    return f"{count:,} failed run{'s' * (count != 1)}"


def _jobs(group: ErrorFacts) -> str:
    if not group.jobs:
        return "no job that is known"
    others = max(group.jobs_total, len(group.jobs)) - 1
    return group.jobs[0] + (f" and {others:,} other job{'s' * (others > 1)}" if others else "")


def _tenants(group: ErrorFacts) -> str:
    total = group.tenants_total
    return f", {total:,} tenant{'s' * (total > 1)}" if total else ""


def _release(group: ErrorFacts) -> str:
    return f", first in release {group.release}" if group.release else ""


# --- late jobs


def late_problems(facts: Facts) -> Iterator[Problem]:
    """Many jobs that are late for the same reason are one problem."""
    queues = {queue.name: queue for queue in facts.queues}
    paused = {handler.name for handler in facts.handlers}
    by_cause: defaultdict[tuple[str, Severity], list[LateFacts]] = defaultdict(list)
    for each in facts.late:
        by_cause[_cause(each, queues.get(each.queue), paused, facts.schedulers)].append(each)
    for (cause, severity), jobs in by_cause.items():
        jobs.sort(key=lambda each: (each.first, each.job))
        if len(jobs) > LATE_SHOWN:
            yield _several_late(jobs, cause, severity, facts)
        else:
            yield from (_late(each, cause, severity, facts.now) for each in jobs)


def _cause(
    late: LateFacts, queue: QueueFacts | None, paused_handlers: Iterable[str], schedulers: int
) -> tuple[str, Severity]:
    """Why it is late, as far as that is known without a search, and how bad that is: a pause was somebody's wish."""
    if not late.waiting:
        return "no scheduler is running" if not schedulers else "the scheduler is behind", "bad"
    if queue is not None and queue.paused is not None:
        return f"queue {late.queue!r} is paused", "warn"
    if late.handler in paused_handlers:
        return f"handler {late.handler!r} is paused", "warn"
    if queue is not None and not queue.workers:
        return f"no worker serves queue {late.queue!r}", "bad"
    if queue is not None and queue.workers == queue.drained:
        return f"every worker of queue {late.queue!r} is drained", "bad"
    if queue is not None and any(lane.handler == late.handler for lane in queue.missing):
        return f"no running worker has handler {late.handler!r}", "bad"
    if late.parked is not None:
        return f"it waits for the limit {late.parked!r}", "warn"
    return f"the workers of queue {late.queue!r} are busy", "bad"


def _late(late: LateFacts, cause: str, severity: Severity, now: Micros) -> Problem:
    """`due` of the details is the time in the evidence, by the clock of the job's zone `tz`."""
    seconds = (now - late.first) / SECOND
    due = _clock(late.first, late.tz, now)
    many = f", {late.count:,} {'wait' if late.waiting else 'runs missed'}" if late.count > 1 else ""
    return Problem(
        kind="late_job",
        severity=severity,
        subject=Subject("job", late.job),
        text=f"is late by {span_text(seconds)}",
        evidence=f"due {due}, {cause}{many}",
        since=to_datetime(late.first),
        count=late.count,
        fix="why",
        details={
            "seconds": round(seconds, 3),
            "reason": cause,
            "queue": late.queue,
            "waiting": late.waiting,
            "due": due,
            "tz": late.tz,
        },
    )


def _several_late(late: Sequence[LateFacts], cause: str, severity: Severity, facts: Facts) -> Problem:
    first, due = late[0], _clock(late[0].first, late[0].tz, facts.now)
    least = "at least " if facts.more_late and not first.waiting else ""
    return Problem(
        kind="late_job",
        severity=severity,
        subject=Subject("job", first.job),
        text=f"and {least}{len(late) - 1:,} other jobs are late, this one by {_age(first.first, facts.now)}",
        evidence=f"due {due}, {cause}",
        since=to_datetime(first.first),
        count=len(late),
        fix="why",
        details={
            "reason": cause,
            "queue": first.queue,
            "jobs": [each.job for each in late[:NAMED]],
            "due": due,
            "tz": first.tz,
        },
    )


# --- queues and handlers


def queue_problems(facts: Facts) -> Iterator[Problem]:
    for queue in facts.queues:
        if queue.paused is not None:
            if queue.waiting:
                yield _paused("paused_queue", Subject("queue", queue.name), queue.waiting, queue.paused)
            continue
        age = 0 if queue.oldest is None else facts.now - queue.oldest
        if queue.workers == queue.drained:
            if queue.ready and age > NOBODY_FOR:
                yield _unserved(queue, age)
            continue
        yield from (
            _no_handler(queue, lane, facts.now) for lane in queue.missing if facts.now - lane.oldest > NOBODY_FOR
        )
        grows = queue.ready >= MUCH_READY and queue.rate_in > queue.rate_out
        lacking = sum(lane.ready for lane in queue.missing)
        if queue.ready > lacking and (age > WAITS_LONG or grows):
            yield _backing_up(queue, age)
    for handler in facts.handlers:
        if handler.waiting:
            yield _paused("paused_handler", Subject("handler", handler.name), handler.waiting, handler.control)


def _unserved(queue: QueueFacts, age: Micros) -> Problem:
    text = "has no running worker" if not queue.workers else "has no worker that is not drained"
    evidence = f"{queue.ready:,} ready, oldest {span_text(age / SECOND)}"
    return _queue("no_worker", "bad", queue, text, evidence, age)


def _backing_up(queue: QueueFacts, age: Micros) -> Problem:
    evidence = f"{queue.ready:,} ready, oldest {span_text(age / SECOND)}, {_rates(queue)}"
    return _queue("queue_backing_up", "bad" if age > WAITS_TOO_LONG else "warn", queue, "is backing up", evidence, age)


def _queue(kind: ProblemKind, severity: Severity, queue: QueueFacts, text: str, evidence: str, age: Micros) -> Problem:
    rates = {"rate_in": round(queue.rate_in, 1), "rate_out": round(queue.rate_out, 1)}
    return Problem(
        kind=kind,
        severity=severity,
        subject=Subject("queue", queue.name),
        text=text,
        evidence=evidence,
        since=maybe_datetime(queue.oldest),
        count=queue.ready,
        fix="open_queue",
        details={"seconds": round(age / SECOND, 3), "workers": queue.workers, "drained": queue.drained, **rates},
    )


def _no_handler(queue: QueueFacts, lane: Lane, now: Micros) -> Problem:
    age = (now - lane.oldest) / SECOND
    return Problem(
        kind="no_handler",
        severity="bad",
        subject=Subject("handler", lane.handler),
        text="is missing in every running worker",
        evidence=f"{lane.ready:,} ready in queue {queue.name!r}, oldest {span_text(age)}; not deployed, or removed",
        since=to_datetime(lane.oldest),
        count=lane.ready,
        fix="open_executions",
        details={"queue": queue.name, "seconds": round(age, 3)},
    )


def _paused(kind: ProblemKind, subject: Subject, waiting: int, control: Control) -> Problem:
    note = f"; {control.note}" if control.note else ""
    return Problem(
        kind=kind,
        severity="warn",
        subject=subject,
        text="is paused while work waits",
        evidence=f"{waiting:,} ready{note}",
        since=control.paused_at,
        count=waiting,
        fix="resume",
        by=control.by,
        details={"note": control.note, "resume_at": control.until_at},
    )


def _rates(queue: QueueFacts) -> str:
    return f"in {queue.rate_in:,.0f}/min, out {queue.rate_out:,.0f}/min"


# --- runs


def run_problems(facts: Facts) -> Iterator[Problem]:
    for run in facts.runs:
        if (found := _stuck(run, facts.now)) is not None:
            yield found


def _stuck(run: RunFacts, now: Micros) -> Problem | None:
    row = run.row
    began = row.claimed or row.started
    if began is None or not row.readable:
        return None
    taken, usual = now - began, run.average_ms
    if row.cancel_requested is not None and now - row.cancel_requested > CANCEL_LASTS:
        text = f"is still running although it was cancelled {_age(row.cancel_requested, now)} ago"
        return _run(row, began, "cancelled", text, f"running for {span_text(taken / SECOND)}")
    end = row.timeout_at
    if end is not None and now - to_micros(end) > PAST_TIMEOUT:
        over = span_text((now - to_micros(end)) / SECOND)
        return _run(
            row,
            began,
            "timeout",
            f"is still running {over} past its timeout",
            f"running for {span_text(taken / SECOND)}",
        )
    if usual is None or run.runs < STUCK_RUNS or taken - usual * 1_000 < STUCK_LEAST:
        return None
    factor = taken / max(1.0, usual * 1_000)
    if factor <= STUCK_FACTOR:
        return None
    evidence = f"{span_text(taken / SECOND)}, usually {span_text(usual / 1_000)}"
    times = f"{factor:,.0f} times" if factor < 1_000 else "over 1,000 times"
    return _run(row, began, "duration", f"has run {times} longer than usual", evidence)


def _run(row: ExecutionRow, began: Micros, reason: str, text: str, evidence: str) -> Problem:
    return Problem(
        kind="stuck_run",
        severity="bad" if reason != "duration" else "warn",
        subject=Subject("execution", row.job, row.id),
        text=text,
        evidence=evidence,
        since=to_datetime(began),
        fix="open_execution",
        details={"job": row.job, "reason": reason, "worker": row.owner, "tenant": row.tenant},
    )


# --- processes


def worker_problems(facts: Facts) -> Iterator[Problem]:
    if facts.has_schedules and not facts.schedulers:
        yield Problem(
            kind="no_scheduler",
            severity="bad",
            subject=Subject("store", "store"),
            text="has jobs with schedules, but no scheduler is running",
            evidence=_without_scheduler(len(facts.living)),
            details={"workers": len(facts.living)},
        )
    for worker in facts.workers:
        if worker.roles and worker.id not in facts.alive:
            yield _silent(worker, facts)
        drain = facts.drains.get(worker.id, Control())
        if worker.id in facts.alive and drain.paused is not None and facts.now - drain.paused > DRAINED_LONG:
            text = f"has been drained for {_age(drain.paused, facts.now)}"
            yield _worker(worker, "drained_worker", "warn", text, drain.paused, "undrain", drain)
    yield from _mixed(facts)


def _without_scheduler(living: int) -> str:
    if not living:
        return "no process is running"
    return f"{living:,} process{'es' * (living != 1)} without the role scheduler"


def _silent(worker: WorkerInfo, facts: Facts) -> Problem:
    """Bad while it holds runs, which nobody else can run before their leases end. What it counted itself is out of
    date."""
    held = sum(run.row.owner == worker.id for run in facts.runs)
    text = f"has been silent for {_age(worker.seen, facts.now)} and was not stopped"
    found = _worker(
        msgspec.structs.replace(worker, running=held),
        "silent_worker",
        "bad" if held else "warn",
        text,
        worker.seen,
        "open_worker",
    )
    left = max(0, worker.seen + FORGOTTEN_AFTER - facts.now)
    runs = f"{held:,} of its runs not taken over yet" if held else "it no longer holds any run"
    evidence = f"{', '.join(worker.roles)}; {runs}; leaves the list in {span_text(left / SECOND)}"
    return msgspec.structs.replace(found, evidence=evidence)


def _worker(
    worker: WorkerInfo,
    kind: ProblemKind,
    severity: Severity,
    text: str,
    since: Micros,
    fix: Fix,
    drain: Control | None = None,
) -> Problem:
    parts = [", ".join(worker.roles), f"{worker.running:,} running"]
    if drain is not None and drain.note:
        parts.append(drain.note)
    return Problem(
        kind=kind,
        severity=severity,
        subject=Subject("worker", f"{worker.host}:{worker.pid}", worker.id),
        text=text,
        evidence="; ".join(parts),
        since=to_datetime(since),
        count=max(1, worker.running),
        fix=fix,
        by=None if drain is None else drain.by,
        details={"roles": list(worker.roles), "running": worker.running, "release": worker.release or None},
    )


def _mixed(facts: Facts) -> Iterator[Problem]:
    """Releases that run side by side for longer than a deploy takes."""
    by_application: defaultdict[str, list[WorkerInfo]] = defaultdict(list)
    for worker in facts.living:
        if worker.roles:
            by_application[worker.application].append(worker)
    for application, workers in sorted(by_application.items()):
        started: dict[str, Micros] = {}
        for worker in workers:
            name = worker.release or f"Mainspring {worker.version}"
            started[name] = min(worker.started, started.get(name, worker.started))
        since = max(started.values())
        if len(started) > 1 and facts.now - since > MIXED_LONG:
            yield Problem(
                kind="mixed_releases",
                severity="warn",
                subject=Subject("application", application or "application"),
                text=f"has run {len(started)} releases side by side for {_age(since, facts.now)}",
                evidence=", ".join(sorted(started)[:NAMED]),
                since=to_datetime(since),
                count=len(started),
                fix="open_changes",
                details={"releases": sorted(started)[:NAMED]},
            )


# --- this process and its store


def store_problems(facts: Facts) -> Iterator[Problem]:
    if facts.disk is not None:
        free, total = facts.disk
        if free < LEAST_FREE or free < LEAST_FREE_SHARE * total:
            yield Problem(
                kind="disk_space",
                severity="bad",
                subject=Subject("store", "store"),
                text=f"has only {_size(free)} of disk space left",
                evidence=f"{free / max(1, total):.1%} of {_size(total)}",
                details={"free_bytes": free, "total_bytes": total},
            )
    for name, works in sorted(facts.channels.items()):
        if not works:
            yield Problem(
                kind="wakeups_down",
                severity="bad",
                subject=Subject("store", name),
                text="does not wake this process, which finds new work only by polling",
                details={"channel": name, "node": facts.node},
            )
    if facts.skew:
        direction = "ahead of" if facts.skew > 0 else "behind"
        yield Problem(
            kind="clock_skew",
            severity="warn",
            subject=Subject("store", "store"),
            text=f"disagrees about the time: the clock of this machine is {span_text(abs(facts.skew))} {direction} it",
            evidence="due times and leases follow the clock of the store",
            details={"seconds": round(facts.skew, 3), "node": facts.node},
        )
    for loop in facts.loops:
        if loop.seconds >= FAILS_FOR:
            yield Problem(
                kind="failing_loop",
                severity="bad",
                subject=Subject("worker", "this process", facts.node),
                text=f"has failed in {loop.name} for {span_text(loop.seconds)}",
                evidence=loop.error,
                since=to_datetime(facts.now - round(loop.seconds * SECOND)),
                details={"loop": loop.name, "seconds": round(loop.seconds, 3)},
            )


# --- the rest


def _bulk_evidence(bulk: BulkRow) -> str:
    refused = f", {bulk.refused:,} refused" if bulk.refused else ""
    return f"{bulk.done:,} of {bulk.total:,} handled{refused}{f'; {bulk.reason}' if bulk.reason else ''}"


def command_problems(facts: Facts) -> Iterator[Problem]:
    for bulk in facts.bulks:
        if bulk.state == "stopped" and facts.now - (bulk.finished or bulk.created) < NEW_FOR:
            yield Problem(
                kind="stopped_bulk",
                severity="warn",
                subject=Subject("bulk", f"{bulk.action} of {bulk.total:,} {bulk.target}", bulk.id),
                text="was stopped by its probe" if bulk.probe else "was stopped",
                evidence=_bulk_evidence(bulk),
                since=to_datetime(bulk.finished or bulk.created),
                count=bulk.total,
                fix="open_bulk",
                details={"action": bulk.action, "target": bulk.target, "done": bulk.done, "refused": bulk.refused},
            )
    for backfill in facts.backfills:
        if backfill.state in ("failed", "partial") and facts.now - (backfill.finished or backfill.created) < NEW_FOR:
            yield Problem(
                kind="failed_backfill",
                severity="warn",
                subject=Subject("backfill", f"backfill of {backfill.job}", backfill.id),
                text="ended with failed windows",
                evidence=f"{backfill.failed:,} of {backfill.total:,} windows failed",
                since=to_datetime(backfill.finished or backfill.created),
                count=backfill.failed,
                fix="open_backfill",
                details={"job": backfill.job, "state": backfill.state, "failed": backfill.failed},
            )
    yield from webhook_problems(facts)
    for job, applications in facts.conflicts.items():
        yield Problem(
            kind="job_conflict",
            severity="warn",
            subject=Subject("job", job),
            text="is declared with different code by several applications",
            evidence=", ".join(applications),
            count=len(applications),
            fix="open_job",
            details={"applications": list(applications)},
        )


def webhook_problems(facts: Facts) -> Iterator[Problem]:
    for webhook in facts.webhooks:
        subject = Subject("webhook", webhook.name, webhook.id)
        if webhook.gave_up:
            yield Problem(
                kind="disabled_webhook",
                severity="warn",
                subject=subject,
                text="was disabled because its receiver failed",
                evidence=webhook.reason or "",
                since=maybe_datetime(webhook.since),
                fix="enable_webhook",
            )
        elif webhook.since is not None and facts.now - webhook.since > DELIVERIES_FAIL_FOR:
            yield Problem(
                kind="failing_webhook",
                severity="warn",
                subject=subject,
                text=f"has received nothing for {_age(webhook.since, facts.now)}",
                evidence="every delivery since then has failed; each delivery is retried, and given up in the end",
                since=to_datetime(webhook.since),
                fix="open_webhook",
            )


RULES: tuple[Callable[[Facts], Iterator[Problem]], ...] = (
    error_problems,
    late_problems,
    queue_problems,
    run_problems,
    worker_problems,
    store_problems,
    command_problems,
)


# --- words


def span_text(seconds: float) -> str:
    """A span of time in its two largest units.

    >>> span_text(11_520), span_text(840.4), span_text(0.25), span_text(5), span_text(183_600)
    ('3 h 12 min', '14 min', '0.2 s', '5 s', '2 d 3 h')
    """
    if seconds < 10:
        return f"{round(max(0.0, seconds), 1):g} s"
    left = round(seconds) if seconds < 600 else round(seconds / 60) * 60
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    first = next(place for place, (_, size) in enumerate(units) if left >= size)
    words = []
    for name, size in units[first : first + 2]:
        count, left = divmod(left, size)
        words += [f"{count:,} {name}"] if count else []
    return " ".join(words)


def _age(since: Micros, now: Micros) -> str:
    return span_text((now - since) / SECOND)


def _clock(at: Micros, tz: str, now: Micros) -> str:
    """A time in the zone of a job, with its date unless that is today."""
    zone = known_zone(tz)
    then, today = to_datetime(at).astimezone(zone), to_datetime(now).astimezone(zone)
    return f"{then:%H:%M} {tz}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M} {tz}"


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
