"""Mistakes: both type checkers must report every line that is marked, and no other. Never executed."""

from __future__ import annotations

from mainspring import Event, JobContext, Mainspring, every
from mainspring.model.events import Started

app = Mainspring("sqlite:///jobs.db")
Mainspring("sqlite:///jobs.db", concurency=4)  # wrong: a misspelt setting
Mainspring("sqlite:///jobs.db", concurrency=[4])  # wrong: the type of a setting
Mainspring("sqlite:///jobs.db", default_isolation="fork")  # wrong: neither thread nor process
Mainspring("sqlite:///jobs.db", locks="disk")  # wrong: a setting that is one of two words


@app.job("add")
async def add(first: int, second: int = 0) -> int:
    return first + second


@app.job("crawl", trigger=every(minutes=30))
def crawl(ctx: JobContext, url: str) -> str:
    return url


app.job("a", overlap="skipp")  # wrong: an unknown policy
app.job("b", missed="sometimes")  # wrong: an unknown policy
app.job("c", outside="run")  # wrong: an unknown policy
app.job("d", on_failed_parent="stop")  # wrong: an unknown policy
app.job("e", retries=3)  # wrong: an unknown option
app.job("f", max_attempts="three")  # wrong: the type of an option
app.job("i", isolation="fork")  # wrong: neither thread nor process
app.job("j", isolation="process", max_memory=1.5)  # wrong: bytes are whole
app.schedule("g", crawl, "every hour")  # wrong: a trigger is no text
app.schedule("h", crawl, every(hours=1), quue="web")  # wrong: a misspelt option


async def enqueueing() -> None:
    await add.enqueue("1")  # wrong: the type of a parameter
    await add.enqueue(1, third=3)  # wrong: an unknown parameter
    await add.enqueue()  # wrong: a missing parameter
    await add.enqueue(1, 2, 3)  # wrong: too many
    await crawl.enqueue(None, "http://localhost")  # wrong: the context is not a parameter of the enqueue
    await crawl.trigger(address="http://localhost")  # wrong: an unknown parameter
    await add.options(prio=5).enqueue(1)  # wrong: an unknown option
    await add.options(priority="high").enqueue(1)  # wrong: the type of an option
    await add.options(queue="slow").enqueue(first="1")  # wrong: the type of a parameter
    add.bind("one")  # wrong: the type of a parameter
    result: str = (await add.enqueue(1)).result  # wrong: the type of the result
    print((await add.options(unique="x").enqueue(1)).result)  # wrong: it may be None
    await app.enqueue("add", {"first": 1}, prio=5)  # wrong: an unknown option
    print(result)


async def steering() -> None:
    await app.pause("crawl", reason="the site moves")  # wrong: an unknown option
    await app.update_job("crawl", overlap="skipp")  # wrong: an unknown policy
    await app.executions(job="crawl", state="failed")  # wrong: an unknown filter
    await app.backfill("crawl", order="oldst")  # wrong: an unknown order
    await app.bulk.jobs("pause", queue="web")  # wrong: names are named; a filter is for app.bulk.start
    await app.start(rolls=["worker"])  # wrong: a misspelt setting
    print(app.registry)  # wrong: internals are not public


def blocking() -> None:
    add.sync.enqueue("1")  # wrong: the type of a parameter
    add.options(unique="x").sync.enqueue(first="1")  # wrong: the type of a parameter
    app.sync.pause("crawl", reason="the site moves")  # wrong: an unknown option
    app.sync.enqueue("add", {"first": 1}, prio=5)  # wrong: an unknown option
    app.sync.backfills.pause()  # wrong: a missing parameter
    app.sync.run()  # wrong: not an async method of the application


def watch(event: Event) -> None:
    if isinstance(event, Started):
        print(event.execution.params_json)  # wrong: an execution is not a stored row
        print(event.at + 1)  # wrong: an instant is a datetime


def watch_numbers(event: int) -> None: ...


app.observe(watch_numbers)  # wrong: an observer takes events


def calling() -> None:
    crawl("http://localhost")  # wrong: the function itself takes the context
