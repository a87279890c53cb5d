"""Claiming: priority, lanes in turns, future work, exclusive executions."""

from __future__ import annotations

import asyncio

import pytest

from ....model.execution import ExecutionRow, State, next_token
from ....model.store.messages import Exchanged
from ..base import LEASE, StoreSuite, World, as_claimed, ids


class Claiming(StoreSuite):
    @pytest.mark.req("WRK-3")
    async def test_a_claimed_row_is_running_under_owner_token_and_lease(self, world: World) -> None:
        execution = world.execution(params='{"n":1}', unique_key="u")
        await world.add(execution)
        before = await world.get(execution.id)
        world.clock.advance(2.5)
        [row] = await world.claim(stamp=7)
        assert row == await world.get(execution.id)
        assert row == as_claimed(before, world.now, token=next_token(0, 7))

    async def test_a_row_is_claimed_once(self, world: World) -> None:
        await world.add(world.execution())
        assert len(await world.claim()) == 1
        assert await world.claim(owner="w2") == ()

    async def test_the_token_grows_with_every_claim_and_started_stays(self, world: World) -> None:
        row = await world.running()
        first_start = row.started
        for number, stamp in ((2, 5), (3, 4)):
            token = next_token(row.token, stamp)
            assert (token > row.token, token < 2**53) == (True, True)
            await world.settle(row, State.PENDING)
            world.clock.advance(1)
            [row] = await world.claim(owner=f"w{number}", stamp=stamp)
            assert (row.token, row.owner, row.started, row.claimed) == (token, f"w{number}", first_start, world.now)
            assert row.claims == number

    @pytest.mark.req("NUM-2")
    async def test_concurrent_claims_share_the_work_without_overlap(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(60)))
        async with world.second() as other:
            tries = [(world.store, other)[n % 2].exchange([], world.request(owner=f"w{n}", limit=9)) for n in range(10)]
            answers = await asyncio.gather(*tries)
        claimed = [id for answer in answers for id in ids(answer.claimed)]
        assert len(claimed) == len(set(claimed)) == 60

    async def test_the_answer_without_a_claim(self, world: World) -> None:
        await world.add(world.execution())
        answer = await world.store.exchange([], None)
        assert (answer.applied, answer.claimed, answer.blocked, answer.now) == ((), (), (), world.now)


class ClaimOrder(StoreSuite):
    async def test_no_more_than_the_limit_and_more_says_so(self, world: World) -> None:
        batch = [world.execution() for _ in range(5)]
        await world.add(*batch)
        first = await world.exchange(limit=3)
        assert (ids(first.claimed), first.more) == (ids(batch)[:3], True)
        second = await world.exchange(limit=3)
        assert (ids(second.claimed), second.more) == (ids(batch)[3:], False)

    async def test_a_limit_of_zero_claims_nothing_and_looks(self, world: World) -> None:
        await world.add(world.execution(), world.execution(due=world.after(9)))
        answer = await world.exchange(limit=0)
        assert (answer.claimed, answer.more, answer.next_due) == ((), True, world.after(9))

    @pytest.mark.req("FLW-2")
    async def test_highest_priority_first_then_oldest_id(self, world: World) -> None:
        batch = [world.execution(priority=priority) for priority in (0, 5, -1, 5, 1000, 0)]
        await world.add(*reversed(batch))
        assert [batch.index(_same(batch, row)) for row in await world.claim()] == [4, 1, 3, 0, 5, 2]

    @pytest.mark.req("FLW-2")
    async def test_priority_goes_before_the_turn_of_lanes(self, world: World) -> None:
        low = [world.execution(queue="a") for _ in range(2)]
        high = [world.execution(queue="z", priority=1) for _ in range(2)]
        await world.add(*low, *high)
        for turn in (0, 1):
            assert (await world.claim(limit=1, turn=turn))[0].queue == "z"

    async def test_lanes_take_turns_within_a_priority(self, world: World) -> None:
        await world.add(*(world.execution(queue=queue) for queue in ("a", "a", "a", "a", "b", "c")))
        rows = await world.claim(limit=5)
        assert [row.queue for row in rows] == ["a", "b", "c", "a", "a"]

    async def test_turn_says_which_lane_begins(self, world: World) -> None:
        await world.add(*(world.execution(queue=queue) for queue in "aaabbbccc"))
        assert [(await world.claim(limit=1, turn=turn))[0].queue for turn in range(4)] == ["a", "b", "c", "a"]

    async def test_handlers_are_lanes_too(self, world: World) -> None:
        await world.add(*(world.execution(handler=handler) for handler in ("work", "work", "work", "rest")))
        rows = await world.claim(limit=2, handlers=frozenset({"work", "rest"}))
        assert sorted(row.handler for row in rows) == ["rest", "work"]

    async def test_a_crowded_lane_does_not_starve_another(self, world: World) -> None:
        await world.add(*(world.execution(queue="crowd") for _ in range(300)))
        await world.add(world.execution(queue="small"))
        assert "small" in [row.queue for row in await world.claim(limit=2)]

    @pytest.mark.req("WRK-6")
    async def test_unknown_handlers_are_never_claimed(self, world: World) -> None:
        await world.add(world.execution(handler="newer"), world.execution())
        answer = await world.exchange()
        assert ([row.handler for row in answer.claimed], answer.more) == (["work"], False)
        assert await world.claim(handlers=frozenset()) == ()
        [newer] = await world.claim(handlers=frozenset({"newer"}))
        assert (newer.claims, newer.failures) == (1, 0)

    @pytest.mark.req("WRK-1")
    async def test_only_the_queues_asked_for(self, world: World) -> None:
        await world.add(*(world.execution(queue=queue) for queue in ("a", "b", "c")))
        assert [row.queue for row in await world.claim(queues=frozenset({"b", "x"}))] == ["b"]
        assert await world.claim(queues=frozenset()) == ()
        assert [row.queue for row in await world.claim(queues=None)] == ["a", "c"]


