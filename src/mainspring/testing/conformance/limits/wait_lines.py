"""Wait lines of parked rows: shares take turns in them, and room that a row cannot use goes to another at once."""

from __future__ import annotations

import pytest

from ....model.execution import ExecutionRow, State
from ....model.limits import Limit
from ..base import StoreSuite, World, ids
from .limits import LOOK, add_limited, at_once, parked


async def served(world: World, running: ExecutionRow, count: int) -> list[ExecutionRow]:
    """The next rows to run, one after another, under a single slot."""
    rows = []
    for _ in range(count):
        [running] = (await world.exchange(world.change(running))).claimed
        rows.append(running)
    return rows


class WaitLines(StoreSuite):
    @pytest.mark.req("TEN-5", "FLW-3")
    async def test_shares_take_turns_while_everything_is_parked(self, world: World) -> None:
        await add_limited(world, 1, at_once(1))
        [running] = await world.claim()
        await add_limited(world, 4, at_once(1), share="a")
        await world.claim()
        for _ in range(3):
            await add_limited(world, 1, at_once(1), share="b")
            assert await world.claim() == ()
        rows = await served(world, running, 7)
        assert "".join(row.share or "-" for row in rows) == "abababa"

    @pytest.mark.req("TEN-5", "FLW-3")
    async def test_a_share_whose_rows_are_woken_takes_turns_with_what_is_ready(self, world: World) -> None:
        rate = Limit("api", rate=1.0, burst=4)
        await add_limited(world, 8, rate, share="a")
        assert len(await world.claim()) == 4
        world.clock.advance(4)
        await world.add(*(world.execution(share="b") for _ in range(4)))
        assert "".join(row.share or "-" for row in await world.claim()) == "abababab"

    @pytest.mark.req("FLW-3")
    async def test_a_weight_counts_among_those_that_are_parked(self, world: World) -> None:
        await add_limited(world, 1, at_once(1))
        [running] = await world.claim()
        await add_limited(world, 4, at_once(1), share="a", weight=3)
        await add_limited(world, 2, at_once(1), share="b")
        await world.claim()
        rows = await served(world, running, 6)
        assert "".join(row.share or "-" for row in rows) == "abaaab"

    async def test_a_woken_row_that_finds_no_room_gets_its_place_back(self, world: World) -> None:
        await add_limited(world, 1, at_once(1))
        [running] = await world.claim()
        batch = await add_limited(world, 3, at_once(1), share="a")
        await world.claim()
        await world.settle(running)
        [urgent] = await add_limited(world, 1, at_once(1), share="b", priority=9)
        [running] = await world.claim()
        assert running.id == urgent.id
        assert await parked(world) == dict.fromkeys(ids(batch), "k")
        assert ids(await served(world, running, 3)) == ids(batch)

    @pytest.mark.req("FLW-3")
    async def test_smaller_numbers_stand_in_nobodys_way(self, world: World) -> None:
        running = await add_limited(world, 3, at_once(3))
        first, second, third = await world.claim()
        assert len(running) == 3
        [narrow] = await add_limited(world, 1, at_once(1))
        wide = await add_limited(world, 2, at_once(3))
        await world.claim()
        assert len(await parked(world)) == 3
        answer = await world.exchange(world.change(first))
        assert ids(answer.claimed) == [wide[0].id]
        await world.store.exchange([world.change(second), world.change(third)], None)
        assert ids(await world.claim()) == [wide[1].id]
        assert await parked(world) == {narrow.id: "k"}
        for row in [answer.claimed[0], await world.get(wide[1].id)]:
            assert await world.settle(row)
        assert ids(await world.claim()) == [narrow.id]

    async def test_a_look_judges_each_line_by_its_own_numbers(self, world: World) -> None:
        await add_limited(world, 2, at_once(2))
        await world.claim(lease=600.0)
        [narrow] = await add_limited(world, 1, at_once(1))
        await world.claim()
        slow, quick = Limit("api", rate=0.01, burst=1), Limit("api", rate=1.0, burst=1)
        await add_limited(world, 1, quick)
        assert len(await world.claim(lease=600.0)) == 1
        held = await add_limited(world, 1, slow)
        free = await add_limited(world, 1, quick)
        await world.claim()
        world.clock.advance(LOOK)
        assert ids(await world.claim()) == [free[0].id]
        assert await parked(world) == {narrow.id: "k", held[0].id: "api"}

    @pytest.mark.req("FLW-3")
    async def test_what_no_worker_claims_keeps_no_room_from_others(self, world: World) -> None:
        await add_limited(world, 1, at_once(1))
        [running] = await world.claim()
        stuck = await add_limited(world, 3, at_once(1), handler="nobody's", queue="q")
        await world.store.exchange([], world.request(handlers=frozenset({"nobody's"})))
        batch = await add_limited(world, 3, at_once(1))
        await world.claim()
        assert len(await parked(world)) == 6
        assert ids(await served(world, running, 3)) == ids(batch)
        assert {row.state for row in [await world.get(row.id) for row in stuck]} == {State.PENDING}

    @pytest.mark.req("FLW-3")
    async def test_a_blocked_row_passes_its_room_on(self, world: World) -> None:
        await world.running(unique_key="u")
        await add_limited(world, 1, at_once(1))
        [running] = await world.claim()
        [staged] = await add_limited(world, 1, at_once(1), running_unique_key="u", staged=True)
        [plain] = await add_limited(world, 1, at_once(1))
        await world.claim()
        answer = await world.exchange(world.change(running))
        assert (answer.claimed, ids(b.execution for b in answer.blocked), answer.more) == ((), [staged.id], True)
        assert ids(await world.claim()) == [plain.id]

    async def test_a_woken_row_that_is_cancelled_leaves_its_room_to_the_next(self, world: World) -> None:
        for limit in (at_once(1), Limit("api", rate=1.0, burst=1)):
            batch = await add_limited(world, 4, limit)
            [running] = await world.claim()
            world.clock.advance(1)
            await world.settle(running)
            await world.store.exchange([], None)
            woken = await world.get(batch[1].id)
            assert woken.parked is None
            assert ids((await world.exchange(world.change(woken, State.CANCELLED))).claimed) == [batch[2].id]
