"""From a handler that fails to the group of its error; and search keys, from parameters and handlers to the list."""

from __future__ import annotations

import time

import pytest

from mainspring import JobContext
from mainspring.core.webhooks.hand_over import SYSTEM_JOB
from mainspring.model.events import AttemptEnded
from tests.support import Nodes, Seen, until


@pytest.mark.req("SRC-1", "SRC-2")
async def test_failures_are_found_by_their_keys_and_grouped_by_their_error(nodes: Nodes) -> None:
    app, seen = nodes.app(release="r1", fold_interval=0.05, private_urls=True), Seen()
    app.observe(seen)

    @app.job("charge", search=("order_id", "user.id"), max_attempts=2, retry={"delays": ["0.01s"]})
    async def charge(ctx: JobContext, order_id: int, user: dict[str, str]) -> None:
        ctx.tag(shop=user["shop"])
        raise ValueError(f"order {order_id} of {user['id']!r} is not paid")

    @app.job("slow", timeout=0.05, max_attempts=1)
    def slow(ctx: JobContext) -> None:
        ctx.tag(kind="slow")
        while not ctx.cancelled:
            time.sleep(0.01)
        ctx.check()

    async with app:
        await app.webhooks.create("http://127.0.0.1:1/all", id="all", events=["error_group.new"])
        both_kinds = ["execution.failed", "execution.retrying"]
        await app.webhooks.create("http://127.0.0.1:1/chat", id="chat", format="slack", events=both_kinds)
        await app.webhooks.create("http://127.0.0.1:1/program", id="program", events=both_kinds)
        orders = [
            await app.enqueue("charge", {"order_id": n, "user": {"id": f"u{n}", "shop": f"s{n % 2}"}}) for n in range(4)
        ]
        ended = [await app.wait(each) for each in (*orders, await app.enqueue("slow"))]
        groups = {each.error_group for each in ended}
        assert len(groups) == 2
        assert None not in groups

        async def counted() -> bool:
            return sum(each.count for each in await app.errors.all()) == 9

        await until(counted)
        by_count = await app.errors.all(sort="count")
        assert [(each.type, each.count, each.failures) for each in by_count] == [
            ("ValueError", 8, 4),
            ("timeout", 1, 1),
        ]
        [unpaid, _] = [await app.errors.get(each.id) for each in by_count]
        assert unpaid.message == "order <n> of <text> is not paid"
        assert unpaid.frame.endswith("charge")
        assert unpaid.sample is not None
        assert "is not paid" in unpaid.sample.traceback
        assert unpaid.last_release == "r1"

        # Search keys of parameters and of handlers find live and finished executions.
        third = ended[2]
        assert third.search_keys == {"order_id": ["2"], "user.id": ["u2"], "shop": ["s0"]}
        assert [each.id for each in await app.executions(search=["order_id=2"])] == [third.id]
        both = await app.executions(search=["shop=s0"], error_group=unpaid.id)
        assert {each.id for each in both} == {ended[0].id, ended[2].id}
        assert [each.error_group for each in await app.executions(search=["kind=slow"])] == [by_count[1].id]
        assert {each.error_group for each in third.attempts} == {unpaid.id}
        noticed = [each for each in seen.events if isinstance(each, AttemptEnded) and each.error_group == unpaid.id]
        assert len(noticed) == 8

        # Endpoints have heard of the two new groups, once each.
        async def sent(endpoint: str) -> list[str]:
            rows = await app.executions(job=SYSTEM_JOB, tenant=endpoint, limit=100)
            return sorted(each.params["event"] for each in rows)

        async def both_announced() -> bool:
            return await sent("all") == ["error_group.new"] * 2

        await until(both_announced)

        # Chats hear nothing of failures whose error is muted.
        async def in_chat() -> int:
            return len(await sent("chat"))

        async def all_in_chat() -> bool:
            return await in_chat() == 9

        await until(all_in_chat)
        await app.errors.mute(unpaid.id, note="known", by="ada")
        again = await app.wait(await app.enqueue("charge", {"order_id": 9, "user": {"id": "u9", "shop": "s1"}}))
        assert again.error_group == unpaid.id

        async def counted_again() -> bool:
            return (await app.errors.get(unpaid.id)).count == 10

        await until(counted_again)

        async def program_knows() -> bool:
            return len(await sent("program")) == 11

        await until(program_knows)
        assert await in_chat() == 9

        # Retry all that failed with the error, as a bulk action.
        bulk = await app.bulk.wait((await app.errors.retry(unpaid.id, by="ada")).id, timeout=30)
        assert bulk.done == 5