class FutureWork(StoreSuite):
    @pytest.mark.req("ENQ-1")
    async def test_a_future_row_is_claimed_when_its_time_has_come(self, world: World) -> None:
        await world.add(world.execution(due=world.after(10)))
        answer = await world.exchange()
        assert (answer.claimed, answer.more, answer.next_due) == ((), False, world.after(10))
        world.clock.advance(9.999999)
        assert await world.claim() == ()
        world.clock.advance(0.000001)
        answer = await world.exchange()
        assert (len(answer.claimed), answer.next_due) == (1, None)

    async def test_next_due_is_the_earliest_whoever_may_claim_it(self, world: World) -> None:
        due = [world.after(seconds) for seconds in (30, 10, 20)]
        await world.add(*(world.execution(due=at, handler="newer") for at in due))
        assert (await world.exchange()).next_due == due[1]

    async def test_next_due_ignores_what_is_ready_running_or_finished(self, world: World) -> None:
        await world.finished()
        await world.running()
        await world.add(world.execution(handler="newer"))
        assert (await world.exchange()).next_due is None

    @pytest.mark.req("FLW-2")
    async def test_promoted_rows_take_their_place_by_priority(self, world: World) -> None:
        ready = world.execution()
        urgent, first = world.execution(due=world.after(1), priority=9), world.execution(due=world.after(2))
        await world.add(ready, urgent, first)
        world.clock.advance(5)
        assert ids(await world.claim()) == [urgent.id, ready.id, first.id]

    async def test_a_past_due_time_is_ready_at_once(self, world: World) -> None:
        await world.add(world.execution(due=0), world.execution(due=world.after(-3600)))
        assert len(await world.claim()) == 2

    async def test_thousands_of_future_rows_do_not_hide_a_ready_one(self, world: World) -> None:
        await world.add(*(world.execution(due=world.after(100 + n)) for n in range(2000)))
        ready = world.execution()
        await world.add(ready)
        assert ids(await world.claim()) == [ready.id]

    async def test_a_flood_of_promotions_is_claimed_in_the_end(self, world: World) -> None:
        await world.add(*(world.execution(due=world.after(1)) for _ in range(2500)))
        world.clock.advance(2)
        claimed = 0
        for _ in range(30):
            claimed += len(await world.claim(limit=100))
        assert claimed == 2500


class ExclusiveExecutions(StoreSuite):
    @pytest.mark.req("EXE-12")
    async def test_other_claims_leave_it_out_and_say_it_waits(self, world: World) -> None:
        poison, plain = world.execution(alone=True, priority=9), world.execution()
        await world.add(poison, plain)
        answer = await world.exchange()
        assert (ids(answer.claimed), answer.alone_waiting, answer.more) == ([plain.id], True, False)

    @pytest.mark.req("EXE-12")
    async def test_only_one_and_nothing_else_is_claimed_alone(self, world: World) -> None:
        await world.add(world.execution(), *(world.execution(alone=True) for _ in range(2)))
        first: Exchanged = await world.exchange(alone=True)
        assert ([row.alone for row in first.claimed], first.alone_waiting) == ([True], True)
        second = await world.exchange(alone=True)
        assert ([row.alone for row in second.claimed], second.alone_waiting) == ([True], False)
        assert (await world.exchange(alone=True)).claimed == ()

    async def test_alone_waiting_is_about_rows_this_worker_could_claim_now(self, world: World) -> None:
        await world.add(
            world.execution(alone=True, handler="newer"),
            world.execution(alone=True, queue="else"),
            world.execution(alone=True, due=world.after(5)),
        )
        answer = await world.exchange(queues=frozenset({"default"}))
        assert (answer.alone_waiting, answer.next_due) == (False, world.after(5))

    @pytest.mark.req("EXE-12")
    async def test_a_change_sets_and_ends_the_mark(self, world: World) -> None:
        row = await world.running()
        await world.settle(row, State.PENDING, alone=True, crashes=2)
        assert await world.claim() == ()
        [row] = await world.claim(alone=True)
        assert (row.alone, row.crashes, row.lease) == (True, 2, world.after(LEASE))
        await world.settle(row, State.PENDING)
        assert len(await world.claim()) == 1


def _same(batch: list[ExecutionRow], row: ExecutionRow) -> ExecutionRow:
    return next(execution for execution in batch if execution.id == row.id)
