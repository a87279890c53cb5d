"""Limits and shares through the application object: what runs, what waits, and why."""

from __future__ import annotations

import asyncio

import pytest

from mainspring import Execution, JobContext, Limit, Mainspring, State
from tests.support import until

pytestmark = pytest.mark.req("FLW-3", "TEN-5")


async def running(app: Mainspring, job: str) -> list[Execution]:
    return [each for each in await app.executions(job=job, running=True) if each.state is State.RUNNING]


async def parked(app: Mainspring, job: str) -> list[Execution]:
    return [each for each in await app.executions(job=job, status="pending") if each.waits_for is not None]


async def reasons(app: Mainspring, job: str) -> dict[str, dict[str, object]]:
    _, found = await (await app._runtime.ready()).overview.why(job)
    return {reason.code: reason.details for reason in found}


@pytest.mark.req("API-10")
async def test_a_limit_holds_for_all_jobs_that_name_its_key_and_who_asks_is_told_who_holds_it() -> None:
    app = Mainspring("memory://", poll_interval=0.1)
    go = asyncio.Event()

    @app.job("one", limits=Limit("shared", concurrency=2))
    async def one(ctx: JobContext) -> None:
        await go.wait()

    @app.job("two", limits=Limit("shared", concurrency=2))
    async def two(ctx: JobContext) -> None:
        await go.wait()

    async with app:
        await app.enqueue_many([("one", {})] * 3)

        async def full() -> bool:
            return len(await running(app, "one")) == 2 and len(await parked(app, "one")) == 1

        await until(full)
        other = await app.enqueue("two")
        assert other is not None
        await until(lambda: parked(app, "two"))
        told = (await reasons(app, "two"))["limit_reached"]
        assert told["limit"] == 2
        assert told["held_by"] == [each.id for each in await running(app, "one")]
        go.set()
        assert (await app.wait(other, timeout=60)).state is State.COMPLETED


@pytest.mark.req("API-10")
async def test_what_waits_for_a_token_says_so() -> None:
    app = Mainspring("memory://", poll_interval=0.1)

    @app.job("slow", limits=Limit("api:{params.host}", rate="1/h"))
    async def slow(ctx: JobContext, host: str) -> None: ...

    async with app:
        first, second, elsewhere = await app.enqueue_many(
            [("slow", {"host": "a"}), ("slow", {"host": "a"}), ("slow", {"host": "b"})]
        )
        assert first is not None
        assert second is not None
        assert elsewhere is not None
        await app.wait(first, timeout=60)
        await app.wait(elsewhere, timeout=60)
        await until(lambda: parked(app, "slow"))
        assert (await app.get(second.id)).waits_for == "api:a"
        assert (await reasons(app, "slow"))["rate_limited"]["key"] == "api:a"


@pytest.mark.req("API-10")
async def test_what_takes_turns_is_told_its_place() -> None:
    app = Mainspring("memory://", concurrency=1, poll_interval=0.1)
    go = asyncio.Event()

    @app.job("work")
    async def work(ctx: JobContext) -> None:
        await go.wait()

    async with app:
        await app.enqueue("work")
        await until(lambda: running(app, "work"))
        await app.enqueue_many([("work", {}, {"tenant": tenant}) for tenant in ("a", "a", "b")])
        told = (await reasons(app, "work"))["fair_share"]
        assert told["other_shares"] == 1
        assert told["place"] in (1, 2)
        go.set()
        await until(lambda: _none_left(app))


async def _none_left(app: Mainspring) -> bool:
    return (await app.job_view("work")).stats.completed == 4
