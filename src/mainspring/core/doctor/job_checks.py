"""Checks of jobs, stored or declared: schedules that cannot work, forgotten pauses, secrets in the open."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from ...model.time.instants import SECOND, Micros, to_datetime, to_micros
from ...model.triggers import Spread
from ...model.values.reading import SYSTEM_PREFIX, duration_text
from ..rules.opening_hours import next_open_run
from ..rules.problems import span_text
from ..rules.secret_params import is_secret
from .examination import Check, Found
from .facts import JobFacts, JobsFacts, LiveFacts

CROWD = 25
"""So many jobs at the same second are worth spreading."""
LEAST_RUNS = 3
FORGOTTEN: Micros = 7 * 86_400 * SECOND
MUCH_HISTORY = 1_000_000
LONG_RETENTION = 365.0
"""Days."""
HISTORY = ("history", "mainspring_executions", "executions")
"""The tables of finished executions, as the stores call them."""
SECRET_NAME = re.compile(r"(^|_)(password|passwd|secret|token|api_?key|private_?key|credentials?)$", re.IGNORECASE)
SECRET_VALUE = re.compile(
    r"^(AKIA[0-9A-Z]{16}|gh[pousr]_\w{30,}|xox[abprs]-[\w-]{10,}|sk_(live|test)_\w{16,}|sk-[\w-]{20,}|eyJ[\w-]{10,}\.eyJ.*"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*)",
    re.DOTALL,
)


def unreadable(jobs: JobsFacts) -> Iterator[Found]:
    for name, zone in jobs.unreadable:
        yield Found(f"job {name} cannot be read by this release (zone {zone!r})")


def never_runs(jobs: JobsFacts) -> Iterator[Found]:
    now = to_datetime(jobs.now)
    for each in jobs.jobs:
        job = each.job
        if not job.ticking or job.trigger is None or job.trigger.fixed_delay:
            continue
        tick = job.trigger.next_after(now)
        if tick is None:
            if job.last_tick is None and job.trigger.only_tick_micros() is None:
                yield Found(f"job {job.name} never runs: {job.trigger.describe()} has no time in the next 50 years")
        elif (
            job.hours is not None and next_open_run(job.with_changes(next_run=to_micros(tick)), jobs.calendars) is None
        ):
            yield Found(f"job {job.name} never runs: its hours are closed whenever it is due")


def past_once(jobs: JobsFacts) -> Iterator[Found]:
    for each in jobs.jobs:
        job = each.job
        only = None if job.trigger is None else job.trigger.only_tick_micros()
        if job.ticking and only is not None and only < job.created and job.last_tick is None:
            yield Found(f"job {job.name} was due once, before it was declared: {to_datetime(only):%Y-%m-%d %H:%M} UTC")


def overlaps(jobs: JobsFacts) -> Iterator[Found]:
    now = to_datetime(jobs.now)
    for each in jobs.jobs:
        trigger, spec = each.job.trigger, each.job.spec
        if not each.job.ticking or trigger is None or trigger.fixed_delay or each.runs < LEAST_RUNS:
            continue
        period, taken = trigger.period(now), (each.average_ms or 0.0) / 1000
        if period is not None and taken > period:
            effect = {"allow": "runs pile up", "skip": "ticks are skipped"}.get(spec.overlap, "runs queue up")
            usual = f"takes {span_text(taken)} on average and is due every {span_text(period)}"
            yield Found(f"job {each.job.name} {usual}: {effect}")


def crowds(jobs: JobsFacts) -> Iterator[Found]:
    seconds: defaultdict[int, list[str]] = defaultdict(list)
    for each in jobs.jobs:
        if each.job.ticking and each.job.next_run is not None and not isinstance(each.job.trigger, Spread):
            seconds[each.job.next_run // SECOND].append(each.job.name)
    second, names = max(seconds.items(), key=lambda item: len(item[1]), default=(0, []))
    if len(names) >= CROWD:
        yield Found(
            f"{len(names):,} jobs are due at the same second, {to_datetime(second * SECOND):%Y-%m-%d %H:%M:%S} UTC"
        )


def timeouts(jobs: JobsFacts) -> Iterator[Found]:
    for each in jobs.jobs:
        spec = each.job.spec
        if spec.timeout is not None and spec.run_timeout is not None and spec.timeout > spec.run_timeout:
            one, whole = duration_text(spec.timeout), duration_text(spec.run_timeout)
            yield Found(f"job {each.job.name}: an attempt may take {one} (timeout), the run only {whole} (run_timeout)")


def slow_jobs(jobs: JobsFacts) -> Iterator[Found]:
    for each in jobs.jobs:
        timeout, taken = each.job.spec.timeout, (each.average_ms or 0.0) / 1000
        if timeout is not None and each.runs >= LEAST_RUNS and taken > 0.9 * timeout:
            yield Found(
                f"job {each.job.name} takes {span_text(taken)} on average; its timeout is {duration_text(timeout)}"
            )


def forgotten_pauses(jobs: JobsFacts) -> Iterator[Found]:
    for each in jobs.jobs:
        job = each.job
        if job.paused is not None and job.resume is None and jobs.now - job.paused > FORGOTTEN:
            by = f" by {job.paused_by}" if job.paused_by else ""
            age = span_text((jobs.now - job.paused) / SECOND)
            yield Found(f"job {job.name} has been paused{by} for {age}", f"mainspring jobs resume {job.name}")


def orphans(jobs: JobsFacts, live: LiveFacts) -> Iterator[Found]:
    living = live.problems.living
    declared = {name for worker in living for name in worker.declares} | (jobs.declared or frozenset())
    if not living and jobs.declared is None:
        return
    for each in jobs.jobs:
        if each.job.origin == "code" and each.job.name not in declared and not each.job.name.startswith(SYSTEM_PREFIX):
            yield Found(
                f"job {each.job.name} is declared by no running process", f"mainspring jobs remove {each.job.name}"
            )


def secrets(jobs: JobsFacts) -> Iterator[Found]:
    for each in jobs.jobs:
        spec = each.job.spec
        for path, value in _texts(spec.params):
            looks = SECRET_NAME.search(path.rpartition(".")[2]) or SECRET_VALUE.match(value)
            if looks and value and not is_secret(path, spec.secret):
                words = f"the parameter {path!r} looks like a secret, and everyone who sees the job can read it"
                yield Found(f"job {each.job.name}: {words}")


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text inside parameters, by its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, path)


def long_history(jobs: JobsFacts, live: LiveFacts) -> Iterator[Found]:
    rows = sum(part.rows for part in live.size.parts if part.name in HISTORY)
    kept = [each.job.name for each in jobs.jobs if _longest(each) > LONG_RETENTION]
    if rows > MUCH_HISTORY and kept:
        yield Found(f"the history has {rows:,} executions, and {len(kept)} jobs keep theirs for years ({kept[0]})")


def _longest(each: JobFacts) -> float:
    retention = each.job.spec.retention
    return max(retention.days, *retention.by_state.values(), 0.0)


CHECKS = (
    Check(
        "job_unreadable",
        "jobs",
        "stored jobs that this release cannot read, such as one with an unknown time zone",
        "error",
        "Update the time zone data or Mainspring here, or correct the job: mainspring jobs edit JOB --timezone ZONE",
        ("jobs",),
        unreadable,
    ),
    Check(
        "schedule_never",
        "jobs",
        "schedules that never fire: impossible dates, hours that are always closed",
        "error",
        "Correct the schedule, its calendar or its hours: mainspring simulate MODULE:APP --job JOB shows it",
        ("jobs",),
        never_runs,
    ),
    Check(
        "schedule_past",
        "jobs",
        "jobs whose only run was due before they were created",
        "warning",
        "Correct the date, or run it now: mainspring jobs trigger JOB",
        ("jobs",),
        past_once,
    ),
    Check(
        "schedule_overlaps",
        "jobs",
        "jobs that take longer than the time between two of their runs",
        "warning",
        "Run it less often, pause between runs (every(..., delay=True)), or make it faster",
        ("jobs",),
        overlaps,
    ),
    Check(
        "schedule_crowd",
        "jobs",
        f"{CROWD} or more jobs that are due in the same second",
        "note",
        'Spread them: cron("0 0 * * *").spread("10m")',
        ("jobs",),
        crowds,
    ),
    Check(
        "timeout_too_long",
        "jobs",
        "a timeout above the run_timeout",
        "warning",
        "Raise run_timeout, or lower timeout",
        ("jobs",),
        timeouts,
    ),
    Check(
        "timeout_too_short",
        "jobs",
        "runs that take nearly as long as their timeout",
        "warning",
        "Raise the timeout before it ends good runs",
        ("jobs",),
        slow_jobs,
    ),
    Check(
        "job_pause_forgotten",
        "jobs",
        "jobs that have been paused for more than a week and have no end set",
        "warning",
        "Resume it, or disable it in code",
        ("jobs",),
        forgotten_pauses,
    ),
    Check(
        "job_orphaned",
        "jobs",
        "jobs of code that no running process declares any more",
        "warning",
        "Deploy its code again, or delete it: mainspring jobs remove JOB",
        ("jobs", "live"),
        orphans,
    ),
    Check(
        "secret_in_params",
        "jobs",
        "parameters that look like keys or passwords and are not declared secret",
        "warning",
        'Declare it: secret=("NAME",). Better: read it from the environment inside the handler',
        ("jobs",),
        secrets,
    ),
    Check(
        "history_endless",
        "jobs",
        "a large history, and jobs that keep theirs for years",
        "warning",
        "Set retention=Retention(days=30) for them, or archive and delete",
        ("jobs", "live"),
        long_history,
    ),
)
