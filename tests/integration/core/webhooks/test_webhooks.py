"""Webhooks from the event to the receiver, with real requests on this machine."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring import JobContext, Mainspring, NonRetryable, Retention, Retry, Skip, every
from mainspring.webhooks import verify
from tests.receiver import Message, Receiver, receiving
from tests.support import Nodes, ended, until

EXPECTED = {
    ("good", "execution.completed"),
    ("unkept", "execution.completed"),
    ("bad", "execution.retrying"),
    ("bad", "execution.failed"),
    ("bad", "error_group.new"),
    ("worse", "execution.failed"),
    ("bad+worse", "error_group.changed"),
    ("idle", "execution.skipped"),
    ("single", "execution.skipped"),
    ("single", "execution.cancelled"),
    ("nightly", "execution.partial"),
    ("nightly/a", "execution.completed"),
    ("nightly/b", "execution.failed"),
    ("nightly/b", "error_group.new"),
    ("ticking", "job.paused"),
    ("ticking", "job.resumed"),
    ("ticking", "execution.missed"),
}


def shop(nodes: Nodes) -> Mainspring:
    app = nodes.app(private_urls=True)

    @app.job("good")
    async def good(ctx: JobContext) -> dict[str, int]:
        return {"rows": 3}

    @app.job("unkept", retention=Retention(keep_success=False))
    async def unkept(ctx: JobContext) -> None: ...

    @app.job("bad", max_attempts=2, retry=Retry("10ms", multiplier=1))
    async def bad(ctx: JobContext) -> None:
        _query()

    @app.job("worse", max_attempts=1)
    async def worse(ctx: JobContext) -> None:
        _query()

    @app.job("idle")
    async def idle(ctx: JobContext) -> None:
        raise Skip("nothing to do")

    @app.job("single", overlap="skip")
    async def single(ctx: JobContext) -> None:
        await asyncio.Event().wait()

    @app.job("nightly", tenants=["a", "b"])
    async def nightly(ctx: JobContext) -> None:
        if ctx.tenant == "b":
            raise NonRetryable("b is closed")

    @app.job("ticking", trigger=every(seconds=0.2), overlap="allow")
    async def ticking(ctx: JobContext) -> None: ...

    return app


def _query() -> None:
    raise ValueError("no such table")


def subjects(messages: list[Message]) -> set[tuple[str, str]]:
    found = {(_subject(message.event["data"]), message.type) for message in messages}
    return {each for each in found if each != ("ticking", "execution.completed")}


def _subject(data: dict[str, Any]) -> str:
    if "jobs" in data:  # of an error group, which may occur in several
        return "/".join(["+".join(data["jobs"]), *data["tenants"]])
    return f"{data['job']}/{data['tenant']}" if data.get("tenant") else str(data["job"])


async def everything_happens(app: Mainspring, receiver: Receiver) -> None:
    """One event of each kind."""
    for name in ("good", "unkept", "bad", "idle"):
        await ended(app, await app.enqueue(name))
    await until(lambda: ("bad", "error_group.new") in subjects(receiver.at("/all")))
    [group] = await app.errors.all()
    await app.errors.mute(group.id, by="ada")
    await ended(app, await app.enqueue("worse"))
    alive = await app.enqueue("single")
    await app.enqueue("single")
    assert alive is not None
    await app.cancel(alive)
    await ended(app, await app.trigger("nightly"))
    await app.pause("ticking", by="ada", note="migration")
    await until(lambda: _misses_a_tick(app))
    await app.resume("ticking")


async def _misses_a_tick(app: Mainspring) -> bool:
    store = (await app._runtime.engine()).store
    [job] = await store.jobs(["ticking"])
    return job.next_run is not None and job.next_run < await store.now()


async def check_everything(app: Mainspring, receiver: Receiver) -> None:
    await app.start()
    made = await app.webhooks.create(receiver.url("/all"), id="all")
    await app.webhooks.create(receiver.url("/failures"), id="failures", events=["execution.failed"], jobs=["bad"])
    await app.webhooks.create(receiver.url("/tenant"), id="tenant", tenants=["a"])
    await app.webhooks.create(receiver.url("/worse"), id="worse", events=["error_group.changed"], jobs=["worse"])
    await everything_happens(app, receiver)
    await until(lambda: subjects(receiver.at("/all")) == EXPECTED, "all events arrive")
    await until(lambda: subjects(receiver.at("/failures")) == {("bad", "execution.failed")})
    await until(lambda: subjects(receiver.at("/tenant")) == {("nightly/a", "execution.completed")})
    await until(lambda: subjects(receiver.at("/worse")) == {("worse", "error_group.changed")}, "no job of others")
    assert made.secret is not None
    for message in receiver.at("/all"):
        assert verify(message.body, message.headers, made.secret.reveal())["type"] == message.type
    ids = [message.headers["webhook-id"] for message in receiver.at("/all")]
    assert len(ids) == len(set(ids)), "each event is sent once"
    failed = next(each.event for each in receiver.at("/all") if each.type == "execution.failed")["data"]
    assert (failed["attempt"], failed["max_attempts"], "params" in failed) in [
        (2, 2, False),
        (1, 1, False),
        (1, 3, False),
    ]
    deliveries = await app.webhooks.deliveries("all", limit=1_000)
    assert set(ids) <= {each.id for each in deliveries}


@pytest.mark.req("WHK-1", "FLW-4")
async def test_every_event_reaches_the_endpoints_that_want_it(nodes: Nodes) -> None:
    app = shop(nodes)
    async with receiving() as receiver, app:
        await check_everything(app, receiver)
