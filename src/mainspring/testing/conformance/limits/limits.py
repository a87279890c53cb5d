"""Limits by key: slots and tokens, rows parked for them and woken, as `Store.exchange` says under "Limits".

Details, so that all stores do the same:

- a running row holds a slot of every key in its limits, whatever the kind of limit, once per key;
- a parked row waits for a slot of its key (a limit with `concurrency`) or for a token (a limit with `rate`). Freed
  slots wake rows that wait for a slot, once all changes of the exchange are applied; only tokens wake rows that wait
  for a token. A change to a row that is parked, or was woken, has both kinds of its key checked;
- room is what is left at that moment: `concurrency` less the slots in use, or whole tokens, for each wait line by its
  own numbers and as if the other lines got none;
- each key and kind that rows wait for is checked 5 s after a row was parked, or as soon as its bucket holds a token
  again, whichever comes first, so the cost does not depend on the number of parked rows. While rows are left, the next
  check is 5 s later, or when the bucket holds the next token, computed for each line as if it had taken all its tokens;
- woken rows are ready, no longer `parked`, keep their `due`, and get a tag if they have a share; rows woken by a claim
  are claimed by later exchanges, and may be parked again. An exchange wakes first, then promotes and gives tags, then
  claims, then gives tags to the rows that the claim woke: each time in the order of ids;
- rows are parked one after another, in the order of claiming; that gives them their places;
- a level within a millionth of a whole token counts as that token, because sums are rounded;
- a record that is copied in is ready or future, never parked.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ....model.execution import ExecutionRow, State
from ....model.limits import Limit, encode_limits
from ....model.store.copy_records import ExecutionRecord
from ....model.store.messages import ExecutionQuery
from ..base import LEASE, StoreSuite, World, ids

LOOK = 5.0  # seconds after which a key is checked in any case


def limited(world: World, *limits: Limit, **fields: Any) -> ExecutionRow:
    return world.execution(limits=encode_limits(limits), **fields)


def at_once(count: int, key: str = "k") -> Limit:
    return Limit(key, concurrency=count)


async def add_limited(world: World, count: int, *limits: Limit, **fields: Any) -> list[ExecutionRow]:
    batch = [limited(world, *limits, **fields) for _ in range(count)]
    await world.add(*batch)
    return batch


async def parked(world: World) -> dict[str, str]:
    """Ids of parked rows, with their keys."""
    rows = await world.store.find(ExecutionQuery(limit=1_000))
    return {row.id: row.parked for row in rows if row.parked is not None}


class ConcurrencyLimits(StoreSuite):
    @pytest.mark.req("FLW-3")
    async def test_no_more_run_than_the_limit_and_the_rest_is_parked(self, world: World) -> None:
        batch = await add_limited(world, 5, at_once(2))
        answer = await world.exchange()
        assert ids(answer.claimed) == ids(batch[:2])
        assert await parked(world) == dict.fromkeys(ids(batch[2:]), "k")
        assert (answer.more, answer.next_due) == (False, world.after(LOOK))
        row = await world.get(batch[3].id)
        assert (row.state, row.due, row.token, row.owner) == (State.PENDING, batch[3].due, 0, None)
        assert await world.claim() == ()

    @pytest.mark.req("FLW-3")
    async def test_whatever_a_row_becomes_its_slot_goes_to_the_next(self, world: World) -> None:
        for to in (State.COMPLETED, State.FAILED, State.CANCELLED, State.PENDING, State.WAITING):
            batch = await add_limited(world, 4, at_once(2, f"until {to}"))
            first, second = await world.claim()
            answer = await world.exchange(world.change(first, to, delay=60.0))
            assert ids(answer.claimed) == [batch[2].id]
            assert await parked(world) == {batch[3].id: f"until {to}"}
            answer = await world.exchange(world.change(second, to, delay=60.0))
            assert ids(answer.claimed) == [batch[3].id]
            assert answer.claimed[0].parked is None

    async def test_as_many_are_woken_as_slots_were_freed(self, world: World) -> None:
        batch = await add_limited(world, 9, at_once(3))
        running = await world.claim()
        await world.store.exchange([world.change(row) for row in running[:2]], None)
        assert await parked(world) == dict.fromkeys(ids(batch[5:]), "k")
        assert ids(await world.claim()) == ids(batch[3:5])

    @pytest.mark.req("FLW-3")
    async def test_endings_of_all_kinds_in_one_exchange_free_one_slot_each(self, world: World) -> None:
        """Stores take different ways through an exchange for the usual endings, other endings, and rows that live on:
        together they free as many slots as rows have left `running`, no more and no fewer."""
        batch = await add_limited(world, 24, at_once(7))
        running = await world.claim(limit=30)
        assert ids(running) == ids(batch[:7])
        kinds: list[dict[str, Any]] = [
            {},
            {"to": State.FAILED, "failures": 1},
            {"to": State.PENDING, "delay": 60.0, "failures": 1},
            {"keep": False},
            {"to": State.WAITING},
            {"to": State.CANCELLED, "reason": "stop"},
            {"token": 99},
        ]
        changes = [world.change(row, **kind) for row, kind in zip(running, kinds, strict=True)]
        answer = await world.exchange(*changes, world.change(await world.get(batch[7].id), State.CANCELLED), limit=30)
        assert answer.applied == (True,) * 6 + (False, True)
        assert (ids(answer.claimed), answer.more) == (ids(batch[8:14]), False)
        assert await world.claim(limit=30) == (), "the refused ending has freed nothing"
        ends = [world.change(row, State.FAILED if n % 2 else State.COMPLETED) for n, row in enumerate(answer.claimed)]
        answer = await world.exchange(*ends, world.change(running[6]), limit=30)
        assert ids(answer.claimed) == ids(batch[14:21])
        assert sorted(await parked(world)) == ids(batch[21:])

    async def test_the_first_by_priority_then_share_then_id_is_woken(self, world: World) -> None:
        [holder] = await add_limited(world, 1, at_once(1))
        [running] = await world.claim()
        assert running.id == holder.id
        shared = [limited(world, at_once(1), share=name) for name in "aab"]
        urgent = limited(world, at_once(1), share="a", priority=9)
        await world.add(*shared, urgent)
        await world.claim()
        assert len(await parked(world)) == 4
        order = []
        for _ in range(4):
            [running] = (await world.exchange(world.change(running))).claimed
            order.append(running.id)
        assert order == [urgent.id, shared[0].id, shared[2].id, shared[1].id]

    async def test_a_parked_row_uses_up_one_of_the_limit(self, world: World) -> None:
        await add_limited(world, 4, at_once(1))
        later = world.execution()
        await world.add(later)
        first = await world.exchange(limit=3)
        assert (len(first.claimed), len(await parked(world)), first.more) == (1, 2, True)
        assert ids(await world.claim(limit=3)) == [later.id]

    async def test_parked_rows_stand_in_nobodys_way(self, world: World) -> None:
        await add_limited(world, 6, at_once(1))
        await world.claim()
        batch = [world.execution() for _ in range(3)]
        await world.add(*batch)
        assert ids(await world.claim(limit=3)) == ids(batch)

    async def test_keys_are_limited_each_on_its_own(self, world: World) -> None:
        for key in ("a", "b"):
            await add_limited(world, 2, at_once(1, key))
        assert len(await world.claim()) == 2
        assert sorted((await parked(world)).values()) == ["a", "b"]

    async def test_of_several_limits_each_must_have_room_and_the_first_without_is_named(self, world: World) -> None:
        both = (at_once(2, "all"), at_once(1, "one"))
        batch = await add_limited(world, 2, *both)
        [running] = await world.claim()
        assert await parked(world) == {batch[1].id: "one"}
        other = await add_limited(world, 2, at_once(2, "all"), at_once(1, "two"))
        assert ids(await world.claim()) == [other[0].id]
        assert await parked(world) == {batch[1].id: "one", other[1].id: "all"}
        answer = await world.exchange(world.change(running))
        assert ids(answer.claimed) == [batch[1].id]

    async def test_room_that_a_woken_row_cannot_use_goes_to_the_next(self, world: World) -> None:
        await add_limited(world, 1, at_once(1, "all"))
        [running] = await world.claim()
        first = await add_limited(world, 2, at_once(1, "all"), at_once(1, "one"))
        await world.claim()
        blocker = await world.add(limited(world, at_once(1, "one")))
        [busy] = await world.claim()
        assert busy.id == blocker[0].id
        free = await add_limited(world, 1, at_once(1, "all"))
        await world.claim()
        assert sorted((await parked(world)).values()) == ["all"] * 3
        seen = ids((await world.exchange(world.change(running))).claimed)
        for _ in range(2):
            seen += ids(await world.claim())
        assert seen == [free[0].id]
        assert await parked(world) == dict.fromkeys(ids(first), "one")

    async def test_the_numbers_of_the_row_being_claimed_count(self, world: World) -> None:
        await add_limited(world, 2, at_once(2))
        assert len(await world.claim()) == 2
        narrow, wide = limited(world, at_once(1)), limited(world, at_once(3))
        await world.add(narrow, wide)
        assert ids(await world.claim()) == [wide.id]
        assert await parked(world) == {narrow.id: "k"}

    async def test_work_recorded_inline_holds_a_slot(self, world: World) -> None:
        inline = limited(
            world, at_once(1), state=State.RUNNING, owner="w9", token=1, lease=world.after(LEASE), claimed=world.now
        )
        await world.add(inline, limited(world, at_once(1)))
        assert await world.claim() == ()
        assert len((await world.exchange(world.change(inline))).claimed) == 1

    @pytest.mark.req("FLW-3")
    async def test_a_rescue_frees_the_slot_of_a_lost_worker(self, world: World) -> None:
        batch = await add_limited(world, 2, at_once(1))
        [running] = await world.claim()
        world.clock.advance(LEASE + 1)
        assert await world.claim() == (), "an expired lease keeps its slot until the execution is rescued"
        answer = await world.exchange(world.change(running, State.PENDING, rescue=True, delay=60.0))
        assert ids(answer.claimed) == [batch[1].id]

    async def test_a_parked_row_can_be_cancelled_and_one_that_was_woken_too(self, world: World) -> None:
        batch = await add_limited(world, 4, at_once(1))
        [running] = await world.claim()
        assert await world.settle(await world.get(batch[1].id), State.CANCELLED)
        assert (await world.get(batch[1].id)).parked is None
        await world.settle(running)
        woken = await world.get(batch[2].id)
        assert (woken.parked, woken.state) == (None, State.PENDING)
        assert await world.settle(woken, State.CANCELLED)
        assert ids(await world.claim()) == [batch[3].id]

    async def test_a_look_that_finds_no_room_leaves_all_parked(self, world: World) -> None:
        batch = await add_limited(world, 4, at_once(1))
        await world.claim(lease=600.0)
        for _ in range(3):
            world.clock.advance(LOOK)
            answer = await world.exchange()
            assert (answer.claimed, answer.next_due) == ((), world.after(LOOK))
            assert await parked(world) == dict.fromkeys(ids(batch[1:]), "k")

    async def test_no_look_is_left_when_nobody_is_parked(self, world: World) -> None:
        await add_limited(world, 2, at_once(1))
        [running] = await world.claim()
        answer = await world.exchange(world.change(running))
        assert (len(answer.claimed), answer.next_due) == (1, None)
        [other] = await add_limited(world, 1, at_once(1))
        assert (await world.exchange()).next_due == world.after(LOOK)
        assert await world.settle(await world.get(other.id), State.CANCELLED)
        assert (await world.exchange()).next_due is None

    @pytest.mark.req("FLW-3")
    async def test_a_staged_row_is_judged_by_its_limits_first(self, world: World) -> None:
        keyed = {"running_unique_key": "u", "staged": True}
        [holder] = await add_limited(world, 1, at_once(2), **keyed)
        [running] = await world.claim()
        assert running.id == holder.id
        blocked, free = limited(world, at_once(2), **keyed), limited(world, at_once(2))
        await world.add(blocked, free)
        answer = await world.exchange()
        assert (ids(answer.claimed), ids(b.execution for b in answer.blocked)) == ([free.id], [blocked.id])
        last = limited(world, at_once(2), **keyed)
        await world.add(last)
        answer = await world.exchange()
        assert (answer.claimed, answer.blocked) == ((), ())
        assert await parked(world) == {last.id: "k"}

    @pytest.mark.req("FLW-3", "NUM-2")
    async def test_claims_at_the_same_time_never_exceed_the_limit(self, world: World) -> None:
        await add_limited(world, 40, at_once(3))
        async with world.second() as other:
            done = 0
            while done < 40:
                tries = [(world.store, other)[n % 2].exchange([], world.request(owner=f"w{n}")) for n in range(6)]
                answers = await asyncio.gather(*tries)
                rows = [row for answer in answers for row in answer.claimed]
                assert 1 <= len(rows) <= 3
                done += len(rows)
                await asyncio.gather(
                    *((world.store, other)[n % 2].exchange([world.change(row)], None) for n, row in enumerate(rows))
                )
        assert await parked(world) == {}

    async def test_a_copied_row_is_not_parked(self, world: World) -> None:
        await add_limited(world, 2, at_once(1))
        await world.claim()
        records = [
            ExecutionRecord(execution=row)
            for row in await world.store.find(ExecutionQuery())
            if row.state is State.PENDING
        ]
        assert [record.execution.parked for record in records] == ["k"]
        async with self.open_store(world.clock) as elsewhere:
            assert await elsewhere.copy_in("executions", records) == 1
            [row] = (await elsewhere.exchange([], world.request())).claimed
            assert (row.id, row.parked, row.limits) == (records[0].execution.id, None, records[0].execution.limits)

    async def test_a_running_row_that_is_copied_in_brings_its_slot(self, world: World) -> None:
        await add_limited(world, 1, at_once(1))
        [running] = await world.claim()
        async with self.open_store(world.clock) as elsewhere:
            await elsewhere.copy_in("executions", [ExecutionRecord(execution=running)])
            waiting = limited(world, at_once(1))
            await elsewhere.add([waiting])
            assert (await elsewhere.exchange([], world.request())).claimed == ()
            answer = await elsewhere.exchange([world.change(running)], world.request())
            assert ids(answer.claimed) == [waiting.id]


class RateLimits(StoreSuite):
    @pytest.mark.req("FLW-3")
    async def test_a_bucket_begins_full_and_fills_up_with_time(self, world: World) -> None:
        batch = await add_limited(world, 9, Limit("api", rate=2.0, burst=3))
        answer = await world.exchange()
        assert (ids(answer.claimed), answer.next_due) == (ids(batch[:3]), world.after(0.5))
        assert set((await parked(world)).values()) == {"api"}
        world.clock.advance(0.4)
        assert await world.claim() == ()
        world.clock.advance(0.1)
        answer = await world.exchange()
        assert (ids(answer.claimed), answer.next_due) == (ids(batch[3:4]), world.after(0.5))
        world.clock.advance(1.25)
        assert ids(await world.claim()) == ids(batch[4:6])
        world.clock.advance(60)
        assert ids(await world.claim()) == ids(batch[6:])

    async def test_no_more_than_the_burst_is_ever_saved_up(self, world: World) -> None:
        await add_limited(world, 10, Limit("api", rate=5.0, burst=2))
        assert len(await world.claim()) == 2
        world.clock.advance(3600)
        assert len(await world.claim()) == 2

    @pytest.mark.req("FLW-3")
    async def test_a_second_claim_at_the_same_instant_finds_what_the_first_has_left(self, world: World) -> None:
        """After an idle hour the bucket is full once, not once for each claim."""
        for limit in (Limit("ready", rate=5.0, burst=3), Limit("waits", rate=5.0, burst=3)):
            await add_limited(world, 10, limit)
            assert len(await world.claim(limit=3 if limit.key == "ready" else 10)) == 3
            world.clock.advance(3600)
            assert [len(await world.claim(limit=1)) for _ in range(5)] == [1, 1, 1, 0, 0]
            world.clock.advance(0.2)
            assert [len(await world.claim(limit=1)) for _ in range(2)] == [1, 0]
            for row in await world.store.find(ExecutionQuery(states=frozenset({State.PENDING}), limit=100)):
                assert await world.settle(row, State.CANCELLED)

    async def test_ends_bring_no_tokens(self, world: World) -> None:
        await add_limited(world, 3, Limit("api", rate=0.01, burst=1))
        [row] = await world.claim()
        answer = await world.exchange(world.change(row))
        assert (answer.claimed, len(await parked(world))) == ((), 2)

    async def test_only_as_many_are_woken_as_there_are_tokens(self, world: World) -> None:
        await add_limited(world, 8, Limit("api", rate=1.0, burst=4))
        await world.claim()
        world.clock.advance(2)
        await world.store.exchange([], None)
        assert len(await parked(world)) == 2
        assert len(await world.claim()) == 2

    async def test_a_slow_bucket_is_looked_at_in_time_and_gives_its_token_when_it_has_one(self, world: World) -> None:
        await add_limited(world, 2, Limit("api", rate="1/m", burst=1))
        assert (await world.exchange()).next_due == world.after(LOOK)
        for _ in range(11):
            world.clock.advance(LOOK)
            answer = await world.exchange()
            assert (answer.claimed, answer.next_due) == ((), world.after(LOOK))
        world.clock.advance(LOOK)
        answer = await world.exchange()
        assert (len(answer.claimed), answer.next_due) == (1, None)

    async def test_a_token_is_only_taken_by_a_row_that_is_claimed(self, world: World) -> None:
        rate = Limit("api", rate=0.001, burst=2)
        await add_limited(world, 3, rate, at_once(1))
        [row] = await world.claim()
        assert sorted((await parked(world)).values()) == ["k", "k"]
        answer = await world.exchange(world.change(row))
        assert len(answer.claimed) == 1
        answer = await world.exchange(world.change(answer.claimed[0]))
        assert answer.claimed == ()
        assert sorted((await parked(world)).values()) == ["api"]

    async def test_a_blocked_row_takes_no_token(self, world: World) -> None:
        await world.running(unique_key="u")
        rate = Limit("api", rate=0.001, burst=1)
        await add_limited(world, 1, rate, running_unique_key="u", staged=True)
        assert len((await world.exchange()).blocked) == 1
        await add_limited(world, 1, rate)
        assert len(await world.claim()) == 1

    async def test_one_bucket_for_all_handles(self, world: World) -> None:
        await add_limited(world, 20, Limit("api", rate=10.0, burst=4))
        async with world.second() as other:
            counts = []
            for _ in range(4):
                answers = [await store.exchange([], world.request(limit=3)) for store in (world.store, other) * 3]
                counts.append(sum(len(answer.claimed) for answer in answers))
                world.clock.advance(0.25)
        assert counts[0] == 4
        assert sum(counts) == 4 + 7, "0.75 s at 10 a second: seven and a half tokens"

    async def test_a_clock_that_is_set_back_gives_nothing_and_takes_nothing(self, world: World) -> None:
        await add_limited(world, 5, Limit("api", rate=1.0, burst=2))
        await world.claim()
        world.clock.jump(-3600)
        assert await world.claim() == ()
        world.clock.advance(1)
        assert len(await world.claim()) == 1, "it fills up from the time that is now"
        world.clock.advance(32)
        assert len(await world.claim()) == 2

    async def test_a_bucket_that_is_full_again_may_be_forgotten_and_another_may_not(self, world: World) -> None:
        await add_limited(world, 2, Limit("quick", rate=100.0, burst=1))
        await add_limited(world, 2, Limit("slow", rate=0.001, burst=1))
        assert len(await world.claim()) == 2
        world.clock.advance(LOOK)
        await world.store.prune_workers(60.0)
        assert [row.limits for row in await world.claim()] == [encode_limits([Limit("quick", rate=100.0, burst=1)])]
