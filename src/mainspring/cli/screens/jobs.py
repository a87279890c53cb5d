"""Screens of jobs: the list, and one in full."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...core.deploys.records import SEPARATE, conflict_words
from ...core.render.masking import masked, shown_params
from ...core.rules.secret_params import mask_fields
from ...core.rules.stopping import stop_text
from ...core.views.job import JobTotals, JobView, job_of
from ...model.job import JobSpec
from ...model.limits import Limit
from ...model.policies import CatchUp, MissedRule, Retention, Retry, as_catch_up
from ...model.values.reading import duration_text, size_text, zone
from ...model.windows import window_words
from ..terminal import echo
from .output import (
    compact,
    first_line,
    local_zone,
    moment,
    moment_in,
    note,
    now,
    print_fields,
    status,
    took,
    without_distance,
)
from .table import Column, print_table

_RUNS_IN = {None: "the event loop", "thread": "a thread", "process": "a child process"}
_OUTSIDE = {"skip": "skips its ticks", "wait": "waits, once, for the next opening"}


def print_jobs(found: Sequence[JobView], any_jobs: bool, any_process: bool) -> None:
    if not found:
        echo(
            "No job matches." if any_jobs else "No jobs yet: they appear when an application that declares jobs starts."
        )
        return
    at = now()
    columns = [
        Column("JOB", lambda view: view.name),
        Column("STATUS", lambda view: status(view.state.value)),
        Column("LAST", lambda view: status(view.last_status)),
        Column(f"NEXT RUN ({local_zone(at)})", lambda view: moment(view.next_run_at, at), "keep", without_distance),
        Column("SCHEDULE", lambda view: _schedule_cell(view, any_process), "cut", readable=24),
        Column("PAUSED", lambda view: _pause_cell(view, at), "last", readable=36),
        Column("LAST RUN", lambda view: moment(view.last_run_at, at), "drop", without_distance),
        Column("RUNS", lambda view: f"{view.stats.total:,}", "drop", right=True),
        Column("FAILED", lambda view: f"{view.stats.failed:,}", "drop", right=True),
        Column("QUEUE", lambda view: view.queue, "drop"),
        *([Column("OWNER", lambda view: view.owner or "", "drop")] if any(view.owner for view in found) else []),
    ]
    print_table(columns, found)
    if not any_process:
        echo(err=True)
        note("No process is running, so nothing runs. Start one with: mainspring run MODULE:APP")


def _schedule_cell(view: JobView, any_process: bool) -> str:
    """With its zone, where the reader's clock shows another time. `(disabled)` comes first, because long schedules are
    cut."""
    words, at = view.description_of_schedule, now()
    if view.schedule and not view.schedule.startswith("@every") and f"({view.tz}" not in words:
        there = at.astimezone(zone("tz", view.tz, warn=False))
        words += "" if there.utcoffset() == at.astimezone().utcoffset() else f" ({view.tz})"
    words = words if view.enabled else f"(disabled) {words}"
    return words + (" (orphaned)" if view.orphaned and any_process else "")


def _pause_cell(view: JobView, at: datetime) -> str:
    if not view.is_paused:
        return ""
    until = f", until {without_distance(moment(view.resume_at, at))}" if view.resume_at else ""
    return f"by {view.paused_by or 'an unknown user'}{until}{f': {view.pause_note}' if view.pause_note else ''}"


def closed_text(view: JobView, at: datetime) -> str | None:
    """Until when a job is closed, and by what; None while it is open."""
    found = view.closing
    if found is None:
        return None
    until = "for years to come" if found.until is None else f"until {moment_in(found.until, at, view.tz)}"
    return f"{until}, by {found.by}"


def print_steered(view: JobView) -> None:
    """What a command such as pause has changed: the state of the job, not its whole description."""
    at = now()
    print_fields(
        {
            "job": view.name,
            "status": status(view.state.value),
            "paused": _pause_text(view, at) if view.is_paused else None,
            "next run": _next_run(view, at),
            "occurrences": _occurrences_text(view, at) if view.occurrences else None,
            "alive": _alive(view),
            "cancelled": moment(view.cancelled_at, at) if view.cancelled_at else None,
        }
    )


def print_job(view: JobView) -> None:
    at, stats, spec = now(), view.stats, job_of(view).spec
    rate = stats.success_rate
    overrides = mask_fields(masked(view.overrides), view.secret)
    print_fields(
        {
            "job": view.name,
            "description": spec.description,
            "status": status(view.state.value),
            "handler": view.handler,
            "queue": view.queue,
            "priority": str(spec.priority),
            "schedule": _schedule_text(view),
            "after": after_text(spec),
            "dependents": ", ".join(view.dependents),
            "zone": spec.tz,
            "window": None if spec.window is None else window_words(spec.window),
            "hours": view.hours and f"{view.hours}; outside it {_OUTSIDE[spec.outside]}",
            "closed": closed_text(view, at),
            "next run": _next_run(view, at),
            "last run": moment(view.last_run_at, at) if view.last_run_at else None,
            "last status": status(view.last_status) if view.last_status else None,
            "last error": first_line(view.error_message),
            "alive": _alive(view),
            "runs": runs_text(stats),
            "success rate": None if rate is None else f"{rate:.1%}",
            "average": None if stats.average_duration_ms is None else took(stats.average_duration_ms),
            **_policy(spec),
            "params": compact(shown_params(view)),
            "metadata": compact(view.metadata),
            "owner": view.owner,
            "tags": ", ".join(view.tags) or None,
            "paused": _pause_text(view, at) if view.is_paused else None,
            "occurrences": _occurrences_text(view, at) if view.occurrences else None,
            "cancelled": moment(view.cancelled_at, at) if view.cancelled_at else None,
            "changed": f"{compact(overrides)} by operators, against the code" if overrides else None,
            "conflict": f"{conflict_words(view.conflict)}; {SEPARATE}" if view.conflict else None,
            "orphaned": "no running process declares this job" if view.orphaned else None,
            "created": moment(view.created_at, at),
        }
    )


def _schedule_text(view: JobView) -> str | None:
    """None for a job without a schedule that comes after others: the next field names them."""
    if view.schedule:
        return f"{view.description_of_schedule}  [{view.schedule}]"
    return None if view.after else view.description_of_schedule


def runs_text(stats: JobTotals) -> str:
    """How many runs, and what became of each of them.

    >>> from mainspring.model.job import JobStats
    >>> runs_text(JobTotals(JobStats(job_id="x", completed=3, cancelled=1, skipped=2)))
    '4 (3 completed, 1 cancelled); 2 skipped'
    """
    kinds = {
        "completed": stats.completed,
        "partial": stats.partial,
        "failed": stats.failed,
        "cancelled": stats.cancelled,
    }
    parts = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    return f"{stats.total}{f' ({parts})' if parts else ''}{f'; {stats.skipped} skipped' if stats.skipped else ''}"


def _policy(spec: JobSpec) -> dict[str, str | None]:
    limit = f", at most {spec.overlap_limit} at once" if spec.overlap_limit else ""
    scheduled = spec.trigger is not None
    grace = "one period, at most 1m" if spec.grace is None else _duration(spec.grace)
    return {
        "max attempts": str(spec.max_attempts),
        "retry": retry_text(spec.retry) if spec.max_attempts > 1 else None,
        "not retried": ", ".join(spec.non_retryable),
        "timeout": "none" if spec.timeout is None else _duration(spec.timeout),
        "runs in": _RUNS_IN[spec.isolation],
        "stopping": stop_text(spec.isolation),
        **_process_limits(spec),
        "overlap": spec.overlap + limit,
        "limits": ", ".join(map(_limit_text, spec.limits)),
        "weights": ", ".join(f"{tenant} {weight}" for tenant, weight in sorted(spec.weights.items())),
        "tenants": tenants_text(spec),
        "missed": f"{missed_text(spec.missed)}; {missed_text(spec.missed_while_paused)} while paused"
        if scheduled
        else None,
        "grace": grace if scheduled else None,
        "retention": _retention_text(spec.retention),
        "enabled": None if spec.enabled else "no: its schedule is switched off",
    }


def _process_limits(spec: JobSpec) -> dict[str, str | None]:
    if spec.isolation != "process":
        return {}
    limits = {
        "processor time": None if spec.max_cpu is None else _duration(spec.max_cpu),
        "memory": None if spec.max_memory is None else size_text(spec.max_memory),
        "address space": None if spec.max_address_space is None else size_text(spec.max_address_space),
    }
    return {name: text and f"at most {text}" for name, text in limits.items()}


def tenants_text(spec: JobSpec) -> str | None:
    """How its tenants run, if it has any.

    >>> tenants_text(JobSpec(handler="x", tenants=True, tenant_concurrency=5, tenant_max_attempts=1))
    'one execution for each; 1 attempt, 5 at once, a failure stops no other'
    """
    if not spec.tenants:
        return None
    attempts = f"{spec.tenant_max_attempts} attempt{'s' if spec.tenant_max_attempts > 1 else ''}"
    again = f" ({retry_text(spec.tenant_retry)})" if spec.tenant_max_attempts > 1 else ""
    most = f", {spec.tenant_concurrency} at once" if spec.tenant_concurrency else ""
    stops = "a failure stops no other" if spec.continue_on_failure else "a failure cancels those that have not started"
    return f"one execution for each; {attempts}{again}{most}, {stops}"


def after_text(spec: JobSpec) -> str | None:
    """The jobs that it comes after, and what that means.

    >>> after_text(JobSpec(handler="x", after=("load", "rates"), not_before="06:00:00"))
    'load and rates, not before 06:00; skipped if one of them did not complete'
    """
    if not spec.after:
        return None
    names = " and ".join(filter(None, (", ".join(spec.after[:-1]), spec.after[-1])))
    when = "" if spec.not_before is None else f", not before {spec.not_before.removesuffix(':00')}"
    which = "one of them" if len(spec.after) > 1 else "it"
    failed = f"skipped if {which} did not complete" if spec.on_failed_parent == "skip" else "however they end"
    return f"{names}{when}; {failed}"


def missed_text(rule: MissedRule | CatchUp) -> str:
    """What becomes of missed ticks.

    >>> missed_text("latest"), missed_text(CatchUp("all", max_age="7d", pace="10s"))
    ('latest', 'all, at most 100, 10s apart, none older than 7d')
    """
    limits = as_catch_up(rule)
    text: str = limits.rule
    if limits.rule == "all":
        text += f", at most {limits.max_runs}, {_duration(limits.seconds_between)} apart"
    return text if limits.age_limit is None else f"{text}, none older than {_duration(limits.age_limit)}"


def retry_text(retry: Retry) -> str:
    """The pauses between attempts.

    >>> retry_text(Retry("patient"))
    'after 1m, then 2 times as long each time, at most 1h'
    >>> retry_text(Retry(delays=["5s", "5m"]))
    'after 5s, 5m'
    """
    assert isinstance(retry.initial, float)
    multiplier = retry.multiplier or 1.0
    text = f"after {_duration(retry.initial)}"
    text += f", then {multiplier:g} times as long each time" if multiplier > 1 else ""
    text += f", at most {_duration(retry.max)}" if isinstance(retry.max, float) else ""
    if retry.delays:
        text = f"after {', '.join(_duration(each) for each in retry.delays if isinstance(each, float))}"
    return text + (f", give or take {retry.jitter:.0%}" if retry.jitter else "")


def _retention_text(retention: Retention) -> str:
    text = f"the newest {retention.newest}, and all of {_days(retention.days)}"
    text += f" (successes on demand {_days(retention.on_demand_success_days)}, skips {_days(retention.skipped_days)})"
    text += f", at most {retention.at_most}" if retention.at_most is not None else ""
    return text if retention.keep_success else f"{text}; successes are not kept"


def _pause_text(view: JobView, at: datetime) -> str:
    words = [moment(view.paused_at, at), f"by {view.paused_by}" if view.paused_by else "", view.pause_note or ""]
    words.append(f"resumes {moment(view.resume_at, at)}" if view.resume_at else "")
    return ", ".join(word for word in words if word)


def _alive(view: JobView) -> str:
    live = {"pending": view.live.pending, "running": view.live.running, "waiting": view.live.waiting}
    return ", ".join(f"{count} {name}" for name, count in live.items() if count)


def _next_run(view: JobView, at: datetime) -> str | None:
    """Also in the job's zone, if its schedule is one of the wall clock there."""
    if view.next_run_at is None:
        return None
    by_clock = view.schedule is not None and not view.schedule.startswith("@every")
    return moment_in(view.next_run_at, at, view.tz) if by_clock else moment(view.next_run_at, at)


def _occurrences_text(view: JobView, at: datetime) -> str:
    tz = view.tz
    return "; ".join(
        f"{moment_in(each.at, at, tz)} "
        + (f"moved to {moment_in(each.moved_to, at, tz)}" if each.moved_to else "skipped")
        + f" by {each.by}"
        for each in view.occurrences
    )


def _days(days: float) -> str:
    return f"{days:g} day{'' if days == 1 else 's'}"


def _duration(seconds: float) -> str:
    return duration_text(seconds) if seconds else "0s"


def _limit_text(limit: Limit) -> str:
    """One limit in words.

    >>> _limit_text(Limit("crawl:{tenant}", concurrency=3))
    '3 at once (crawl:{tenant})'
    """
    if limit.concurrency is not None:
        return f"{limit.concurrency} at once ({limit.key})"
    return f"{limit.per_second:g} a second, {limit.burst} at an instant ({limit.key})"
