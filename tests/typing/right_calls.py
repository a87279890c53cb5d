"""Correct uses of the public interface: both type checkers must accept every line. Never executed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, assert_type

from mainspring import (
    CatchUp,
    Event,
    Execution,
    Hours,
    JobContext,
    Limit,
    Mainspring,
    Retention,
    Retry,
    State,
    Unique,
    days_ago,
    every,
    limited,
    offset,
    once,
    weekly_at,
)
from mainspring.model.events import AttemptEnded, Missed, Started
from mainspring.observe.logs.lines import LogLines
from mainspring.observe.metrics.statsd import StatsD
from mainspring.testing import harness

app = Mainspring("sqlite:///jobs.db", timezone="Europe/Istanbul", concurrency=4, lease="30s", roles=["worker"])


@app.job("render", isolation="process", timeout="10m", max_cpu="5m", max_memory="1.5GiB", max_address_space=2**33)
def render(page: int) -> int:
    return page


@app.job("crawl", trigger=every(minutes=30), retry=Retry("patient"), timeout="10m", overlap="skip", missed="latest")
def crawl(ctx: JobContext, url: str = "http://localhost", *, depth: int = 1) -> dict[str, int]:
    return {url: depth}


@app.job("send-reminder", queue="notifications", max_attempts=5)
async def send_reminder(ctx: JobContext, shift_id: str) -> None: ...


@app.job("add")
async def add(first: int, second: int = 0) -> int:
    return first + second


@app.job("measure")
def measure(values: list[float], label: str | None = None) -> float:
    return sum(values)


@app.job("tick", cron="0 3 * * *", window="yesterday")
async def tick(ctx: JobContext) -> str:
    return ctx.job


@app.job("importer")
class Importer:
    name = "importer"

    def perform(self, data: dict[str, Any], execution: Execution) -> None: ...


app.schedule("crawl-news", crawl, every(minutes=15), params={"url": "http://localhost/news"})
app.registrar.daily_at("measure-daily", measure, "03:00", params={"values": [1.0]})
importer: Importer = Importer()


async def enqueueing(connection: object) -> None:
    assert_type(await crawl.enqueue(), Execution[dict[str, int]])
    assert_type(await crawl.enqueue("http://localhost", depth=2), Execution[dict[str, int]])
    assert_type(await send_reminder.enqueue(shift_id="42"), Execution[None])
    assert_type(await add.enqueue(1, second=2), Execution[int])
    assert_type(await measure.enqueue([1.5, 2.5], label="a"), Execution[float])
    assert_type((await add.enqueue(1)).result, int)
    assert_type(await add.options(queue="slow", priority=5).enqueue(1), Execution[int])
    assert_type(await add.options(unique="add-1", start_at="10m").enqueue(1), Execution[int] | None)
    assert_type(await add.options(unique=Unique("add-1")).enqueue(1), Execution[int] | None)
    await add.options(connection=connection, tenant="acme", by="ada", metadata={"why": "test"}).enqueue(1)
    assert_type(await app.enqueue_many([add.bind(n) for n in range(10)]), list[Execution[int] | None])
    await app.enqueue_many([add.bind(1), ("crawl", {"url": "http://localhost"}), (crawl, {}, {"priority": 5})])
    assert_type(await add.trigger(1, 2), Execution[int])
    assert_type(await app.enqueue("add", {"first": 1}, queue="slow", unique="x"), Execution[Any] | None)
    assert_type(await app.enqueue(add, {"first": 1}), Execution[Any] | None)
    assert_type(await app.wait(await add.enqueue(1), timeout=5), Execution[int])
    assert_type(await app.wait("019cb1be-d6c0-8538-83ea-ea718faec7be"), Execution[Any])


async def steering() -> None:
    await app.pause("crawl", note="the site moves", resume_after="1h")
    await app.update_job("crawl", overlap="queue", timeout=None)
    await app.executions(job="crawl", status="failed", running=None, limit=10)
    await app.backfill("tick", "2026-01-01", "2026-02-01", order="newest", only="missing")
    await app.bulk.jobs("pause", ["crawl"])
    await app.calendars.set("holidays", ["12-25"], by="ada")
    await app.start(roles=["worker"], queues=["mail"], stop_timeout="10s")
    async with app.lock("import", ttl="1m") as lock, app.track("import", triggered_by="ada") as ctx:
        lock.check()
        ctx.count(rows=1)


def blocking() -> None:
    assert_type(send_reminder.sync.enqueue(shift_id="42"), Execution[None])
    assert_type(add.options(unique="add-1").sync.enqueue(1), Execution[int] | None)
    assert_type(add.sync.trigger(1), Execution[int])
    assert_type(app.sync.enqueue_many([add.bind(1)]), list[Execution[int] | None])
    assert_type(app.sync.wait(add.sync.enqueue(1)).result, int)
    app.sync.pause("crawl", note="the site moves", by="ada")
    app.sync.backfills.pause("019cb1be", by="ada")
    app.sync.start(roles="worker")
    with app.sync.lock("import", ttl=5) as lock, app.sync.track("import") as ctx:
        lock.check()
        ctx.progress(1, 2)


def watch(event: Event) -> None:
    match event:
        case Started(execution=execution, at=at):
            assert_type(execution, Execution)
            assert_type(at, datetime)
        case AttemptEnded():
            print(event.execution.params, event.error)
        case _:
            pass
    if isinstance(event, Missed):
        assert_type(event.first, datetime)


def observing(seen: list[object]) -> None:
    app.observe(watch)
    app.observe(seen.append)
    app.observe(StatsD("127.0.0.1:8125"))
    Mainspring("sqlite:///jobs.db", observers=[watch, LogLines()])


async def calling(ctx: JobContext) -> None:
    assert_type(crawl(ctx, "http://localhost", depth=3), dict[str, int])
    assert_type(await add(1, 2), int)
    assert_type(await send_reminder(ctx, "42"), None)
    assert_type(measure([1.0]), float)


class Named:
    name: ClassVar[str] = "named"
    max_attempts = 3

    async def perform(self, data: dict[str, Any], execution: Execution) -> None: ...


class Dated:
    def __init__(self, name: str) -> None:
        self.name = name

    def execute(self, ctx: JobContext, day: str, *, dry: bool = False) -> int:
        return len(day)


class DataOnly:
    @property
    def name(self) -> str:
        return "data-only"

    def perform(self, payload: dict[str, Any]) -> None: ...


@app.job("decorated")
class Decorated:
    def execute(self, ctx: JobContext) -> None: ...


def plain_tenants() -> list[str]:
    return ["acme"]


def tenants_of_the_run(ctx: JobContext) -> Iterator[str]:
    yield "acme"


async def async_tenants() -> set[str]:
    return {"acme"}


async def yielded_tenants(ctx: JobContext) -> AsyncIterator[str]:
    yield "acme"


@contextmanager
def as_tenant(tenant: str) -> Iterator[None]:
    yield


def declaring(names: list[str], configured: dict[str, Any]) -> None:
    app.register(Named, queue="mail")
    app.register(Named())
    app.register(Dated("dated"), trigger=every(hours=1), params={"day": "2026-01-01"})
    app.register(DataOnly())
    app.schedule("again", "named", every(minutes=5))
    app.schedule("more", Named, weekly_at("Mon", time(3)))
    app.schedule("part", partial(plain_tenants), once(datetime(2030, 1, 1, tzinfo=UTC)))
    app.registrar.weekly_at("weekly", Dated("x"), 1, "03:00", params={"day": "2026-01-01"})
    app.registrar.fixed_rate("rate", Decorated(), timedelta(minutes=5))
    app.job("a", cron="${reports.cron}", tz="${reports.zone:Europe/Paris}", queue="${reports.queue}")
    app.job("a", retry="patient", window="yesterday", tenants=names, tags="nightly", non_retryable=ValueError)
    app.job("a", retry=Retry(delays=["5s", "5m"]), window="7_days_ago", tenants=("acme", "beta"), tags=["a", "b"])
    app.job("a", retry={"initial": "5s"}, window=days_ago(90), tenants=plain_tenants, non_retryable=[KeyError, "X"])
    app.job("a", window=offset("2h", timedelta(hours=1)), tenants=tenants_of_the_run, tenant_context=as_tenant)
    app.job("a", window=limited("yesterday", max_span="31d", align="day"), tenants=async_tenants)
    app.job("a", tenants=yielded_tenants, timeout=timedelta(minutes=5), missed=CatchUp("all", max_age="7d"))
    app.job("a", hours=Hours("09:00-17:00", days="mon-fri"), ping={"failure": "https://hc.example/1"})
    app.job("a", limits=[Limit("api", rate="50/s"), {"key": "crawl", "concurrency": 3}], max_memory="1GiB")
    app.job(
        "a",
        retention=Retention(by_state={"failed": 90}),
        after=["crawl", "tick"],
        retry=Retry(5, 2),
        tenant_retry=Retry("1m"),
    )
    app.job("a", **configured)
    app.calendars.declare("holidays", ["12-25", date(2026, 4, 3)])
    Mainspring(
        Path("jobs.db"), jobs=["shop.jobs"], roles="scheduler,worker", log_level="info", lease=timedelta(seconds=9)
    )
    Mainspring(jobs=names, tenant_context=as_tenant, retry_policy=Retry("queue", jitter=0.1), queues="mail,web")


async def asking(status: State, wanted: dict[str, Any]) -> None:
    await app.executions(status=status, since="2h", until=datetime.now(UTC))
    await app.executions(status=["failed", State.PARTIAL], longer_than=timedelta(minutes=5), **wanted)
    await app.jobs(status="paused", sort="-next_run_at")
    await app.bulk.start("retry", filter={"job": "crawl", "status": "failed"}, pace="100/s")
    await app.bulk.start("pause", "jobs", filter={"queue": "mail"})
    failed = {"status": "failed", "job": "crawl"}
    await app.bulk.preview("retry", filter=failed)
    await app.bulk.start("mute", "errors", filter={"since": "2h"})
    await app.bulk.jobs("pause", (job.name for job in await app.jobs(queue="mail")))
    await app.trigger(crawl, {"url": "x"}, window=(date(2026, 1, 1), "2026-01-02"), tenants={"acme"})
    await app.backfill("tick", date(2026, 1, 1), datetime.now(UTC), pace="5s")
    await app.windows("tick", "2026-01-01", date(2026, 2, 1))
    await app.pause("crawl", resume_at=datetime.now(UTC))
    await app.skip_occurrence("tick", "2026-01-01T03:00")
    await app.webhooks.create("https://example.com/hook", events=["execution.failed"])
    await app.tokens.create("ci", "operator", expires="90d")
    await app.queues.limit("mail", rate="100/m")
    await app.enqueue(Named, {"x": 1}, start_at=timedelta(minutes=10))
    await app.enqueue_many([("add", {"first": n}) for n in range(3)], priority=5)
    await app.logs("019cb1be", level="WARNING")
    async with app.lock("import", ttl=timedelta(minutes=1), wait=None):
        pass


def testing() -> None:
    with harness(app, start="2026-03-01T00:00Z") as kit:
        kit.advance("1d")
        kit.advance(timedelta(hours=1))
        kit.advance_to(datetime(2026, 3, 3, tzinfo=UTC))
        kit.assert_enqueued(crawl, {"url": "x"}, start_at="10m", unique="k", count=1)
        kit.assert_ran("tick", at="2026-03-01T02:00Z", result=None)
        kit.assert_failed(Named, error="boom")
        kit.executions("tick", state="completed")
