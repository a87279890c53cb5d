"""Two-stage keys: switched at the first claim; a conflict defers only that row; an ending makes deferred rows due."""

from __future__ import annotations

from typing import Any

import pytest

from ....model.execution import ExecutionRow, State
from ..base import StoreSuite, World, ids

HALF_STEP = 2.5


class Staging(StoreSuite):
    def staged(self, world: World, enqueued: str | None, running: str | None, **fields: Any) -> ExecutionRow:
        return world.execution(unique_key=enqueued, running_unique_key=running, staged=True, **fields)

    @pytest.mark.req("ENQ-4")
    async def test_the_key_switches_at_pick_up(self, world: World) -> None:
        await world.add(self.staged(world, "waits", "runs"))
        assert await world.outcomes(world.execution(unique_key="waits")) == ["unique_taken"]
        [row] = await world.claim()
        assert (row.unique_key, row.staged, row.claims) == ("runs", False, 1)
        assert await world.outcomes(world.execution(unique_key="runs")) == ["unique_taken"]
        assert await world.outcomes(world.execution(unique_key="waits")) == ["added"]

    @pytest.mark.req("ENQ-4", "WIN-1")
    async def test_the_overlap_key_switches_likewise(self, world: World) -> None:
        queue = {"overlap_key": "job:next", "running_overlap_key": "job", "staged": True}
        await world.add(world.execution(**queue))
        [row] = await world.claim()
        assert (row.overlap_key, row.staged) == ("job", False)
        assert await world.outcomes(world.execution(**queue), world.execution(**queue)) == ["added", "skipped"]

    @pytest.mark.req("ENQ-4")
    async def test_none_means_no_key_in_that_stage(self, world: World) -> None:
        await world.add(self.staged(world, "waits", None))
        [row] = await world.claim()
        assert (row.unique_key, row.staged) == (None, False)
        assert await world.outcomes(world.execution(unique_key="waits")) == ["added"]
        first, second = (self.staged(world, None, "runs") for _ in range(2))
        assert await world.outcomes(first, second) == ["added", "added"]
        assert first.id in ids(await world.claim())

    @pytest.mark.req("ENQ-4")
    async def test_a_row_is_no_obstacle_to_itself(self, world: World) -> None:
        await world.add(self.staged(world, "same", "same", overlap_key="o", running_overlap_key="o"))
        [row] = await world.claim()
        assert (row.unique_key, row.overlap_key, row.staged) == ("same", "o", False)

    @pytest.mark.req("ENQ-4")
    async def test_the_running_key_stays_through_retries(self, world: World) -> None:
        await world.add(self.staged(world, "waits", "runs"))
        [row] = await world.claim()
        await world.settle(row, State.PENDING, delay=60, failures=1)
        assert await world.outcomes(world.execution(unique_key="waits")) == ["added"]
        assert await world.outcomes(world.execution(unique_key="runs")) == ["unique_taken"]

    @pytest.mark.req("ENQ-4")
    async def test_a_conflict_defers_by_five_seconds_and_names_the_holder(self, world: World) -> None:
        holder = await world.running(unique_key="runs")
        waiter = self.staged(world, "waits", "runs")
        await world.add(waiter)
        answer = await world.exchange()
        [blocked] = answer.blocked
        assert (blocked.execution.id, blocked.holder) == (waiter.id, holder.id)
        assert (answer.claimed, answer.next_due) == ((), world.after(5))
        row = await world.get(waiter.id)
        assert (row.state, row.due, row.token, row.failures, row.staged) == (State.PENDING, world.after(5), 0, 0, True)
        assert (row.unique_key, row.owner, row.started) == ("waits", None, None)
        assert row == blocked.execution

    @pytest.mark.req("ENQ-4")
    async def test_it_tries_again_after_the_deferral(self, world: World) -> None:
        await world.running(unique_key="runs")
        await world.add(self.staged(world, None, "runs"))
        for _ in range(3):
            assert len((await world.exchange()).blocked) == 1
            world.clock.advance(HALF_STEP)
            assert (await world.exchange()).blocked == ()
            world.clock.advance(HALF_STEP)

    @pytest.mark.req("ENQ-4")
    async def test_a_conflict_of_the_overlap_key_defers_too(self, world: World) -> None:
        holder = await world.running(overlap_key="job")
        await world.add(world.execution(overlap_key="job:next", running_overlap_key="job", staged=True))
        answer = await world.exchange()
        assert [blocked.holder for blocked in answer.blocked] == [holder.id]

    async def test_a_conflict_defers_that_row_only(self, world: World) -> None:
        await world.running(unique_key="runs")
        batch = [
            self.staged(world, None, "runs"),
            world.execution(),
            self.staged(world, None, "free"),
            self.staged(world, None, "free"),
        ]
        await world.add(*batch)
        answer = await world.exchange()
        assert ids(answer.claimed) == [batch[1].id, batch[2].id]
        assert [(b.execution.id, b.holder) for b in answer.blocked][1] == (batch[3].id, batch[2].id)

    async def test_a_blocked_row_uses_up_one_of_the_limit(self, world: World) -> None:
        await world.running(unique_key="runs")
        await world.add(*(self.staged(world, None, "runs") for _ in range(3)), world.execution())
        for _ in range(3):
            answer = await world.exchange(limit=1)
            assert (len(answer.blocked), answer.claimed, answer.more) == (1, (), True)
        assert len(await world.claim(limit=1)) == 1

    async def test_staged_rows_obey_priority_and_turn_like_others(self, world: World) -> None:
        urgent, plain, last = self.staged(world, None, "a", priority=5), world.execution(), world.execution(priority=-1)
        await world.add(last, plain, urgent)
        assert ids(await world.claim(limit=1)) == [urgent.id]
        assert ids(await world.claim(limit=2)) == [plain.id, last.id]

    async def test_a_held_key_of_a_waiting_row_is_no_running_key(self, world: World) -> None:
        """While it waits, `Unique(enqueued="k")` blocks a second enqueue, and rows that want to run under the key."""
        first = self.staged(world, "k", None, due=world.after(60))
        await world.add(first, self.staged(world, None, "k"))
        answer = await world.exchange()
        assert [blocked.holder for blocked in answer.blocked] == [first.id]


