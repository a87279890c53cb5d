"""Mistakes as users make them in their own code base: both type checkers must report every line that is marked, and no
other. Never executed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from mainspring import (
    CatchUp,
    Event,
    Execution,
    Hours,
    JobContext,
    Limit,
    Mainspring,
    NonRetryable,
    Retention,
    Retry,
    RetryAfter,
    Skip,
    Unique,
    any_of,
    cron,
    daily_at,
    every,
    hourly_at,
    limited,
    monthly_at,
    offset,
    once,
    weekly_at,
)
from mainspring.testing import FakeClock, harness

app = Mainspring("sqlite:///jobs.db")


@app.job("add")
async def add(first: int, second: int = 0) -> int:
    return first + second


@app.job("crawl", trigger=every(minutes=30))
def crawl(ctx: JobContext, url: str) -> str:
    return url


@app.job("nothing")
async def nothing(ctx: JobContext) -> None: ...


class Report:
    def execute(self, ctx: JobContext) -> None: ...


class NotAHandler:
    name = "nope"

    def go(self) -> None: ...


class WrongPerform:
    name = "wrong-perform"

    def perform(self) -> None: ...


class WrongExecute:
    def execute(self) -> None: ...


class Nameless:
    def perform(self, data: dict[str, Any], execution: Execution) -> None: ...


class NumberedName:
    name = 3

    def perform(self, data: dict[str, Any], execution: Execution) -> None: ...


def settings() -> None:
    Mainspring(5)  # wrong: database is text
    Mainspring("sqlite:///jobs.db", timezone=3)  # wrong: tz type
    Mainspring("sqlite:///jobs.db", jobs="shop.jobs")  # wrong: a list of modules
    Mainspring("sqlite:///jobs.db", roles=["workers"])  # wrong: unknown role
    Mainspring("sqlite:///jobs.db", log_format="xml")  # wrong
    Mainspring("sqlite:///jobs.db", log_level="LOUD")  # wrong
    Mainspring("sqlite:///jobs.db", port="8080")  # wrong: port type
    Mainspring("sqlite:///jobs.db", dashboard="yes")  # wrong: bool
    Mainspring("sqlite:///jobs.db", resources=["db"])  # wrong: a mapping
    Mainspring("sqlite:///jobs.db", observers=watch_nothing)  # wrong: a list
    Mainspring("sqlite:///jobs.db", observers=[print_nothing])  # wrong: signature
    Mainspring("sqlite:///jobs.db", tenant_context=5)  # wrong
    Mainspring("sqlite:///jobs.db", tenant_context=no_argument)  # wrong: takes tenant
    Mainspring("sqlite:///jobs.db", retry_policy="patint")  # wrong: preset
    Mainspring("sqlite:///jobs.db", lease=["30s"])  # wrong
    Mainspring("sqlite:///jobs.db", clock=FakeClock)  # wrong: class for object
    Mainspring("sqlite:///jobs.db", logger="mainspring")  # wrong: logger object
    Mainspring("sqlite:///jobs.db", date_range_type="tomorrow")  # wrong


def watch_nothing(event: Event) -> None: ...
def print_nothing() -> None: ...
def no_argument() -> Any: ...
def needs_two(first: str, second: str) -> list[str]:
    return [first, second]


def numbers() -> list[int]:
    return [1, 2]


def declaring() -> None:
    app.job()  # wrong: name
    app.job(3)  # wrong: name type
    app.job("a", cron=5)  # wrong
    app.job("a", cron=every(minutes=5))  # wrong: trigger in cron
    app.job("a", trigger="0 3 * * *")  # wrong: text in trigger
    app.job("a", tz=3)  # wrong
    app.job("a", timezone="Europe/Paris")  # wrong: it is tz
    app.job("a", max_attempt=3)  # wrong: misspelt
    app.job("a", max_attempts=3.5)  # wrong
    app.job("a", priority="high")  # wrong
    app.job("a", retry=3)  # wrong
    app.job("a", retry="patint")  # wrong: preset
    app.job("a", timeout=[10])  # wrong
    app.job("a", catch_up="latest")  # wrong: missed
    app.job("a", missed="lastest")  # wrong
    app.job("a", window="yesteday")  # wrong
    app.job("a", window=5)  # wrong
    app.job("a", hours=9)  # wrong
    app.job("a", tenants="acme")  # wrong: list
    app.job("a", tenants=5)  # wrong
    app.job("a", tenants=[1, 2])  # wrong
    app.job("a", tenants=needs_two)  # wrong: at most one parameter
    app.job("a", tenants=numbers)  # wrong: names are text
    app.job("a", tenant_context="acme")  # wrong
    app.job("a", tenant_concurrency="3")  # wrong
    app.job("a", limits="api")  # wrong
    app.job("a", limits=Limit("api", concurrency="3"))  # wrong
    app.job("a", after=crawl)  # wrong: by name
    app.job("a", retention=30)  # wrong
    app.job("a", enabled="no")  # wrong
    app.job("a", isolation="proces")  # wrong
    app.job("a", non_retryable=[3])  # wrong
    app.job("a", params=["x"])  # wrong
    app.job("a", tags=5)  # wrong
    app.job("a", trigger_role="boss")  # wrong
    app.job("a", interval_minutes="5")  # wrong
    app.job("a", interval_minutes=5, interval_type="months")  # wrong
    app.job("a", ping={"sucess": "https://hc.example/1"})  # wrong
    app.job("a", metadata="x")  # wrong
    app.job("a", queue=5)  # wrong
    app.job("a", "0 3 * * *")  # wrong: cron is by keyword
    app.job("a", weights=["x"])  # wrong
    app.job("a", max_memory=1.5)  # wrong
    app.job("a", missed=CatchUp("al"))  # wrong
    app.job("a")(5)  # wrong: not a function
    app.job("a")("text")  # wrong: not a function
    app.register(NotAHandler)  # wrong
    app.register(NotAHandler())  # wrong
    app.register(WrongPerform())  # wrong
    app.register(WrongPerform)  # wrong
    app.register(Nameless())  # wrong: no name
    app.register(NumberedName())  # wrong: name
    app.register("report")  # wrong
    app.register(Report(), quue="x")  # wrong
    app.schedule("b", crawl, "0 3 * * *")  # wrong
    app.schedule("b", crawl, every)  # wrong: not called
    app.schedule("b", 5, every(hours=1))  # wrong: no handler
    app.schedule("b", NotAHandler(), every(hours=1))  # wrong: no handler
    app.schedule("b", crawl, every(hours=1), params=5)  # wrong
    app.schedule(crawl, every(hours=1))  # wrong: name missing
    app.registrar.weekly_at("c", Report(), "Mo", "03:00")  # wrong: day
    app.registrar.weekly_at("c", Report(), 1.5, "03:00")  # wrong: day
    app.registrar.daily_at("c", Report(), 3)  # wrong: time
    app.registrar.daily_at("c", Report())  # wrong: missing time
    app.registrar.daily_at("c", NotAHandler(), "03:00")  # wrong
    app.registrar.daily_at("c", WrongExecute(), "03:00")  # wrong
    app.registrar.hourly_at("c", Report(), "15")  # wrong
    app.registrar.monthly_at("c", Report(), "31", "03:00")  # wrong
    app.registrar.fixed_rate("c", Report(), None)  # wrong
    app.provide(5, object())  # wrong
    app.calendars.declare("holidays", 5)  # wrong
    app.setup(5)  # wrong
    app.observe(print_nothing)  # wrong
    app.observe(needs_two)  # wrong
    app.observe("print")  # wrong


def values() -> None:
    Retry(intial="1s")  # wrong
    Retry(initial="1s", multiplier="2")  # wrong
    Retry(max_attempts=3)  # wrong
    Retry(delays="5s")  # wrong
    Retry(delays=[object()])  # wrong
    Retry(initial=None)  # wrong
    CatchUp("last")  # wrong
    CatchUp("all", max_run=3)  # wrong
    CatchUp("all", max_age=[7])  # wrong
    Unique(5)  # wrong
    Unique("k", fo="24h")  # wrong
    Limit(5)  # wrong
    Limit("k", concurency=3)  # wrong
    Limit("k", rate=["5/s"])  # wrong
    Hours(9)  # wrong
    Hours("09:00-17:00", day="mon-fri")  # wrong
    Retention(day=3)  # wrong
    Retention(days="3")  # wrong
    Retention(by_state={"faild": 3})  # wrong
    every(minute=30)  # wrong
    every(minutes="30")  # wrong
    every(30)  # wrong
    every("30m")  # wrong
    daily_at(25)  # wrong
    daily_at("03:00", tz=3)  # wrong
    daily_at("03:00", gap="later")  # wrong
    hourly_at("5")  # wrong
    weekly_at("moday", "03:00")  # wrong
    weekly_at("mon")  # wrong
    weekly_at("mon", 3)  # wrong
    monthly_at("last", "03:00")  # wrong
    monthly_at(31, "03:00", if_short="drop")  # wrong
    cron(5)  # wrong
    cron("0 3 * * *", dst="skip")  # wrong
    cron("0 3 * * *", overlap="twice")  # wrong
    cron("0 3 * * *", "Europe/Paris")  # wrong: by keyword
    once()  # wrong
    once([2026])  # wrong
    once(timedelta(hours=1))  # wrong
    any_of("0 3 * * *", every(hours=1))  # wrong
    offset([2])  # wrong
    limited("yesteday")  # wrong
    limited("yesterday", align="year")  # wrong
    RetryAfter()  # wrong
    RetryAfter(None)  # wrong
    RetryAfter([5])  # wrong
    Retry("patient").initial = 5  # wrong: frozen
    CatchUp("all").rule = "skip"  # wrong: frozen
    Limit("k", rate=5).key = "x"  # wrong: frozen
    every(minutes=5).seconds = 3  # wrong: frozen
    every(minutes=5).next_after("2026-01-01")  # wrong
    every(minutes=5).next_after(datetime.now()).isoformat()  # wrong: may be None
    NonRetryable(message="x")  # wrong: no keyword
    Skip(reason="x")  # wrong


async def enqueueing() -> None:
    execution = await add.enqueue(1)
    add.enqueue(1)  # wrong: not awaited
    pending = add.enqueue(1)
    print(pending.id)  # wrong: not awaited
    print(add.enqueue(1).result)  # wrong: not awaited
    await add.enqueue(first=1, secnd=2)  # wrong
    await add.enqueue(None)  # wrong
    await add.enqueue({"first": 1})  # wrong
    await nothing.enqueue(1)  # wrong
    await crawl.enqueue(url=5)  # wrong
    await crawl.enqueue(ctx=None, url="x")  # wrong
    await add.options(start_at=[5]).enqueue(1)  # wrong
    await add.options(start_at=object()).enqueue(1)  # wrong
    await add.options(start_in="5m").enqueue(1)  # wrong
    await add.options(unique=5).enqueue(1)  # wrong
    await add.options(unique=["a"]).enqueue(1)  # wrong
    await add.options(queue=5).enqueue(1)  # wrong
    await add.options(tenant=5).enqueue(1)  # wrong
    await add.options(metadata="x").enqueue(1)  # wrong
    await add.options(by=5).enqueue(1)  # wrong
    await add.options("slow").enqueue(1)  # wrong
    await add.options(priority=1.5).enqueue(1)  # wrong
    await add.options(priority=1)  # wrong: no enqueue
    await add.options(timeout="5m").enqueue(1)  # wrong
    add.bind()  # wrong
    add.bind(1, third=3)  # wrong
    add.bind(1).enqueue()  # wrong
    await app.enqueue_many([add.bind("x")])  # wrong
    await app.enqueue_many(add.bind(1))  # wrong: a list
    await app.enqueue_many([1, 2])  # wrong
    await app.enqueue_many([add.bind(1)], prio=3)  # wrong
    await app.enqueue_many(["add"])  # wrong
    text: str = (await app.wait(execution)).result  # wrong
    text = execution.result  # wrong
    text = (await add.trigger(1)).result  # wrong
    maybe = await add.options(unique="k").enqueue(1)
    print(maybe.id)  # wrong: None
    some = await app.enqueue("add", {"first": 1})
    print(some.id)  # wrong: None
    typed = await app.enqueue(add, {"first": 1}, unique="k")
    print(typed.id)  # wrong: None
    for one in await app.enqueue_many([add.bind(1)]):
        print(one.id)  # wrong: None
    await app.enqueue(5)  # wrong
    await app.enqueue(None)  # wrong
    await app.enqueue("add", [1])  # wrong
    await app.enqueue("add", first=1)  # wrong
    await app.enqueue("add", {"first": 1}, start_at=[3])  # wrong
    await app.enqueue(add(1))  # wrong: called instead of named
    await app.trigger("add", [1])  # wrong
    await app.trigger(5)  # wrong
    await app.trigger("add", window="yesterday")  # wrong
    await app.trigger("add", window=(1,))  # wrong
    await app.trigger("add", window=(datetime.now(), None))  # wrong
    await app.trigger("add", tenants="acme")  # wrong
    await app.trigger("add", note="x")  # wrong
    await app.wait(execution, timeout="5s")  # wrong
    await app.wait(5)  # wrong
    await app.wait(add.enqueue(1))  # wrong: coroutine
    await app.wait(await add.options(unique="k").enqueue(1))  # wrong: None
    execution.state = "failed"  # wrong: read only
    execution.result = 5  # wrong: read only
    print(execution.status)  # wrong: state
    print(execution.started_at.isoformat())  # wrong: None
    print(execution.finished_at - execution.started_at)  # wrong: None
    print(execution.window.begin)  # wrong: None
    print(execution.error.upper())  # wrong: None
    print(execution.tenant.upper())  # wrong: None
    print(text)
    async with add.enqueue(1) as x:  # wrong
        print(x)
    for item in await app.executions():
        print(item.stats)  # wrong


async def steering() -> None:
    await app.pause("crawl", note=3)  # wrong
    await app.pause(5)  # wrong
    await app.pause(crawl)  # wrong
    await app.pause("crawl", resume_after=[1])  # wrong
    await app.pause("crawl", resume_at=object())  # wrong
    await app.pause("crawl", "the site moves")  # wrong
    app.pause("crawl")  # wrong: not awaited
    await app.resume("crawl", note="x")  # wrong
    await app.cancel(5)  # wrong
    await app.cancel("crawl", because="x")  # wrong
    await app.cancel_execution(5)  # wrong
    await app.retry("crawl", params=[1])  # wrong
    await app.retry(5)  # wrong
    await app.update_job("crawl", quue="x")  # wrong
    await app.update_job("crawl", priority="x")  # wrong
    await app.remove_job("crawl", purg=True)  # wrong
    await app.remove_job("crawl", force="yes")  # wrong
    await app.skip_occurrence("crawl")  # wrong
    await app.skip_occurrence("crawl", [1])  # wrong
    await app.move_occurrence("crawl", datetime.now())  # wrong
    await app.jobs(stats="failed")  # wrong
    await app.jobs(status="faild")  # wrong
    await app.jobs(sort="nxt_run")  # wrong
    await app.jobs(limit="10")  # wrong
    await app.jobs(paused="yes")  # wrong
    await app.jobs(origin="http")  # wrong
    await app.executions(stats="failed")  # wrong
    await app.executions(status="faild")  # wrong
    await app.executions(status=["failed", "don"])  # wrong
    await app.executions(limit="10")  # wrong
    await app.executions(since=[1])  # wrong
    await app.executions(trigger="shedule")  # wrong
    await app.executions(crawl)  # wrong
    await app.get(5)  # wrong
    (await app.get("x")).id.foo()  # wrong
    await app.logs("x", level="loud")  # wrong
    await app.logs("x", level=20)  # wrong
    await app.logs(5)  # wrong
    await app.backfill("tick", only="mising")  # wrong
    await app.backfill("tick", datetime.now(), end=[1])  # wrong
    await app.backfill("tick", concurrency="2")  # wrong
    await app.backfill("tick", dryrun=True)  # wrong
    await app.backfill("tick", pace=[1])  # wrong
    await app.backfills.wait("x", timeout="5s")  # wrong
    await app.backfills.get(5)  # wrong
    await app.windows("tick", [1])  # wrong
    await app.bulk.start("retri", "executions")  # wrong
    await app.bulk.start("retry", "executon")  # wrong
    await app.bulk.start("retry", filter="failed")  # wrong
    await app.bulk.start("retry", pace=[1])  # wrong
    await app.bulk.start("retry", probe="5")  # wrong
    await app.bulk.jobs("pauze", ["crawl"])  # wrong
    await app.bulk.jobs("pause", "crawl")  # wrong: a list
    await app.bulk.executions("retry", [5])  # wrong
    await app.calendars.set("holidays")  # wrong
    await app.calendars.set("holidays", 5)  # wrong
    await app.tokens.create("ci", "operater")  # wrong
    await app.tokens.create("ci", "operator", expires=[1])  # wrong
    await app.webhooks.create("https://example.com", events=["execution.fail"])  # wrong
    await app.webhooks.create("https://example.com", events="execution.failed")  # wrong
    await app.webhooks.create("https://example.com", format="teams")  # wrong
    await app.webhooks.create(url=5)  # wrong
    await app.webhooks.update("id", event=["execution.failed"])  # wrong
    await app.hooks.set("github", "deploy", style="gitlab")  # wrong
    await app.hooks.rotate_secret("github", overlap=[1])  # wrong
    await app.queues.limit("mail", concurency=5)  # wrong
    await app.queues.limit("mail", concurrency="5")  # wrong
    await app.queues.limit("mail", rate=[5])  # wrong
    await app.queues.pause("mail", resume_after=[5])  # wrong
    await app.errors.all(sort="newest")  # wrong
    await app.errors.all(since=[1])  # wrong
    await app.errors.mute("x", until=[1])  # wrong
    await app.tenants.runs("x", status="faild")  # wrong
    await app.tenants.busiest("failing")  # wrong
    await app.templates.create("a", "crawl", quue="x")  # wrong
    await app.templates.create("a", crawl)  # wrong: by name
    await app.monitoring.activity("2d")  # wrong
    await app.monitoring.missed_runs(reason="asleep")  # wrong
    await app.start(role=["worker"])  # wrong
    await app.start(roles=["workr"])  # wrong
    await app.stop(timeout="10s")  # wrong
    await app.changes(since=[1])  # wrong
    async with app.lock("import", ttl=[1]):  # wrong
        pass
    async with app.lock("import", timeout=5):  # wrong
        pass
    async with app.lock("import", wait=[1]):  # wrong
        pass
    with app.lock("import"):  # wrong: async with
        pass
    async with app.lock(5):  # wrong
        pass
    await app.try_lock("x")  # wrong: ttl
    await app.try_lock("x", [5])  # wrong: ttl
    async with app.track("x", trigger="shedule"):  # wrong
        pass
    async with app.track("x", params=[1]) as tracked:  # wrong
        tracked.count(rows=1)


def blocking() -> None:
    add.sync.enqueue()  # wrong
    add.sync.enqueue(1, 2, 3)  # wrong
    add.sync.trigger("x")  # wrong
    print(add.options(unique="x").sync.enqueue(1).id)  # wrong: None
    text: str = add.sync.enqueue(1).result  # wrong
    text = app.sync.wait(add.sync.enqueue(1)).result  # wrong
    print(app.sync.enqueue("add", {"first": 1}).id)  # wrong: None
    app.sync.enqueue(5)  # wrong
    app.sync.pause("crawl", note=3)  # wrong
    app.sync.executions(stats="x")  # wrong
    app.sync.executions(status="faild")  # wrong
    app.sync.bulk.start("retri")  # wrong
    app.sync.start(role="worker")  # wrong
    app.sync.trigger("add", [1])  # wrong
    app.sync.wait(add.sync.enqueue(1), timeout="5s")  # wrong
    with app.sync.lock("import", ttl=[1]):  # wrong
        pass
    print(text)


async def misuse() -> None:
    print(add.sync.enqueue(1).reslt)  # wrong
    await add.sync.enqueue(1)  # wrong: not awaitable
    app.runn()  # wrong
    app.run(role="worker")  # wrong
    app.enqueue(add, {"first": 1})  # wrong: not awaited


@app.job("context")
async def context(ctx: JobContext) -> None:
    ctx.progress("x")  # wrong
    ctx.progress(1, "10")  # wrong
    ctx.progress()  # wrong
    ctx.progress(1, 10, 5)  # wrong
    ctx.count(rows="1")  # wrong
    ctx.count(5)  # wrong
    ctx.tag(order=[1])  # wrong
    ctx.tag("order")  # wrong
    print(ctx.window.begin)  # wrong: None
    begin: str = ctx.window.begin if ctx.window else ""  # wrong: datetime
    print(begin)
    ctx.tenant.upper()  # wrong: None
    ctx.scheduled_at.isoformat()  # wrong: None
    ctx.begin_date.date()  # wrong: None
    ctx.attempt = 3  # wrong: read only
    ctx.attempt.upper()  # wrong
    ctx.params = {}  # wrong: read only
    print(ctx.remaining - 5)  # wrong: None
    ctx.cancelled()  # wrong: property
    ctx.log("x")  # wrong: logger
    ctx.cancel("x")  # wrong: engine
    print(ctx.resource)  # wrong
    ctx.logger.inform("x")  # wrong
    raise RetryAfter(None)  # wrong


def testing() -> None:
    with harness(app, begin="2026-01-01"):  # wrong
        pass
    with harness("app"):  # wrong
        pass
    with harness(app, start=[1]):  # wrong
        pass
    with harness(app) as kit:
        kit.advance([1])  # wrong
        kit.advance()  # wrong
        kit.advance_to([1])  # wrong
        kit.assert_ran("crawl", att="2026")  # wrong
        kit.assert_ran(5)  # wrong
        kit.assert_ran("crawl", times="1")  # wrong
        kit.assert_enqueued("crawl", prams={})  # wrong
        kit.assert_enqueued("crawl", [1])  # wrong
        kit.executions(state="faild")  # wrong
        kit.next_run("crawl").isoformat()  # wrong: None
        kit.run_til_idle()  # wrong
