"""`/metrics`: label sets at 0 from registration, totals of the store, numbers of this process, and how it is served."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mainspring import JobContext, Mainspring, Retry, every
from mainspring.core.monitoring import metrics
from mainspring.core.monitoring.metrics import WAITING_EACH
from mainspring.core.views.execution import row_of
from mainspring.model.events import AttemptEnded, Fenced, Rescued, Skipped, Started
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.values.ids import random_id
from mainspring.observe.metrics.process_counters import DURATIONS, OTHERS, ProcessCounts
from mainspring.testing import FakeClock
from tests.api.client import client_of
from tests.support import ON_A_FAKE_CLOCK, Nodes, run_once, until


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels, as the client library reads them."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Page:
    def __init__(self, text: str) -> None:
        self.samples = samples(text)

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples.get((name, frozenset(labels.items())))

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(labels)[label] for found, labels in self.samples if found == name and label in dict(labels)}


async def page(app: Mainspring) -> Page:
    app._runtime.parts.readings.cache.forget()  # type: ignore[union-attr]  # as after a second
    return Page((await app.monitoring.metrics_page()).decode())


def with_jobs(app: Mainspring) -> Mainspring:
    def fails() -> None:
        raise ValueError("as asked")

    def once(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise ValueError("once")

    app.job("good")(lambda: None)
    app.job("bad", max_attempts=1)(fails)
    app.job("again", retry=Retry(initial="1ms"))(once)
    app.job("nightly", cron="0 3 * * *", window="yesterday")(lambda: None)
    return app


@pytest.mark.req("OBS-4")
async def test_label_sets_exist_at_0_from_registration(nodes: Nodes) -> None:
    app = with_jobs(nodes.app())
    async with client_of(app) as client:
        await client.ask("POST", "/api/v1/jobs", json={"name": "made", "handler": "good", "interval_minutes": 60})
        answer = await client.ask("GET", "/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = Page(answer.text)
    await app.close()
    jobs = {"good", "bad", "again", "nightly", "made"}
    for name in ("job_execution_total", "job_currently_running", "job_queue_depth", "job_rescued_total"):
        assert found.labels(name, "job_name") == jobs
    assert found.value("job_execution_total", job_name="bad", status="failed", trigger_type="enqueue") == 0
    assert found.value("job_execution_total", job_name="nightly", status="failed", trigger_type="schedule") == 0
    assert found.value("job_execution_total", job_name="nightly", status="failed", trigger_type="backfill") == 0
    statuses = {"completed", "partial", "failed", "cancelled", "skipped"}
    assert found.labels("job_execution_total", "status") == statuses
    bounds = {f"{bound:g}" for bound in DURATIONS} | {"+Inf"}
    assert found.labels("job_execution_duration_seconds_bucket", "le") == bounds
    for name in ("job_execution_duration_seconds_count", "job_lateness_seconds_count", "job_retries_total"):
        assert {found.value(name, job_name=job) for job in jobs} == {0}
    assert found.value("job_fenced_writes_total", job_name="good") == 0
    assert found.value("job_skips_total", job_name="good", reason="overlap") == 0
    for instant in ("last_success", "oldest_running_start", "oldest_waiting"):
        assert {found.value(f"job_{instant}_timestamp_seconds", job_name=job) for job in jobs} == {0}
    assert found.value("job_next_expected_timestamp_seconds", job_name="good") == 0
    assert (found.value("job_next_expected_timestamp_seconds", job_name="nightly") or 0) > 1e9


@pytest.mark.req("OBS-4")
async def test_totals_come_from_the_store_and_the_rest_from_this_process(nodes: Nodes) -> None:
    async with with_jobs(nodes.app(roles=["scheduler", "worker"], metrics_port=0)) as app:
        good = await run_once(app, "good")
        for name in ("bad", "again"):
            await run_once(app, name)

        async def is_told() -> Page | None:
            """Observers hear of an ending when it is stored, as others may have seen by then."""
            found = await page(app)
            tries = found.value("job_execution_duration_seconds_count", job_name="again")
            return found if tries == 2 and found.value("job_retries_total", job_name="again") == 1 else None

        found = await until(is_told)
        assert found.value("job_execution_total", job_name="good", status="completed", trigger_type="enqueue") == 1
        assert found.value("job_execution_total", job_name="bad", status="failed", trigger_type="enqueue") == 1
        assert found.value("job_execution_total", job_name="again", status="completed", trigger_type="enqueue") == 1
        assert found.value("job_execution_duration_seconds_count", job_name="again") == 2  # tries
        assert found.value("job_lateness_seconds_count", job_name="again") == 2
        assert found.value("job_retries_total", job_name="again") == 1
        assert row_of(good).finished is not None
        assert found.value("job_last_success_timestamp_seconds", job_name="good") == row_of(good).finished / 1e6

        async def is_woken() -> bool:
            return (await page(app)).value("mainspring_wakeup_channel_up", channel="store") == 1

        await until(is_woken, "the line to the store works")
    async with nodes.client() as elsewhere:  # another process, which saw nothing of it
        found = await page_of(elsewhere)
        assert found.value("job_execution_total", job_name="bad", status="failed", trigger_type="enqueue") == 1
        assert found.value("job_execution_duration_seconds_count", job_name="again") in (None, 0)


async def page_of(app: Mainspring) -> Page:
    return Page((await app.monitoring.metrics_page()).decode())


@pytest.mark.req("OBS-4")
async def test_what_lives_now(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "ALL_WAITING", 0)  # as if much more were waiting
    clock = FakeClock()
    app = with_jobs(nodes.app(clock=clock, **ON_A_FAKE_CLOCK))
    try:
        for _ in range(WAITING_EACH + 50):  # more than are read one by one
            await app.enqueue("good")
            clock.advance(2)
        await app.enqueue("bad")
        async with app.track("import", triggered_by="ada"):
            began = clock.now() / 1e6
            clock.advance(60)
            found = await page(app)
            assert found.value("job_currently_running", job_name="import") == 1
            assert found.value("job_oldest_running_start_timestamp_seconds", job_name="import") == began
        assert found.value("job_queue_depth", job_name="good", queue="default") == WAITING_EACH + 50
        oldest = found.value("job_oldest_waiting_timestamp_seconds", job_name="good")
        waited = clock.now() / 1e6 - (oldest or 0)
        assert waited == pytest.approx(2 * (WAITING_EACH + 50) + 60)
        assert found.value("job_oldest_waiting_timestamp_seconds", job_name="bad") == began
        assert (await page(app)).value("job_last_success_timestamp_seconds", job_name="import") == clock.now() / 1e6
    finally:
        await app.close()


@pytest.mark.req("OBS-4")
async def test_the_oldest_of_a_long_queue_is_followed_from_scrape_to_scrape(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    app = with_jobs(memory_nodes.app(clock=clock, **ON_A_FAKE_CLOCK))
    monkeypatch.setattr(metrics, "ALL_WAITING", 0)  # as if much more were waiting

    async def waited() -> float:
        oldest = (await page(app)).value("job_oldest_waiting_timestamp_seconds", job_name="good")
        return clock.now() / 1e6 - (oldest or 0)

    try:
        queued = []
        for _ in range(4 * WAITING_EACH):
            queued.append(await app.enqueue("good"))
            clock.advance(1)
            if len(queued) % 20 == 0:
                await waited()  # somebody scrapes every 20 s
        assert await waited() == 400
        for execution in queued[: 2 * WAITING_EACH]:
            assert execution is not None
            await app.cancel_execution(execution.id)
        assert await waited() == 200
    finally:
        await app.close()


@pytest.mark.req("OBS-4")
async def test_the_last_success_is_known_after_a_failure(nodes: Nodes) -> None:
    app = nodes.app()

    def either(fail: bool = False) -> None:
        if fail:
            raise ValueError("as asked")

    app.job("either", max_attempts=1)(either)
    async with app:
        good = await run_once(app, "either")
        await run_once(app, "either", {"fail": True})
        found = await page(app)
    assert row_of(good).finished is not None
    assert found.value("job_last_success_timestamp_seconds", job_name="either") == row_of(good).finished / 1e6


@pytest.mark.req("OBS-4")
async def test_a_scrape_stays_bounded_and_is_not_repeated_within_a_second(memory_nodes: Nodes) -> None:
    clock = FakeClock()
    app = memory_nodes.app(clock=clock, metrics_jobs=3, **ON_A_FAKE_CLOCK)
    for name in ("a", "b", "c", "d", "e"):
        app.job(name, trigger=every(hours=1))(lambda: None)
    try:
        found = await page_of(app)
        assert len(found.labels("job_execution_total", "job_name")) == 3
        assert found.value("mainspring_jobs_left_out") == 2
        assert found.labels("job_retries_total", "job_name") == found.labels("job_queue_depth", "job_name")
        reading = app._runtime.parts.readings  # type: ignore[union-attr]
        first = await reading.read()
        clock.advance(0.5)
        assert await reading.read() is first
        clock.advance(1)
        assert await reading.read() is not first
    finally:
        await app.close()


@pytest.mark.req("OBS-4", "QUE-3")
async def test_jobs_that_matter_come_first_and_the_rest_is_said(memory_nodes: Nodes) -> None:
    clock = FakeClock()
    app = memory_nodes.app(clock=clock, metrics_jobs=2, **ON_A_FAKE_CLOCK)
    for name in ("a", "b", "c", "waits", "z-fails"):
        app.job(name, max_attempts=1)(lambda: None)
    try:
        store = (await app._runtime.engine()).store
        await app.enqueue("waits")
        await app.enqueue("waits", start_at="1h")
        (job,) = await store.jobs(["z-fails"])
        now = await store.now()
        ended = {"state": State.FAILED, "created": now, "started": now, "finished": now}
        await store.add([ExecutionRow(id=random_id(now, Random(1)), job=job.name, job_id=job.id, handler="h", **ended)])
        text = (await app.monitoring.metrics_page()).decode()
        found = await page_of(app)
        assert found.labels("job_execution_total", "job_name") == {"waits", "z-fails"}
        assert found.value("job_queue_depth", job_name="waits", queue="default") == 1
        assert found.value("job_queue_planned", job_name="waits", queue="default") == 1
        assert text.startswith("# 3 jobs have no series of their own")
        assert await app.monitoring.left_out(2) == (3, ["a", "b"])
    finally:
        await app.close()


@pytest.mark.req("QUE-3")
async def test_what_is_due_of_another_job_of_the_handler_is_not_its_own(memory_nodes: Nodes) -> None:
    app = with_jobs(memory_nodes.app())
    app.schedule("later", "good")
    try:
        await app.enqueue("good")
        await app.enqueue("later", start_at="1h")
        found = await page_of(app)
        for name, due in (("good", 1), ("later", 0)):
            assert found.value("job_queue_depth", job_name=name, queue="default") == due
            assert found.value("job_queue_planned", job_name=name, queue="default") == 1 - due
    finally:
        await app.close()


@pytest.mark.req("OBS-4")
def test_what_this_process_counts() -> None:
    counts = ProcessCounts(10)
    run = ExecutionRow(id="1", job="a", job_id="1", handler="a", due=1_000_000)
    counts(Started(run, 1_300_000))
    counts(AttemptEnded(run, State.PENDING, 1, 50.0, retry_in=1.0, reason="failed"))
    counts(AttemptEnded(run, State.PENDING, 1, 50.0, reason="snoozed"))
    counts(AttemptEnded(run, State.COMPLETED, 2, 10.0, reason="completed"))
    counts(AttemptEnded(run, State.COMPLETED, 2, 8_000_000.0, reason="completed"))
    counts(Rescued(run, 10.0, State.PENDING))
    counts(Rescued(run, 10.0, State.FAILED))
    counts(Fenced(run, "ending"))
    counts(Skipped(run, "overlap"))
    counts(AttemptEnded(run, State.CANCELLED, 1, 0.0, tried=False))
    found = counts.jobs["a"]
    assert (found.retries, found.fenced, found.skips) == (2, 1, {"overlap": 1})
    assert found.durations.counts == [1, 1, *[0] * 11, 1]  # a value at a bound belongs below it
    assert found.durations.total == pytest.approx(8000.06)
    assert found.lateness.counts[3] == 1


@pytest.mark.req("OBS-4")
def test_jobs_that_are_gone_make_room_for_others() -> None:
    counts = ProcessCounts(2)
    counts.know(["a", "b"])
    counts(Skipped(ExecutionRow(id="1", job="c", job_id="3", handler="c"), "overlap"))
    assert set(counts.jobs) == {"a", "b", OTHERS}
    counts.know(["b", "c"])
    assert set(counts.jobs) == {"b", "c", OTHERS}


@pytest.mark.req("OBS-4")
async def test_a_worker_without_the_interface_serves_them_too(memory_nodes: Nodes) -> None:
    async with with_jobs(memory_nodes.app(roles=["worker"], metrics_port=0)) as app:
        port = app._runtime.parts.metrics.port  # type: ignore[union-attr]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            answer = await client.get("/metrics")
            assert (answer.status_code, "job_execution_total" in answer.text) == (200, True)
            others = [(await client.get(path)).status_code for path in ("/healthz", "/readyz", "/jobs")]
            assert others == [200, 200, 404]
            assert (await client.post("/metrics")).status_code == 405
            assert (await client.head("/metrics")).content == b""
            app._runtime.parts.readings.read = broken  # type: ignore[union-attr, method-assign]
            assert (await client.get("/metrics")).status_code == 503
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x" * 100_000)
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 20) == b""  # it hangs up
        writer.close()


async def broken() -> Any:
    raise OSError("the store is away")


@pytest.mark.req("OBS-4", "SEC-1")
async def test_other_addresses_get_nothing(memory_nodes: Nodes) -> None:
    async with with_jobs(memory_nodes.app(metrics_port=0, sys_allow=["10.0.0.0/8"])) as app:
        port = app._runtime.parts.metrics.port  # type: ignore[union-attr]
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{port}/metrics")
    assert (answer.status_code, "job" in answer.text) == (403, False)


@pytest.mark.req("OBS-4")
async def test_every_metric_is_documented(memory_nodes: Nodes) -> None:
    app = with_jobs(memory_nodes.app())
    try:
        await app.open()
        text = (await app.monitoring.metrics_page()).decode()
    finally:
        await app.close()
    documented = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) > 15
    assert [name for name in names if f"`{name}`" not in documented] == []
    series = {
        name: len([line for line in text.splitlines() if f'job_name="{name}"' in line]) for name in ("good", "nightly")
    }
    assert f"A job on demand has {series['good']} series" in documented
    assert f"one with a schedule {series['nightly'] - 5}; windows add 5" in documented
