"""Shares: rows of one lane take turns by share, as `Store.exchange` says under "Shares".

Details, so that all stores give the same order:

- rows with a share are in a lane of their own, right after the lane of the same queue and handler without shares
  (`turn` counts both); limits do not change the lane of a row;
- one call of `add` or `write_jobs` is one batch, and so are all rows that an exchange makes ready before it claims
  (settled back, made due by a freed key, promoted, woken). The rows of a batch get their tags in the order of their
  ids, once all of them are inserted;
- a parked row has no tag but a place in its wait line (see `limits`); it gets a tag when it is ready again.
"""

from __future__ import annotations

from typing import Any

import pytest

from ....model.execution import ExecutionRow, State
from ..base import StoreSuite, World, ids


async def add_shares(world: World, names: str, **fields: Any) -> list[ExecutionRow]:
    """One batch of executions, one per letter."""
    batch = [world.execution(share=name, **fields) for name in names]
    await world.add(*batch)
    return batch


async def shares(world: World, limit: int = 100, **fields: Any) -> str:
    """The shares of the claimed rows, in order."""
    return "".join(row.share or "-" for row in await world.claim(limit=limit, **fields))


class Shares(StoreSuite):
    @pytest.mark.req("TEN-5")
    async def test_shares_with_a_backlog_take_turns(self, world: World) -> None:
        await add_shares(world, "aaaabbbc")
        assert await shares(world) == "abcababa"

    @pytest.mark.req("TEN-5")
    async def test_a_share_that_has_nothing_waiting_goes_to_the_front(self, world: World) -> None:
        heavy = await add_shares(world, "h" * 50)
        assert ids(await world.claim(limit=10)) == ids(heavy[:10])
        for name in "xy":
            await add_shares(world, name)
            assert await shares(world, limit=2) == f"h{name}", "only the row whose turn it was goes before"

    @pytest.mark.req("TEN-5")
    async def test_turns_go_on_from_claim_to_claim_at_one_instant_after_an_idle_hour(self, world: World) -> None:
        await add_shares(world, "aaab")
        assert await shares(world) == "abaa"
        world.clock.advance(3600)
        await add_shares(world, "bbba")
        assert [await shares(world, limit=1) for _ in range(2)] == ["b", "a"], "earlier turns are forgotten"
        await add_shares(world, "aa")
        assert [await shares(world, limit=1) for _ in range(5)] == ["b", "a", "b", "a", ""]

    async def test_a_share_is_served_in_the_order_of_arrival(self, world: World) -> None:
        batch = [execution for _ in range(4) for execution in await add_shares(world, "ab")]
        claimed = await world.claim()
        for name in "ab":
            assert ids(r for r in claimed if r.share == name) == ids(e for e in batch if e.share == name)

    @pytest.mark.req("TEN-5")
    async def test_weights_say_how_many_for_one(self, world: World) -> None:
        await world.add(*(world.execution(share="a", weight=3) for _ in range(6)))
        await world.add(*(world.execution(share="b") for _ in range(3)))
        assert await shares(world) == "abaaabaab"

    @pytest.mark.req("FLW-2")
    async def test_priority_goes_before_the_turn_of_shares(self, world: World) -> None:
        await add_shares(world, "aab")
        await add_shares(world, "aaab", priority=5)
        assert await shares(world) == "abaa" + "aba"

    async def test_each_priority_has_turns_of_its_own(self, world: World) -> None:
        await add_shares(world, "aaaaa", priority=1)
        await add_shares(world, "ba", priority=0)
        assert await shares(world) == "aaaaa" + "ba"

    async def test_rows_without_a_share_are_a_lane_of_their_own_and_take_turns(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(4)))
        await add_shares(world, "aabb")
        assert await shares(world, limit=4) == "-a-b"
        assert await shares(world, limit=2, turn=1) == "a-"
        assert await shares(world) == "-b"

    async def test_queues_and_handlers_have_lanes_of_their_own(self, world: World) -> None:
        for queue in ("p", "q"):
            await add_shares(world, "aab", queue=queue)
        rows = await world.claim()
        assert [f"{row.queue}{row.share}" for row in rows] == ["pa", "qa", "pb", "qb", "pa", "qa"]

    async def test_two_handles_see_one_order(self, world: World) -> None:
        await add_shares(world, "aaa")
        async with world.second() as other:
            await other.add([world.execution(share="b"), world.execution(share="b")])
            answers = [await store.exchange([], world.request(limit=1)) for store in (other, world.store) * 3]
        assert "".join(row.share or "-" for answer in answers for row in answer.claimed) == "ababa"

    async def test_a_batch_gets_its_tags_in_the_order_of_ids(self, world: World) -> None:
        first, second, third = (world.execution(share="a") for _ in range(3))
        await world.add(third, world.execution(share="b"), first, second)
        assert ids(await world.claim(limit=1)) == [first.id]
        assert await shares(world, limit=1) == "b"
        assert ids(await world.claim()) == [second.id, third.id]

    async def test_future_work_gets_its_tag_when_its_time_comes(self, world: World) -> None:
        await add_shares(world, "aaa", due=world.after(10))
        await add_shares(world, "bb")
        assert await shares(world, limit=1) == "b"
        world.clock.advance(10)
        assert await shares(world) == "abaa", "a had nothing waiting until now, and begins where b is"

    async def test_what_goes_back_to_pending_queues_up_again(self, world: World) -> None:
        await add_shares(world, "aabb")
        [first] = await world.claim(limit=1)
        await world.settle(first, State.PENDING)
        rows = await world.claim()
        assert [row.share for row in rows] == ["b", "a", "b", "a"]
        assert rows[-1].id == first.id

    async def test_a_row_made_due_by_a_freed_key_gets_its_tag_then(self, world: World) -> None:
        holder = await world.running(unique_key="k", share="a")
        blocked = world.execution(share="a", running_unique_key="k", staged=True)
        await world.add(blocked)
        assert (await world.exchange()).blocked[0].execution.id == blocked.id
        await add_shares(world, "aab")
        answer = await world.exchange(world.change(holder))
        assert [row.share for row in answer.claimed] == ["a", "b", "a", "a"]
        assert answer.claimed[-1].id == blocked.id

    async def test_many_shares_are_all_served_before_one_is_served_twice(self, world: World) -> None:
        names = [f"tenant-{n}" for n in range(60)]
        await world.add(*(world.execution(share=name) for name in names for _ in range(3)))
        for _ in range(3):
            assert sorted(row.share or "" for row in await world.claim(limit=60)) == sorted(names)

    async def test_rows_that_run_alone_have_shares_too(self, world: World) -> None:
        await add_shares(world, "aab", alone=True)
        await add_shares(world, "c")
        answer = await world.exchange()
        assert ([row.share for row in answer.claimed], answer.alone_waiting) == (["c"], True)
        assert "".join([await shares(world, alone=True) for _ in range(3)]) == "aba"

    async def test_share_weight_limits_and_flow_stay_with_the_row(self, world: World) -> None:
        text = '[{"key":"k \\"é\\"","concurrency":3}]'
        fields: dict[str, Any] = {"share": "t 'ü'", "weight": 7, "limits": text, "flow": "f1"}
        done = await world.finished(**fields)
        waiting = world.execution(due=world.after(60), **fields)
        await world.add(waiting)
        for row in (done, await world.get(waiting.id)):
            assert (row.share, row.weight, row.limits, row.flow) == tuple(fields.values())
