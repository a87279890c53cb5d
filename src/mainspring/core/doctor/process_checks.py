"""Checks of what runs on the database: processes, queues, handlers, clocks, tokens, webhooks. Where
`core/rules/problems.py` has a rule already, its findings are taken over: there is one rule for each fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TypeAlias

from ...model.time.instants import SECOND, Micros, to_datetime
from ...model.values.reading import duration_text
from ..deploys.records import conflict_words
from ..monitoring.queues import serves
from ..rules import problems
from ..rules.problem_facts import Facts
from ..rules.problems import Problem, ProblemKind, span_text
from .examination import Check, Found
from .facts import JobsFacts, LiveFacts

SOON = timedelta(days=14)
FORGOTTEN: Micros = 7 * 86_400 * SECOND
"""How long a pause may last before somebody should be asked about it."""
NAMED = 5

Rule: TypeAlias = Callable[[Facts], Iterator[Problem]]


def problems_of(kind: ProblemKind, rule: Rule, *, running: bool = False) -> Callable[[LiveFacts], Iterator[Found]]:
    """The check that reports the problems of this kind; with `running`, only while at least one process runs."""

    def find(live: LiveFacts) -> Iterator[Found]:
        if live.problems.living or not running:
            yield from (Found(_sentence(each)) for each in rule(live.problems) if each.kind == kind)

    return find


def _sentence(problem: Problem) -> str:
    subject = "the store" if problem.subject.kind == "store" else f"{problem.subject.kind} {problem.subject.name}"
    evidence = f" ({problem.evidence})" if problem.evidence else ""
    return f"{subject} {problem.text}{evidence}"


def nothing_runs(live: LiveFacts) -> Iterator[Found]:
    if not live.problems.living and (live.problems.has_schedules or any(queue.ready for queue in live.problems.queues)):
        yield Found("no process runs, although jobs have schedules or work is waiting")


def conflicts(live: LiveFacts) -> Iterator[Found]:
    for conflict in live.conflicts:
        yield Found(f"job {conflict.job}: {conflict_words(conflict.declarers)}")


def different_leases(live: LiveFacts) -> Iterator[Found]:
    leases = sorted({worker.lease for worker in live.problems.living if worker.lease and worker.roles})
    if len(leases) > 1:
        words = ", ".join(duration_text(lease) for lease in leases[:NAMED])
        yield Found(f"running processes have different leases: {words}")


def different_releases(live: LiveFacts) -> Iterator[Found]:
    versions = sorted({worker.version for worker in live.problems.living if worker.version})
    if len(versions) > 1:
        yield Found(f"running processes have different releases of Mainspring: {', '.join(versions[:NAMED])}")


def unserved_queues(live: LiveFacts, jobs: JobsFacts) -> Iterator[Found]:
    living = [worker for worker in live.problems.living if "worker" in worker.roles]
    for queue in sorted({each.job.spec.queue for each in jobs.jobs}) if living else ():
        if any(serves(worker, queue) for worker in living):
            continue
        names = sorted(each.job.name for each in jobs.jobs if each.job.spec.queue == queue)
        yield Found(f"no running worker takes from queue {queue!r} ({_some(names)})")


def missing_handlers(live: LiveFacts, jobs: JobsFacts) -> Iterator[Found]:
    living = [worker for worker in live.problems.living if "worker" in worker.roles]
    has = {handler for worker in living for handler in worker.handlers}
    for handler in sorted({each.job.spec.handler for each in jobs.jobs} - has) if living else ():
        names = sorted(each.job.name for each in jobs.jobs if each.job.spec.handler == handler)
        yield Found(f"no running worker has the handler {handler!r} ({_some(names)})")


def forgotten_pauses(live: LiveFacts) -> Iterator[Found]:
    for (subject, name), control in sorted(live.paused.items()):
        if control.paused is not None and control.until is None and live.now - control.paused > FORGOTTEN:
            verb = "drained" if subject == "worker" else "paused"
            age = span_text((live.now - control.paused) / SECOND)
            by = f" by {control.by}" if control.by else ""
            action = "undrain" if subject == "worker" else "resume"
            yield Found(
                f"{subject} {name} has been {verb}{by} for {age}",
                f"mainspring {subject}s {action} {name}, or pause it with an end (--until)",
            )


def endless_tokens(live: LiveFacts) -> Iterator[Found]:
    """A token is called as audit records call it, so that viewers of the dashboard do not read its name."""
    for token in live.tokens:
        if token.status == "active" and token.expires_at is None:
            yield Found(
                f"token:{token.name}/{token.id}, which has the role {token.role}, never expires",
                f"Make a new one with --expires 90d, then: mainspring token revoke {token.id}",
            )


def expiring_tokens(live: LiveFacts) -> Iterator[Found]:
    now = to_datetime(live.now)
    for token in live.tokens:
        if token.status == "active" and token.expires_at is not None and token.expires_at - now < SOON:
            left = span_text((token.expires_at - now).total_seconds())
            yield Found(f"the {token.role} token {token.name!r} expires in {left}")


def muted_errors(live: LiveFacts) -> Iterator[Found]:
    now = to_datetime(live.now)
    for group in live.muted:
        mute = group.mute
        if mute is not None and mute.until is None and now - mute.at > timedelta(microseconds=FORGOTTEN):
            yield Found(
                f"the error {group.short_type} of {_some([each.name for each in group.jobs])} is muted without end",
                f"mainspring errors show {group.id}; unmute it, or mute it with --until",
            )


def _some(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


CHECKS = (
    Check(
        "nothing_runs",
        "processes",
        "schedules or waiting work while no process is running",
        "warning",
        "Start one: mainspring run MODULE:APP",
        ("live",),
        nothing_runs,
    ),
    Check(
        "no_scheduler",
        "processes",
        "schedules while no running process has the role scheduler",
        "error",
        "Start a process with the role scheduler: mainspring run MODULE:APP",
        ("live",),
        problems_of("no_scheduler", problems.worker_problems, running=True),
    ),
    Check(
        "no_worker",
        "processes",
        "waiting work in a queue that no running worker serves",
        "error",
        "Start a worker for that queue: mainspring worker MODULE:APP --queues QUEUE",
        ("live",),
        problems_of("no_worker", problems.queue_problems, running=True),
    ),
    Check(
        "no_handler",
        "processes",
        "waiting work whose handler no running worker has",
        "error",
        "Deploy the code of that handler, or cancel its executions",
        ("live",),
        problems_of("no_handler", problems.queue_problems, running=True),
    ),
    Check(
        "queue_unserved",
        "processes",
        "jobs of a queue that no running worker serves",
        "warning",
        "Add the queue to the setting queues of a worker",
        ("live", "jobs"),
        unserved_queues,
    ),
    Check(
        "handler_missing",
        "processes",
        "jobs whose handler no running worker has",
        "warning",
        "Deploy the code of that handler, or delete the job: mainspring jobs remove JOB",
        ("live", "jobs"),
        missing_handlers,
    ),
    Check(
        "silent_worker",
        "processes",
        "processes that neither stopped nor send heartbeats",
        "warning",
        "Check that machine; other workers take over its executions when their leases expire",
        ("live",),
        problems_of("silent_worker", problems.worker_problems),
    ),
    Check(
        "pause_forgotten",
        "processes",
        "queues, handlers and workers that have been paused for more than a week",
        "warning",
        "Resume it, or pause it with an end",
        ("live",),
        forgotten_pauses,
    ),
    Check(
        "job_declared_twice",
        "processes",
        "jobs that several running applications declare with different code",
        "error",
        "Give each application a schema, a prefix or a file of its own",
        ("live",),
        conflicts,
    ),
    Check(
        "releases_mixed",
        "processes",
        "releases of an application that have run side by side for long",
        "warning",
        "Finish the deploy: mainspring changes --since 1d shows who started what",
        ("live",),
        problems_of("mixed_releases", problems.worker_problems),
    ),
    Check(
        "mainspring_mixed",
        "processes",
        "processes with different releases of Mainspring",
        "warning",
        "Install the same release everywhere; two neighbouring releases may share a database during a deploy",
        ("live",),
        different_releases,
    ),
    Check(
        "leases_differ",
        "processes",
        "processes with different leases",
        "warning",
        "Set the same lease for all processes of a database",
        ("live",),
        different_leases,
    ),
    Check(
        "clock_skew",
        "processes",
        "whether the clocks of this machine and of the database agree",
        "warning",
        "Let NTP set the clocks of both machines",
        ("live",),
        problems_of("clock_skew", problems.store_problems),
    ),
    Check(
        "wakeups_down",
        "processes",
        "wake-ups that do not arrive in this process",
        "error",
        "Check the connection; behind a pooler, add listen_url to the address",
        ("live",),
        problems_of("wakeups_down", problems.store_problems),
    ),
    Check(
        "loop_failing",
        "processes",
        "loops of this process that fail",
        "error",
        "Read its log; the loop continues by itself once the cause is gone",
        ("live",),
        problems_of("failing_loop", problems.store_problems),
    ),
    Check(
        "webhook_disabled",
        "processes",
        "endpoints of webhooks that were disabled because their receiver failed",
        "warning",
        "Fix the receiver, then run: mainspring webhooks enable ID",
        ("live",),
        problems_of("disabled_webhook", problems.webhook_problems),
    ),
    Check(
        "webhook_failing",
        "processes",
        "endpoints of webhooks to which every delivery fails",
        "warning",
        "mainspring webhooks deliveries ID shows the answers; fix the receiver or correct its address",
        ("live",),
        problems_of("failing_webhook", problems.webhook_problems),
    ),
    Check(
        "token_endless",
        "access",
        "API tokens that never expire",
        "warning",
        "Create a new one with --expires, and revoke this one",
        ("live",),
        endless_tokens,
    ),
    Check(
        "token_expires",
        "access",
        "API tokens that expire within two weeks",
        "warning",
        "Create a new one and distribute it: mainspring token create NAME --role ROLE --expires 90d",
        ("live",),
        expiring_tokens,
    ),
    Check(
        "error_muted",
        "jobs",
        "errors that have been muted for more than a week and have no end set",
        "note",
        "Unmute it, or mute it with --until",
        ("live",),
        muted_errors,
    ),
)
