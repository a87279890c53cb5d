"""Alert rules for Prometheus, generated from the jobs: thresholds follow from each job's schedule, its timeout and how
long its runs have taken so far.

Every process exposes the same totals, so rules take the maximum over processes; histograms are per process and are
summed. Instants are compared with the store's time at the reading, so that neither the scrape interval nor the clock of
Prometheus matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...core.monitoring.watchdog import WAIT_ON_DEMAND
from ...core.rules.ticks import grace
from ...model.job import Job
from ...model.time.instants import SECOND, Micros, to_datetime
from ...model.values.reading import duration_text
from .process_counters import DURATIONS
from .prometheus import escaped

SLACK = 5.0
LEAST_RUNS = 5
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
USUAL_PERIOD = 900.0
"""Assumed for a job without a schedule."""
UNSEEN = 30.0
"""Seconds without any process after which a job that is allowed to be less late has missed its schedule."""

_TOTAL, _DURATION = "job_execution_total", "job_execution_duration_seconds"
_READ, _UNMUTED = "mainspring_read_timestamp_seconds", "job_unmuted_failure_timestamp_seconds"
_NEXT, _OLDEST = "job_next_expected_timestamp_seconds", "job_oldest_running_start_timestamp_seconds"
_WAITING, _RUNNING = "job_oldest_waiting_timestamp_seconds", "job_currently_running"


class RecentDurations(msgspec.Struct, frozen=True):
    """How long the last successful attempts of a job took, in seconds."""

    seconds: tuple[float, ...] = ()

    @property
    def known(self) -> bool:
        return len(self.seconds) >= LEAST_RUNS

    @property
    def longest(self) -> float:
        return max(self.seconds)

    @property
    def usual(self) -> float:
        """The 95th percentile."""
        return sorted(self.seconds)[int(0.95 * (len(self.seconds) - 1))]


class AlertRule(msgspec.Struct, frozen=True, kw_only=True):
    alert: str
    expr: str
    severity: str
    summary: str
    description: str
    hold: float = 0.0
    """Seconds for which it must be true before it fires."""


def job_rules(job: Job, history: RecentDurations, now: Micros, slack: float = SLACK) -> list[AlertRule]:
    """`slack` is how many seconds a job may be late beyond its own rules."""
    period = _period(job, now)
    rules = [_failed(job, period), _too_long(job, history, period, slack)]
    if job.trigger is not None:
        rules.append(_missed(job, now, slack))
    return [*rules, _waiting(job, now, slack), _anomaly(job, history, period), _success_rate(job, period)]


def common_rules() -> list[AlertRule]:
    """The rules about all jobs together, and about Mainspring itself."""
    return [
        AlertRule(
            alert="JobStaleLocks",
            expr="max by (job_name) (increase(job_rescued_total[15m])) > 0 or min by (job_name) (job_stale_locks) > 0",
            severity="warning",
            summary="Workers of {{ $labels.job_name }} fell silent",
            description="Executions were taken back from workers that crashed, were killed or could not reach the "
            "store. They run again; see the log lines stale_lock_cleared.",
        ),
        AlertRule(
            alert="MainspringAbsent",
            expr="absent(mainspring_info)",
            hold=5 * MINUTE,
            severity="critical",
            summary="No process of Mainspring is scraped",
            description="No process has answered for five minutes, so the state of every job is unknown.",
        ),
        AlertRule(
            alert="MainspringWakeupChannelDown",
            expr="mainspring_wakeup_channel_up == 0",
            hold=5 * MINUTE,
            severity="warning",
            summary="{{ $labels.instance }} receives no wake-ups",
            description="It finds work only by polling, so later than it could.",
        ),
    ]


# --- one alert each ---------------------------------------------------------------------------------------------------


def _failed(job: Job, period: float) -> AlertRule:
    """Silent while all recent failures have muted errors; jobs without muted errors have no such series."""
    since, seconds = _within(period, 5 * MINUTE, DAY), min(max(period, 5 * MINUTE), DAY)
    return AlertRule(
        alert="JobExecutionFailed",
        expr=(
            f"max by (job_name) (increase({_TOTAL}{_of(job, status='failed')}[{since}])) > 0"
            f" unless on (job_name) time() - max by (job_name) ({_UNMUTED}{_of(job)}) > {_number(seconds)}"
        ),
        severity="warning",
        summary=f"Job {job.name} failed",
        description=f"An execution failed for good within the last {since}, with an error that is not muted.",
    )


def _too_long(job: Job, history: RecentDurations, period: float, slack: float) -> AlertRule:
    """The threshold is the job's timeout, else three times its longest recent run, else its period."""
    if job.spec.timeout is not None:
        limit, why = 1.1 * job.spec.timeout + 2 * slack, f"Its timeout is {_text(job.spec.timeout)}"
    elif history.known:
        limit, why = max(3 * history.longest, 2 * slack), f"So far it took {_text(history.longest)} at most"
    else:
        limit, why = max(period, 10 * MINUTE), "Its usual duration is not known yet"
    return AlertRule(
        alert="JobRunningTooLong",
        expr=f"{_age(_OLDEST, job)} > {_number(limit)}",
        severity="warning",
        summary=f"Job {job.name} has been running for {{{{ $value | humanizeDuration }}}}",
        description=f"{why}; this fires after {_text(limit)}.",
    )


