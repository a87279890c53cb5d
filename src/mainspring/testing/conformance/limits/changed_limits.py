"""A change to `pending` that gives the row other limits (`Change.limits`), for ceilings that are set at run time."""

from __future__ import annotations

import pytest

from ....model.execution import State
from ....model.limits import encode_limits
from ..base import StoreSuite, World, ids
from .limits import add_limited, at_once, parked

NONE = "[]"


class ChangedLimits(StoreSuite):
    @pytest.mark.req("QUE-2")
    async def test_a_running_row_goes_back_under_other_limits(self, world: World) -> None:
        batch = await add_limited(world, 3, at_once(1))
        [row] = await world.claim()
        assert await parked(world) == dict.fromkeys(ids(batch[1:]), "k")
        other = encode_limits([at_once(1, "other")])
        answer = await world.exchange(world.change(row, State.PENDING, limits=other))
        assert ids(answer.claimed) == ids(batch[:2]), "the old slot is free, and the new one is taken"
        assert (await world.get(row.id)).limits == other
        assert await parked(world) == {batch[2].id: "k"}
        [again, second] = answer.claimed
        answer = await world.exchange(
            world.change(again, State.PENDING, limits=NONE), world.change(second, State.PENDING, delay=60.0)
        )
        assert sorted(ids(answer.claimed)) == [batch[0].id, batch[2].id]
        assert (await world.get(batch[0].id)).limits is None
        assert (await world.get(batch[1].id)).limits == batch[1].limits

    @pytest.mark.req("QUE-2")
    async def test_plain_and_pending_rows_get_limits_and_lose_them(self, world: World) -> None:
        plain = [world.execution(share="x" if n % 2 else None) for n in range(4)]
        await world.add(*plain)
        slot = encode_limits([at_once(1)])
        changes = [world.change(row, State.PENDING, limits=slot) for row in plain]
        assert (await world.store.exchange(changes, None)).applied == (True,) * 4
        [running] = await world.claim()
        waiting = sorted({row.id for row in plain} - {running.id})
        assert sorted(await parked(world)) == waiting
        first, second, third = [await world.get(id) for id in waiting]
        answer = await world.exchange(
            world.change(first, State.PENDING, limits=NONE),
            world.change(second, State.PENDING, limits=encode_limits([at_once(1, "free")]), delay=60.0),
        )
        assert ids(answer.claimed) == [first.id]
        assert await parked(world) == {third.id: "k"}
        assert ids((await world.exchange(world.change(running))).claimed) == [third.id]
        world.clock.advance(61)
        assert ids(await world.claim()) == [second.id]
