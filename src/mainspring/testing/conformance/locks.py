"""Named locks with an owner, an expiry and a token that only grows.

`Locks` tests the port `LockBackend` alone, so other lock backends pass it too. `StoreLocks` is for stores only.
"""

from __future__ import annotations

import asyncio

import pytest

from ...model.execution import State
from ...model.store.messages import HeldKey, LockRow
from .base import StoreSuite, World


async def take(world: World, name: str = "l", owner: str = "a", ttl: float = 60) -> LockRow:
    row = await world.store.lock_take(name, owner, ttl)
    assert row is not None
    return row


class Locks(StoreSuite):
    @pytest.mark.req("LCK-1")
    async def test_taken_once_by_anyone(self, world: World) -> None:
        row = await take(world)
        assert row == LockRow(name="l", owner="a", token=row.token, acquired=world.now, expires=world.after(60))
        assert await world.store.lock_take("l", "b", 60) is None
        assert await world.store.lock_take("l", "a", 60) is None
        assert await world.store.locks() == [row]

    async def test_locks_are_listed_by_name(self, world: World) -> None:
        rows = [await take(world, name) for name in ("b", "a", "ü")]
        assert await world.store.locks() == [rows[1], rows[0], rows[2]]
        assert await world.store.locks("aa", 1) == [rows[0]]
        assert await world.store.locks("b") == [rows[0], rows[2]]

    @pytest.mark.req("LCK-1")
    async def test_of_concurrent_takers_one_gets_it(self, world: World) -> None:
        async with world.second() as other:
            tries = [(world.store, other)[n % 2].lock_take("l", f"o{n}", 60) for n in range(10)]
            rows = [row for row in await asyncio.gather(*tries) if row is not None]
        assert await world.store.locks() == rows
        assert len(rows) == 1

    @pytest.mark.req("LCK-1", "LCK-2")
    async def test_its_time_runs_out_by_the_stores_clock(self, world: World) -> None:
        first = await take(world)
        world.clock.advance(59)
        assert await world.store.lock_take("l", "b", 60) is None
        world.clock.advance(2)
        assert await world.store.locks() == []
        second = await take(world, owner="b")
        assert (second.owner, second.token > first.token) == ("b", True)

    @pytest.mark.req("LCK-1")
    async def test_renewed_from_now_under_its_token(self, world: World) -> None:
        row = await take(world)
        world.clock.advance(50)
        assert not await world.store.lock_renew("l", row.token + 1, 60)
        assert not await world.store.lock_renew("other", row.token, 60)
        assert await world.store.lock_renew("l", row.token, 60)
        world.clock.advance(50)
        assert await world.store.lock_take("l", "b", 60) is None
        [held] = await world.store.locks()
        assert (held.expires, held.acquired, held.token) == (world.after(10), row.acquired, row.token)

    @pytest.mark.req("LCK-1")
    async def test_what_is_over_cannot_be_renewed_or_released(self, world: World) -> None:
        row = await take(world)
        world.clock.advance(61)
        assert not await world.store.lock_renew("l", row.token, 60)
        assert not await world.store.lock_release("l", row.token)
        taken = await take(world, owner="b")
        assert not await world.store.lock_renew("l", row.token, 60)
        assert not await world.store.lock_release("l", row.token)
        assert await world.store.locks() == [taken]

    @pytest.mark.req("LCK-1")
    async def test_released_under_its_token(self, world: World) -> None:
        row = await take(world)
        assert not await world.store.lock_release("l", row.token + 1)
        assert await world.store.lock_release("l", row.token)
        assert not await world.store.lock_release("l", row.token)
        assert await world.store.locks() == []
        assert (await take(world)).token > row.token

    @pytest.mark.req("LCK-1")
    async def test_tokens_only_grow(self, world: World) -> None:
        tokens = []
        for n in range(5):
            row = await take(world, owner=f"o{n}", ttl=1)
            tokens.append(row.token)
            if n % 2:
                await world.store.lock_release("l", row.token)
            else:
                world.clock.advance(2)
        assert tokens == sorted(set(tokens))

    @pytest.mark.req("LCK-1")
    async def test_kept_for_a_while_after_release(self, world: World) -> None:
        row = await take(world)
        assert await world.store.lock_release("l", row.token, keep_for=5)
        assert await world.store.lock_take("l", "b", 60) is None
        [held] = await world.store.locks()
        assert held.expires == world.after(5)
        world.clock.advance(6)
        assert (await take(world, owner="b")).token > row.token

    async def test_another_handle_respects_it(self, world: World) -> None:
        row = await take(world)
        async with world.second() as other:
            assert await other.lock_take("l", "b", 60) is None
            assert await other.lock_release("l", row.token)
        assert (await take(world)).token > row.token


class StoreLocks(StoreSuite):
    @pytest.mark.req("LCK-4")
    async def test_the_keys_that_live_executions_hold_are_listed_with_their_holders(self, world: World) -> None:
        both = world.execution(overlap_key="o2", unique_key="u1")
        await world.add(both, world.execution(), world.execution(overlap_key="o3", staged=True))
        [running] = [row for row in await world.claim(limit=1) if row.id == both.id]
        waiting = world.execution(overlap_key="o1", job="other", job_id="other-1", due=world.after(60))
        await world.add(waiting)
        keys = await world.store.held_keys("overlap")
        assert [held.key for held in keys] == ["o1", "o2", "o3"]
        assert keys[:2] == [
            HeldKey(
                kind="overlap",
                key="o1",
                execution_id=waiting.id,
                job="other",
                state=State.PENDING,
                owner=None,
                token=0,
                since=waiting.created,
                until=None,
            ),
            HeldKey(
                kind="overlap",
                key="o2",
                execution_id=both.id,
                job="job",
                state=State.RUNNING,
                owner=running.owner,
                token=running.token,
                since=running.started or 0,
                until=running.lease,
            ),
        ]
        [unique] = await world.store.held_keys("unique")
        assert (unique.key, unique.execution_id) == ("u1", both.id)
        assert [held.key for held in await world.store.held_keys("overlap", "o2", 1)] == ["o2"]
        assert [held.key for held in await world.store.held_keys("overlap", "o11")] == ["o2", "o3"]
        assert await world.settle(running)
        assert [held.key for held in await world.store.held_keys("overlap")] == ["o1", "o3"]
        assert await world.store.held_keys("unique") == []

    @pytest.mark.req("LCK-1")
    async def test_housekeeping_forgets_only_those_whose_time_is_over(self, world: World) -> None:
        over, held, kept = [await take(world, name, ttl=ttl) for name, ttl in (("o", 1), ("h", 60), ("k", 60))]
        assert await world.store.lock_release("k", kept.token, keep_for=5)
        world.clock.advance(2)
        assert await world.store.prune_workers(60) == 0
        assert [row.name for row in await world.store.locks()] == ["h", "k"]
        assert not await world.store.lock_renew("o", over.token, 60)
        assert await world.store.lock_renew("h", held.token, 60)
        world.clock.advance(100)
        assert await world.store.prune_workers(60) == 0
        assert (await take(world, "o")).token > max(over.token, held.token, kept.token)

    async def test_released_by_an_administrator_with_an_audit_record(self, world: World) -> None:
        await take(world)
        refused, taken = world.audit("l", "release"), world.audit("l", "release")
        assert not await world.store.lock_release("free", None, audit=refused)
        assert not await world.store.lock_release("l", -1, audit=refused)
        assert await world.store.lock_release("l", None, audit=taken)
        assert await world.store.locks() == []
        assert await world.store.audits() == [taken]