def _missed(job: Job, now: Micros, slack: float) -> AlertRule:
    """A scraped process exposes when the next run is due. While no process is scraped, the last known value counts, and
    time goes on.

    A scrape that fails ends every series at once, so a single one must not look like an outage of a job that runs
    every few seconds: such a job has to be unseen for a while, unless it was late already when it was last seen."""
    trigger = job.trigger
    assert trigger is not None, "asked of jobs with a schedule"
    allowed = _allowed(job, now, slack)
    limit, last_known = _number(allowed), f"time() - max by (job_name) (last_over_time({_NEXT}{_of(job)}[1d]) > 0)"
    if allowed >= UNSEEN:
        overdue = f"{last_known} > {limit}"
    else:
        late_then = f"{_last_age(_NEXT, job)} > {limit}"
        overdue = f"({last_known} > {_number(UNSEEN)} or {last_known} > {limit} and on (job_name) {late_then})"
    return AlertRule(
        alert="JobMissedSchedule",
        expr=f"{_age(_NEXT, job)} > {limit} or ({overdue} unless on () count(mainspring_info))",
        severity="critical",
        summary=f"Job {job.name} has missed its schedule",
        description=f"It should have run {{{{ $value | humanizeDuration }}}} ago ({trigger.describe()}); "
        f"{_text(allowed)} are allowed. Is a scheduler running?",
    )


def _waiting(job: Job, now: Micros, slack: float) -> AlertRule:
    """Its ticks are planned and its work is queued, but nobody takes it. While something of it runs, the rest may be
    waiting for that."""
    allowed = _allowed(job, now, slack) if job.trigger is not None else WAIT_ON_DEMAND + slack
    return AlertRule(
        alert="JobWorkWaiting",
        expr=f"{_age(_WAITING, job)} > {_number(allowed)} "
        f"unless on (job_name) max by (job_name) ({_RUNNING}{_of(job)}) > 0",
        severity="critical",
        summary=f"Work of job {job.name} waits and no worker takes it",
        description=f"Its oldest execution has been due for {{{{ $value | humanizeDuration }}}}; {_text(allowed)} are "
        f"allowed, and none runs. Does a worker run its handler {job.spec.handler} and its queue {job.spec.queue}?",
    )


def _allowed(job: Job, now: Micros, slack: float) -> float:
    """How many seconds a run of a job with a schedule may be late."""
    plan = job.plan or job.trigger
    assert plan is not None, "asked of jobs with a schedule"
    return grace(job, plan, job.next_run or now) / SECOND + slack


def _anomaly(job: Job, history: RecentDurations, period: float) -> AlertRule:
    """Compare with the durations of the job's recent runs, or with the last week's where too few are known.

    A quantile of a histogram is only as good as its buckets: it may be anywhere in its bucket, and never lies above
    the last one. So the 95th percentile alone counts only beyond the bucket that three times the usual falls into.
    Within it the average decides, which is exact. A single slow run moves the average too, so the percentile must also
    have left its usual bucket."""
    since = _within(4 * period, 10 * MINUTE, 7 * DAY)
    quantile, average = _quantile(job, since), _average(job, since)
    if not history.known:
        expr, usual = f"{average} > 3 * {_average(job, '7d')}", "less than a third of that (average of the last 7 days)"
    else:
        expr, usual = f"{average} > {_number(3 * history.usual)}", f"{_text(history.usual)} at most"
        if (bound := _bucket(history.usual)) is not None:
            expr = f"{expr} and {quantile} > {_number(bound)}"
        if (bound := _bucket(3 * history.usual)) is not None:
            expr = f"{quantile} > {_number(bound)} or ({expr})"
    return AlertRule(
        alert="JobDurationAnomaly",
        expr=expr,
        severity="warning",
        summary=f"Job {job.name} takes much longer than usual",
        description=f"About {{{{ $value | humanizeDuration }}}} within the last {since}; usually it takes {usual}.",
    )


def _bucket(seconds: float) -> float | None:
    """The upper bound of this duration's bucket; None where no percentile could be measured beyond it."""
    return next((bound for bound in DURATIONS[:-1] if seconds <= bound), None)


