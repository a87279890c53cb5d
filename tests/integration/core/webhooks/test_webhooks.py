"""Webhooks from the event to the receiver, with real requests on this machine."""

from __future__ import annotations

from mainspring import JobContext, Mainspring, Retry, Skip
from mainspring.webhooks import verify
from tests.receiver import receiving
from tests.support import Nodes, ended, until


async def test_endings_reach_the_endpoints_that_want_them(nodes: Nodes) -> None:
    app = nodes.app(private_urls=True)

    @app.job("good")
    async def good(ctx: JobContext) -> dict[str, int]:
        return {"rows": 3}

    @app.job("bad", max_attempts=2, retry=Retry("10ms", multiplier=1))
    async def bad(ctx: JobContext) -> None:
        raise ValueError("no such table")

    @app.job("idle")
    async def idle(ctx: JobContext) -> None:
        raise Skip("nothing to do")

    async with receiving() as receiver, app:
        await app.start()
        made = await app.webhooks.create(receiver.url("/all"), id="all")
        await app.webhooks.create(receiver.url("/failures"), id="failures", events=["execution.failed"])
        await app.webhooks.create(receiver.url("/good"), id="good", jobs=["good"])
        for name in ("good", "bad", "idle"):
            await ended(app, await app.enqueue(name))
        types = ["execution.completed", "execution.failed", "execution.retrying", "execution.skipped"]
        await until(lambda: receiver.types("/all") == types)
        await until(lambda: receiver.types("/failures") == ["execution.failed"])
        await until(lambda: receiver.types("/good") == ["execution.completed"])
        assert made.secret is not None
        for message in receiver.at("/all"):
            assert verify(message.body, message.headers, made.secret.reveal())["type"] == message.type
        deliveries = await app.webhooks.deliveries("all")
        assert {each.id for each in deliveries} == {each.headers["webhook-id"] for each in receiver.at("/all")}
        await until(lambda: _all_completed(app, "all"))


async def _all_completed(app: Mainspring, id: str) -> bool:
    return all(each.state.value == "completed" for each in await app.webhooks.deliveries(id))
