"""Correct uses of the public interface: both type checkers must accept every line. Never executed."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type

from mainspring import Event, Execution, JobContext, Mainspring, Retry, Unique, every
from mainspring.model.events import AttemptEnded, Missed, Started
from mainspring.observe.logs.lines import LogLines
from mainspring.observe.metrics.statsd import StatsD

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