def _success_rate(job: Job, period: float) -> AlertRule:
    since = _within(20 * period, HOUR, 7 * DAY)
    good = f"max by (job_name, trigger_type) (increase({_TOTAL}{_of(job, status='completed')}[{since}]))"
    ended = _of(job, "=~", status="completed|partial|failed")
    everything = f"max by (job_name, status, trigger_type) (increase({_TOTAL}{ended}[{since}]))"
    return AlertRule(
        alert="JobSuccessRateLow",
        expr=f"sum by (job_name) ({good}) / sum by (job_name) ({everything}) < 0.8",
        severity="warning",
        summary=f"Job {job.name} succeeds in {{{{ $value | humanizePercentage }}}} of its runs",
        description=f"Less than 80 % within the last {since}.",
    )


# --- PromQL -----------------------------------------------------------------------------------------------------------


def _of(job: Job, matches: str = "=", **labels: str) -> str:
    more = "".join(f',{name}{matches}"{value}"' for name, value in labels.items())
    return f'{{job_name="{escaped(job.name)}"{more}}}'


def _age(metric: str, job: Job) -> str:
    """How long ago that instant was when it was read: the smallest value of all processes."""
    return f"min by (job_name) ({_READ} - on (job, instance) group_right () ({metric}{_of(job)} > 0))"


def _last_age(metric: str, job: Job) -> str:
    """The same when it was last read, within a day: the largest value, because processes that ended before may have
    been on time."""
    read, instant = f"last_over_time({_READ}[1d])", f"last_over_time({metric}{_of(job)}[1d])"
    return f"max by (job_name) ({read} - on (job, instance) group_right () ({instant} > 0))"


def _quantile(job: Job, since: str) -> str:
    return f"histogram_quantile(0.95, sum by (job_name, le) (rate({_DURATION}_bucket{_of(job)}[{since}])))"


def _average(job: Job, since: str) -> str:
    total, count = (f"sum by (job_name) (rate({_DURATION}_{part}{_of(job)}[{since}]))" for part in ("sum", "count"))
    return f"{total} / {count}"


def _period(job: Job, now: Micros) -> float:
    period = None if job.plan is None else job.plan.period(to_datetime(job.next_run or now))
    return USUAL_PERIOD if period is None else period


def _within(seconds: float, least: float, most: float) -> str:
    return duration_text(round(min(max(seconds, least), most)))


def _number(value: float) -> str:
    return f"{value:.6g}"


def _text(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < MINUTE else duration_text(round(seconds))


# --- the file ---------------------------------------------------------------------------------------------------------


def rule_groups(jobs: Sequence[tuple[Job, RecentDurations]], now: Micros, slack: float = SLACK) -> dict[str, Any]:
    """The rules as Prometheus knows them: a group for each job, and one for what they share."""
    groups = [_group("mainspring", {}, common_rules())]
    for job, history in jobs:
        groups.append(_group(f"mainspring job {job.name}", {"job_name": job.name}, job_rules(job, history, now, slack)))
    return {"groups": groups}


def rules_file(jobs: Sequence[tuple[Job, RecentDurations]], now: Micros, slack: float = SLACK) -> str:
    """The same as a file of rules in YAML."""
    lines = ["groups:"]
    for group in rule_groups(jobs, now, slack)["groups"]:
        lines += [f"  - name: {_quoted(group['name'])}", "    rules:"]
        for rule in group["rules"]:
            lines += _written(rule)
    return "\n".join(lines) + "\n"


def _group(name: str, labels: Mapping[str, str], rules: Sequence[AlertRule]) -> dict[str, Any]:
    return {"name": name, "rules": [_rule(rule, labels) for rule in rules]}


def _rule(rule: AlertRule, labels: Mapping[str, str]) -> dict[str, Any]:
    hold = {"for": duration_text(rule.hold)} if rule.hold else {}
    annotations = {"summary": rule.summary, "description": rule.description}
    severity = {"severity": rule.severity, **labels}
    return {"alert": rule.alert, "expr": rule.expr, **hold, "labels": severity, "annotations": annotations}


def _written(rule: Mapping[str, Any]) -> Iterator[str]:
    yield f"      - alert: {rule['alert']}"
    yield f"        expr: {_quoted(rule['expr'])}"
    if "for" in rule:
        yield f"        for: {rule['for']}"
    for part in ("labels", "annotations"):
        yield f"        {part}:"
        for name, value in rule[part].items():
            yield f"          {name}: {_quoted(value)}"


def _quoted(text: str) -> str:
    """Quoted, so that YAML reads it as plain text."""
    return "'" + text.replace("'", "''") + "'"