class FreedKeys(StoreSuite):
    @pytest.mark.req("ENQ-4")
    async def test_an_ending_makes_its_waiters_due_at_once(self, world: World) -> None:
        for to in (State.COMPLETED, State.FAILED, State.CANCELLED):
            holder = await world.running(unique_key="runs")
            waiter = world.execution(running_unique_key="runs", staged=True)
            await world.add(waiter)
            assert len((await world.exchange()).blocked) == 1
            world.clock.advance(1)
            assert await world.settle(holder, to)
            assert (await world.get(waiter.id)).due == world.now
            [row] = await world.claim()
            assert row.id == waiter.id
            await world.settle(row)

    @pytest.mark.req("ENQ-4", "WIN-1")
    async def test_settle_then_claim_sees_the_freed_key_in_one_exchange(self, world: World) -> None:
        holder = await world.running(overlap_key="job")
        waiter = world.execution(overlap_key="job:next", running_overlap_key="job", staged=True)
        await world.add(waiter)
        assert len((await world.exchange()).blocked) == 1
        answer = await world.exchange(world.change(holder))
        assert (answer.applied, ids(answer.claimed), answer.blocked) == ((True,), [waiter.id], ())

    async def test_a_waiter_never_tried_before_is_claimed_in_the_same_exchange(self, world: World) -> None:
        holder = await world.running(unique_key="runs")
        waiter = world.execution(running_unique_key="runs", staged=True)
        await world.add(waiter)
        answer = await world.exchange(world.change(holder))
        assert ids(answer.claimed) == [waiter.id]

    async def test_genuinely_future_rows_are_left_alone(self, world: World) -> None:
        holder = await world.running(unique_key="runs")
        future = world.execution(running_unique_key="runs", staged=True, due=world.after(60))
        await world.add(future)
        await world.exchange()
        answer = await world.exchange(world.change(holder))
        assert (answer.claimed, answer.next_due) == ((), world.after(60))
        assert (await world.get(future.id)).due == world.after(60)

    async def test_waiters_for_other_keys_are_left_alone(self, world: World) -> None:
        holder = await world.running(unique_key="a", overlap_key="b")
        other = await world.running(unique_key="b", overlap_key="a")
        await world.add(world.execution(running_unique_key="b", staged=True))
        assert [blocked.holder for blocked in (await world.exchange()).blocked] == [other.id]
        world.clock.advance(1)
        answer = await world.exchange(world.change(holder))
        assert (answer.claimed, answer.next_due) == ((), world.after(4))

    async def test_a_waiter_that_is_due_already_keeps_its_time(self, world: World) -> None:
        holder = await world.running(unique_key="runs")
        waiter = world.execution(running_unique_key="runs", staged=True)
        await world.add(waiter)
        await world.exchange()
        deferred_to = (await world.get(waiter.id)).due
        world.clock.advance(6)
        await world.settle(holder)
        assert (await world.get(waiter.id)).due == deferred_to
        assert ids(await world.claim()) == [waiter.id]

    @pytest.mark.req("ENQ-4")
    async def test_an_ending_wakes_one_of_several_waiters(self, world: World) -> None:
        """The others stay deferred: 200 executions behind one key do not try 200 times each."""
        running = await world.running(unique_key="runs")
        batch = [world.execution(running_unique_key="runs", staged=True) for _ in range(4)]
        urgent = world.execution(running_unique_key="runs", staged=True, priority=5)
        await world.add(*batch, urgent)
        assert len((await world.exchange()).blocked) == 5
        for next_one in (urgent, *batch):
            answer = await world.exchange(world.change(running))
            assert (ids(answer.claimed), answer.blocked) == ([next_one.id], ())
            [running] = answer.claimed

    async def test_an_ending_wakes_the_first_waiter_of_each_lane(self, world: World) -> None:
        """A waiter that no worker takes must not hold up those of other queues, nor one that runs alone."""
        holder = await world.running(overlap_key="job")
        waits = {"running_overlap_key": "job", "staged": True}
        batch = [world.execution(**waits, **own) for own in ({}, {}, {"queue": "slow"}, {"queue": "slow"})]
        exclusive = [world.execution(**waits, alone=True) for _ in range(2)]
        shared = [world.execution(**waits, share="acme") for _ in range(2)]
        await world.add(*batch, *exclusive, *shared)
        assert len((await world.exchange()).blocked) == 6
        assert len([b for _ in exclusive for b in (await world.exchange(alone=True)).blocked]) == 2
        world.clock.advance(1)
        assert await world.settle(holder)
        due = {row.id for row in (*batch, *exclusive, *shared) if (await world.get(row.id)).due == world.now}
        assert due == {batch[0].id, batch[2].id, exclusive[0].id, shared[0].id}

    async def test_a_waiter_that_ends_before_it_was_claimed_passes_its_turn_on(self, world: World) -> None:
        holder = await world.running(unique_key="runs")
        first, second = (world.execution(running_unique_key="runs", staged=True) for _ in range(2))
        await world.add(first, second)
        assert len((await world.exchange()).blocked) == 2
        world.clock.advance(1)
        assert await world.settle(holder)
        assert await world.settle(await world.get(first.id), State.CANCELLED)
        assert ids(await world.claim()) == [second.id]

    async def test_going_back_to_pending_frees_nothing(self, world: World) -> None:
        holder = await world.running(unique_key="runs")
        await world.add(world.execution(running_unique_key="runs", staged=True))
        await world.exchange()
        answer = await world.exchange(world.change(holder, State.PENDING, delay=60))
        assert (answer.claimed, answer.next_due) == ((), world.after(5))

    async def test_a_refused_change_frees_nothing(self, world: World) -> None:
        holder = await world.running(unique_key="runs")
        await world.add(world.execution(running_unique_key="runs", staged=True))
        await world.exchange()
        answer = await world.exchange(world.change(holder, token=99))
        assert (answer.applied, answer.claimed) == ((False,), ())

    async def test_cancelling_a_blocked_row_works_as_on_any_pending_row(self, world: World) -> None:
        await world.running(unique_key="runs")
        waiter = world.execution(unique_key="waits", running_unique_key="runs", staged=True)
        await world.add(waiter)
        await world.exchange()
        assert await world.settle(await world.get(waiter.id), State.CANCELLED)
        assert await world.outcomes(world.execution(unique_key="waits")) == ["added"]
