"""Locks on Redis pass the lock suite of the stores, on a real server; the second handle is a second client.

The server's own clock is what locks go by: here scripts read it from a key, which the FakeClock of each test writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.ports import Clock, Store
from mainspring.model.store.messages import Audit, LockRow
from mainspring.redis.client import split_prefix
from mainspring.redis.locks import RedisLocks
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance.locks import Locks
from tests.valkey_server import valkey


class LocksByTestClock(RedisLocks):
    """One clock key for each prefix."""

    def __init__(self, prefix: str) -> None:
        super().__init__(valkey().url(prefix=prefix), unrecorded)
        self.now = f"local now = tonumber(redis.call('GET', '{{{prefix}}}:clock'))\n"
        self.prefix = prefix

    def follow(self, clock: FakeClock) -> None:
        """From now on the clock of the scripts goes with this one."""
        self._write(clock)
        for name in ("advance", "jump"):
            setattr(clock, name, partial(self._move, clock, getattr(clock, name)))

    def _move(self, clock: FakeClock, step: partial[None], seconds: float) -> None:
        step(seconds)
        self._write(clock)

    def _write(self, clock: FakeClock) -> None:
        with valkey().client() as client:
            client.set(f"{{{self.prefix}}}:clock", clock.now())


async def unrecorded(audit: Audit) -> None:
    raise AssertionError("nothing was to be recorded")


class TestRedisLocks(Locks):
    @asynccontextmanager
    async def open_store(self, clock: Clock) -> AsyncIterator[Store]:
        assert isinstance(clock, FakeClock)
        async with opened(LocksByTestClock(valkey().new_prefix())) as locks:
            locks.follow(clock)
            yield cast(Store, locks)

    @asynccontextmanager
    async def second_store(self, store: Store, clock: Clock) -> AsyncIterator[Store]:
        async with opened(LocksByTestClock(cast(LocksByTestClock, store).prefix)) as other:
            yield cast(Store, other)


@asynccontextmanager
async def opened(locks: LocksByTestClock) -> AsyncIterator[LocksByTestClock]:
    try:
        yield locks
    finally:
        await locks.close()


NAMES = st.sampled_from(["a", "b", "with blanks \u00fc % 1 2 3"])
SECONDS = st.sampled_from([0.5, 7.25, 60.0])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), NAMES, SECONDS),
        st.tuples(st.just("renew"), NAMES, SECONDS),
        st.tuples(st.just("release"), NAMES, st.sampled_from([0.0, 3.0])),
        st.tuples(st.just("anyone"), NAMES, st.just(0.0)),
        st.tuples(st.just("wait"), NAMES, SECONDS),
        st.tuples(st.just("flush"), NAMES, SECONDS),
    ),
    max_size=25,
)


@pytest.mark.req("LCK-1", "LCK-2", "LCK-3")
@settings(max_examples=60)
@given(steps=STEPS)
def test_the_scripts_do_what_the_memory_store_does(steps: Sequence[tuple[str, str, float]]) -> None:
    """Step by step, for any steps. Tokens are numbered differently, but grow alike; a flush ends every lock."""
    asyncio.run(compared(steps))


async def compared(steps: Sequence[tuple[str, str, float]]) -> None:
    clock = FakeClock()
    memory = MemoryStore(clock)
    async with opened(LocksByTestClock(valkey().new_prefix())) as locks:
        locks.follow(clock)
        tokens: list[tuple[int, int]] = []
        last: dict[str, tuple[int, int]] = {}
        for step, name, seconds in steps:
            mine, theirs = last.get(name, (10**17, 10**17))
            if step == "take":
                rows = await memory.lock_take(name, "me", seconds), await locks.lock_take(name, "me", seconds)
                assert unnumbered(rows[0]) == unnumbered(rows[1])
                if rows[0] is not None and rows[1] is not None:
                    last[name] = rows[0].token, rows[1].token
                    tokens.append(last[name])
            elif step == "renew":
                assert await memory.lock_renew(name, mine, seconds) is await locks.lock_renew(name, theirs, seconds)
            elif step == "release":
                released = await memory.lock_release(name, mine, seconds)
                assert released is await locks.lock_release(name, theirs, seconds)
            elif step == "anyone":
                assert await memory.lock_release(name, None) is await locks.lock_release(name, None)
            elif step == "wait":
                clock.advance(seconds)
            else:
                clock.advance(0.001)
                with valkey().client() as client:
                    client.delete(*locks.keys)
                for row in await memory.locks():
                    await memory.lock_release(row.name, None)
            assert [unnumbered(row) for row in await memory.locks()] == [unnumbered(row) for row in await locks.locks()]
        assert tokens == sorted(tokens)
        assert len({token for _, token in tokens}) == len(tokens)


def unnumbered(row: LockRow | None) -> tuple[str, str, int, int] | None:
    return None if row is None else (row.name, row.owner, row.acquired, row.expires)


@pytest.mark.req("LCK-2")
async def test_locks_that_ran_out_leave_nothing_behind() -> None:
    clock = FakeClock()
    async with opened(LocksByTestClock(valkey().new_prefix())) as locks:
        locks.follow(clock)
        for n in range(250):
            assert await locks.lock_take(f"window-{n}", "me", 1)
        clock.advance(2)
        for n in range(3):
            assert await locks.lock_take(f"later-{n}", "me", 1)
        with valkey().client() as client:
            assert client.hlen(locks.keys[0]) == client.zcard(locks.keys[1]) == 3


@pytest.mark.req("LCK-3")
async def test_tokens_grow_even_when_the_server_has_lost_everything() -> None:
    locks = RedisLocks(valkey().url(prefix=valkey().new_prefix()), unrecorded)
    tokens = []
    for _ in range(3):
        for _ in range(3):
            row = await locks.lock_take("l", "me", 60)
            assert row is not None
            tokens.append(row.token)
            assert await locks.lock_release("l", row.token)
        with valkey().client() as client:
            client.delete(*locks.keys)
    await locks.close()
    assert tokens == sorted(set(tokens))


def test_the_prefix_is_not_for_the_driver() -> None:
    assert split_prefix("redis://h/1") == ("redis://h/1", "mainspring")
    assert split_prefix("unix:///run/v.sock?prefix=a&db=2") == ("unix:///run/v.sock?db=2", "a")
