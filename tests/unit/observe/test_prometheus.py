"""The page of metrics: which series are there before anything has happened, and which are left out."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mainspring.core.declaring.job_specs import job_spec
from mainspring.core.monitoring import metrics
from mainspring.core.monitoring.metrics import JobReading, Reading, oldest_waiting
from mainspring.core.views.queues import QueueView
from mainspring.model.events import AttemptEnded, Started
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobStats, LiveCounts, encode_spec
from mainspring.model.values.ids import random_id
from mainspring.observe.metrics.process_counters import ProcessCounts
from mainspring.observe.metrics.prometheus import page
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock

Named = dict[str, set[float]]


async def samples(jobs: Sequence[JobReading], metric: str, job: str, label: str) -> Named:
    """What the page says under this name of this job, by one of its labels."""
    counts = ProcessCounts(10)
    counts.know([each.job.name for each in jobs])
    text = (await page(Reading(jobs=tuple(jobs), left_out=0, at=0), counts, "1", {})).decode()
    named: Named = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == metric and sample.labels.get("job_name") == job:
                named.setdefault(sample.labels[label], set()).add(sample.value)
    return named


def zeros(names: str) -> Named:
    return {name: {0.0} for name in names.split()}


def described(name: str, by_trigger: dict[str, int] | None = None, **options: Any) -> JobReading:
    job = Job(name=name, id=name, declared=encode_spec(job_spec("handler", None, options)))
    stats = JobStats(job_id=name, by_trigger=by_trigger or {})
    return JobReading(job=job, stats=stats, live=LiveCounts())


JOBS = (
    described("plain"),
    described("hourly", cron="@hourly"),
    described("later", after=["hourly"]),
    described("tracked", {"schedule:completed": 3}),
)
BY_HAND = "enqueue manual api retry"


@pytest.mark.req("OBS-4")
@pytest.mark.parametrize(
    ("metric", "label", "job", "named"),
    [
        ("job_execution_total", "trigger_type", "plain", zeros(BY_HAND)),
        ("job_execution_total", "trigger_type", "hourly", zeros(f"{BY_HAND} schedule catch_up")),
        ("job_execution_total", "trigger_type", "later", zeros(f"{BY_HAND} dependency")),
        ("job_execution_total", "trigger_type", "tracked", zeros(BY_HAND) | {"schedule": {0.0, 3.0}}),
        ("job_skips_total", "reason", "plain", zeros("overlap")),
        ("job_skips_total", "reason", "hourly", zeros("overlap missed occurrence")),
        ("job_skips_total", "reason", "later", zeros("overlap dependency_failed paused disabled")),
    ],
)
async def test_every_combination_that_a_job_can_come_to_is_there_at_0(
    metric: str, label: str, job: str, named: Named
) -> None:
    assert await samples(JOBS, metric, job, label) == named


@pytest.mark.req("OBS-4")
async def test_since_when_the_oldest_waits_is_never_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(clock=FakeClock())
    now, many = await store.now(), metrics.WAITING_JOBS + 50
    rows = [
        ExecutionRow(id=random_id(now, Random(n)), job=f"j{n}", job_id=f"j{n}", handler="h", created=now, due=now - n)
        for n in range(many)
    ]
    await store.add(rows)
    live = await store.live_counts()
    everything: dict[str, int | None] = {f"j{n}": now - n for n in range(many)}
    assert await oldest_waiting(store, {**live, "idle": LiveCounts()}, now) == everything | {"idle": None}
    monkeypatch.setattr(metrics, "ALL_WAITING", many - 1)
    some = await oldest_waiting(store, live, now)
    assert len(some) == metrics.WAITING_JOBS
    assert some.items() <= everything.items()


@pytest.mark.req("OBS-4")
async def test_a_long_queue_of_executions_that_are_due_later_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    store, chance = MemoryStore(clock=FakeClock()), Random(1)
    now = await store.now()
    row = ExecutionRow(id="", job="j", job_id="j", handler="h", created=now, due=now + 1)
    ids = sorted(random_id(now, chance) for _ in range(metrics.WAITING_EACH + 1))
    await store.add([msgspec.structs.replace(row, id=id) for id in ids[:-1]])
    monkeypatch.setattr(metrics, "ALL_WAITING", 0)
    assert await oldest_waiting(store, await store.live_counts(), now) == {"j": None}
    await store.add([msgspec.structs.replace(row, id=ids[-1], due=now)])
    assert await oldest_waiting(store, await store.live_counts(), now) == {}


@pytest.mark.req("OBS-4")
async def test_what_nobody_looked_at_is_left_out_and_not_0() -> None:
    unread = msgspec.structs.replace(described("unread"), waiting_read=False)
    jobs = (described("idle"), unread)
    oldest = "job_oldest_waiting_timestamp_seconds"
    assert await samples(jobs, oldest, "idle", "job_name") == {"idle": {0.0}}
    assert await samples(jobs, oldest, "unread", "job_name") == {}
    assert await samples(jobs, "job_last_success_timestamp_seconds", "unread", "job_name") == {"unread": {0.0}}


@pytest.mark.req("OBS-4")
def test_many_events_count_as_each_would_alone() -> None:
    runs = [ExecutionRow(id="1", job=job, job_id="1", handler="h", due=1_000_000) for job in ("one", "two", "one")]
    starts = [Started(run, at) for run, at in zip(runs, (0, 9_000_000, 1_004_000), strict=True)]
    times = zip(runs, (3.0, 10.0, 75_000_000.0), strict=True)
    endings = [AttemptEnded(run, State.COMPLETED, 1, took, reason="completed") for run, took in times]
    together, alone = ProcessCounts(10), ProcessCounts(10)
    for events in (starts, endings):
        together.hear_all(events)
        for event in events:
            alone(event)
    assert together.jobs.keys() == alone.jobs.keys() == {"one", "two"}
    for name, counts in together.jobs.items():
        for mine, other in (
            (counts.lateness, alone.jobs[name].lateness),
            (counts.durations, alone.jobs[name].durations),
        ):
            assert (mine.counts, mine.total) == (other.counts, pytest.approx(other.total))


@pytest.mark.req("OBS-4", "QUE-1")
async def test_large_numbers_of_queues_are_exact() -> None:
    views = [(QueueView(name="mail", ready=1_234_567, oldest=2_345_678.5), 0)]
    text = (await page(Reading(jobs=(), left_out=0, at=0), ProcessCounts(1), "1", {}, views)).decode()
    assert 'mainspring_queue_ready{queue="mail"} 1234567\n' in text
    assert 'mainspring_queue_oldest_seconds{queue="mail"} 2345678.5\n' in text
