"""The page that Prometheus reads, in its text format. Names, labels and buckets are documented in docs/metrics.md.

Written without prometheus-client, which takes ten times as long: 5.1 s instead of 0.5 s for 10,000 jobs (740,000
lines). A scrape must not hold up the jobs of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice

from ...core.monitoring.metrics import JobReading, Reading
from ...core.views.queues import QueueView
from ...model.execution import State
from ...model.job import Job
from ...model.time.instants import SECOND, Micros
from .process_counters import Histogram, ProcessCounts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATUSES = tuple(state.value for state in State if state.final)
ANY_JOB = ("enqueue", "manual", "api", "retry")
"""Triggers of executions that any job may have."""
SCHEDULED, WINDOW, AFTER = ("schedule", "catch_up"), ("backfill",), ("dependency",)
"""Further triggers, of jobs with a schedule, with windows, and with `after`."""
ANY_SKIP = ("overlap",)
SKIPS, SKIPS_AFTER = ("missed", "occurrence"), ("dependency_failed", "paused", "disabled")
"""Reasons of skipped executions: of any job, of jobs with a schedule, and of jobs with `after`."""
AT_ONCE = 2_000
"""Lines written before other tasks get a turn."""


async def page(
    reading: Reading,
    counts: ProcessCounts,
    version: str,
    channels: Mapping[str, bool],
    queues: Sequence[tuple[QueueView, int]] = (),
) -> bytes:
    """`channels` are the ways in which other processes wake this one up, and whether each works. `queues` are all
    queues with the processes that each wants."""
    parts = chain(
        _left_out(reading),
        _of_store(reading),
        _of_queues(queues),
        _of_process(reading, counts),
        _of_mainspring(reading, version, channels),
    )
    encoded = []
    while lines := list(islice(parts, AT_ONCE)):
        encoded.append(("\n".join(lines) + "\n").encode())
        await asyncio.sleep(0)
    return b"".join(encoded)


def _left_out(reading: Reading) -> Iterator[str]:
    if reading.left_out:
        yield (
            f"# {reading.left_out} jobs have no series of their own: there are more than the setting metrics_jobs "
            "allows. Jobs that fail, are late or have most to do come first; queues are all here."
        )


# --- totals of the store: the same from every process ----------------------------------------------------------------


def _of_store(reading: Reading) -> Iterator[str]:
    jobs = [(f'job_name="{escaped(each.job.name)}"', each) for each in reading.jobs]
    yield from _head("job_execution_total", "counter", "Executions that ended, by status and trigger.")
    for label, each in jobs:
        for key, count in _totals(each).items():
            trigger, _, status = key.rpartition(":")
            yield f'job_execution_total{{{label},status="{status}",trigger_type="{escaped(trigger)}"}} {count}'
    yield from _head("job_rescued_total", "counter", "Executions taken back from workers without a heartbeat.")
    for label, each in jobs:
        yield f"job_rescued_total{{{label}}} {each.stats.rescued}"
    yield from _head("job_currently_running", "gauge", "Executions that run now.")
    for label, each in jobs:
        yield f"job_currently_running{{{label}}} {each.live.running}"
    yield from _head("job_queue_depth", "gauge", "Executions that are due and wait.")
    for label, each in jobs:
        yield f'job_queue_depth{{{label},queue="{escaped(each.job.spec.queue)}"}} {each.due}'
    yield from _head("job_queue_planned", "gauge", "Executions that are due later, retries among them.")
    for label, each in jobs:
        yield f'job_queue_planned{{{label},queue="{escaped(each.job.spec.queue)}"}} {each.live.pending - each.due}'
    yield from _head("job_stale_locks", "gauge", "Running executions whose lease has run out.")
    for label, each in jobs:
        yield f"job_stale_locks{{{label}}} {each.stale}"
    for name, what, text in _INSTANTS:
        full = f"job_{name}_timestamp_seconds"
        yield from _head(full, "gauge", f"{text} Seconds since 1970; 0: none.")
        for label, each in jobs:
            if what != "oldest_waiting" or each.waiting_read:
                yield f"{full}{{{label}}} {_seconds(getattr(each, what))}"

    yield from _head(
        "job_unmuted_failure_timestamp_seconds",
        "gauge",
        "For jobs with muted errors: when an execution last failed with an unmuted error. Seconds since 1970; 0: none.",
    )
    for name, at in sorted(reading.unmuted_failures.items()):
        yield f'job_unmuted_failure_timestamp_seconds{{job_name="{escaped(name)}"}} {_seconds(at or None)}'


_INSTANTS = (
    ("last_success", "last_success", "When an execution last succeeded."),
    ("next_expected", "next_expected", "When the next scheduled run is due; in the past when it is late."),
    ("oldest_running_start", "oldest_running", "When the oldest running attempt began."),
    ("oldest_waiting", "oldest_waiting", "Since when the oldest execution that is due has been waiting."),
)


def _totals(each: JobReading) -> dict[str, int]:
    """Every combination that this job can reach is present from the start: a counter that appears with the first
    failure would hide it from `increase`. Inline work may name any trigger, so those seen are added."""
    spec, seen = each.job.spec, each.stats.by_trigger
    triggers = dict.fromkeys((*ANY_JOB, *(key.rpartition(":")[0] for key in seen)))
    more = _for(each.job, SCHEDULED, AFTER) + (WINDOW if spec.window is not None else ())
    zeros = {f"{trigger}:{status}": 0 for trigger in (*triggers, *more) for status in STATUSES}
    return zeros | seen


def _for(job: Job, scheduled: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    """The first tuple for a job with a schedule, the second for a job with `after`."""
    return (scheduled if job.spec.trigger is not None else ()) + (after if job.spec.after else ())


# --- queues: the same from every process ------------------------------------------------------------------------------


def _of_queues(queues: Sequence[tuple[QueueView, int]]) -> Iterator[str]:
    """However many jobs there are, every queue has its series."""
    for name, text, value in _QUEUE_GAUGES:
        yield from _head(f"mainspring_queue_{name}", "gauge", text)
        for view, wanted in queues:
            yield f'mainspring_queue_{name}{{queue="{escaped(view.name)}"}} {value(view, wanted):.15g}'


_QUEUE_GAUGES: tuple[tuple[str, str, Callable[[QueueView, int], float]], ...] = (
    ("ready", "Executions that could begin now.", lambda view, _: view.ready),
    ("planned", "Executions that are due later, or wait for a retry or a paused job.", lambda view, _: view.planned),
    ("parked", "Executions that wait for a limit.", lambda view, _: view.parked),
    ("running", "Executions that run now.", lambda view, _: view.running),
    ("oldest_seconds", "How long the oldest ready execution has been due.", lambda view, _: view.oldest or 0.0),
    ("slots", "Executions that the running workers of the queue can run at once.", lambda view, _: view.slots),
    ("paused", "1 while an operator has paused the queue.", lambda view, _: float(view.paused)),
    ("wanted_processes", "Processes that the queue needs: see docs/queues.md.", lambda _, wanted: wanted),
)


# --- counters of this process ---------------------------------------------------------------------------------


def _of_process(reading: Reading, counts: ProcessCounts) -> Iterator[str]:
    reasons = {each.job.name: ANY_SKIP + _for(each.job, SKIPS, SKIPS_AFTER) for each in reading.jobs}
    jobs = {f'job_name="{escaped(name)}"': each for name, each in sorted(counts.jobs.items())}
    durations = {label: each.durations for label, each in jobs.items()}
    yield from _histograms("job_execution_duration_seconds", "How long attempts took in this process.", durations)
    lateness = {label: each.lateness for label, each in jobs.items()}
    yield from _histograms("job_lateness_seconds", "How late attempts began in this process.", lateness)
    for name, (field, text) in _COUNTERS.items():
        yield from _head(f"job_{name}_total", "counter", f"{text}, counted by this process.")
        for label, each in jobs.items():
            yield f"job_{name}_total{{{label}}} {getattr(each, field)}"
    yield from _head("job_skips_total", "counter", "Executions skipped, by reason, counted by this process.")
    for name, each in sorted(counts.jobs.items()):
        for reason, count in {**dict.fromkeys(reasons.get(name, ANY_SKIP), 0), **each.skips}.items():
            yield f'job_skips_total{{job_name="{escaped(name)}",reason="{escaped(reason)}"}} {count}'


_COUNTERS = {
    "retries": ("retries", "Attempts that failed and will be retried"),
    "fenced_writes": ("fenced", "Writes refused because the execution belonged to another worker by then"),
    "missed": ("missed", "Ticks that no scheduler materialised"),
}


def _histograms(name: str, text: str, jobs: Mapping[str, Histogram]) -> Iterator[str]:
    yield from _head(name, "histogram", text)
    for label, each in jobs.items():
        *finite, everything = accumulate(each.counts)
        for bound, count in zip(each.bounds, finite, strict=True):
            yield f'{name}_bucket{{{label},le="{bound:g}"}} {count}'
        yield f'{name}_bucket{{{label},le="+Inf"}} {everything}'
        yield f"{name}_sum{{{label}}} {each.total!r}"
        yield f"{name}_count{{{label}}} {everything}"


# --- Mainspring itself -----------------------------------------------------------------------------------------------


def _of_mainspring(reading: Reading, version: str, channels: Mapping[str, bool]) -> Iterable[str]:
    yield from _head("mainspring_info", "gauge", "Always 1 while a process of Mainspring is up.")
    yield f'mainspring_info{{version="{escaped(version)}"}} 1'
    yield from _head("mainspring_wakeup_channel_up", "gauge", "1 while wake-ups from other processes arrive.")
    for channel, works in channels.items():
        yield f'mainspring_wakeup_channel_up{{channel="{channel}"}} {int(works)}'
    yield from _head("mainspring_jobs_left_out", "gauge", "Jobs beyond the setting metrics_jobs.")
    yield f"mainspring_jobs_left_out {reading.left_out}"
    yield from _head("mainspring_read_timestamp_seconds", "gauge", "When the numbers of the store were read.")
    yield f"mainspring_read_timestamp_seconds {_seconds(reading.at)}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def escaped(text: str) -> str:
    r"""
    >>> escaped('a "b"\n')
    'a \\"b\\"\\n'
    """
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _seconds(at: Micros | None) -> str:
    return "0" if at is None else f"{at / SECOND:.6f}"
