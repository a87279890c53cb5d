"""Named locks with a scripted backend, on virtual time: until when a lock counts as held, and when it is renewed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring import LeaseLost
from mainspring.core.locks import Lock
from mainspring.model.events import Trouble
from mainspring.model.store.messages import Audit, LockRow
from tests.simulator.virtual import run

TTL, MOMENT = 30.0, 0.001


class LoopClock:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> int:
        return 0

    def monotonic(self) -> float:
        return self._loop.time()


class Backend:
    """Each answer takes a while; the request takes effect somewhere in between. `renewals` are the times asked for."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock
        self.slow: list[float] = []
        self.answers: list[bool | Exception] = []
        self.renewals: list[tuple[float, float]] = []
        self.released: list[float] = []

    async def lock_take(self, name: str, owner: str, ttl: float) -> LockRow | None:
        await self._answered()
        return LockRow(name=name, owner=owner, token=1, acquired=0, expires=0)

    async def lock_renew(self, name: str, token: int, ttl: float) -> bool:
        self.renewals.append((self._clock.monotonic(), ttl))
        await self._answered()
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def lock_release(
        self, name: str, token: int | None, keep_for: float = 0.0, audit: Audit | None = None
    ) -> bool:
        self.released.append(keep_for)
        return True

    async def locks(self) -> list[LockRow]:
        return []

    async def close(self) -> None: ...

    async def _answered(self) -> None:
        await asyncio.sleep(self.slow.pop(0) if self.slow else 0.0)


def lock_of(**options: Any) -> tuple[Lock, Backend, LoopClock, list[object]]:
    clock, seen = LoopClock(), list[object]()
    backend = Backend(clock)
    return Lock(backend, clock, seen.append, "me", "import", **{"ttl": TTL, **options}), backend, clock, seen


async def held_around(clock: LoopClock, lock: Lock, instant: float) -> tuple[bool, bool]:
    """Whether it is held just before and just after."""
    await asyncio.sleep(instant - MOMENT - clock.monotonic())
    before = lock.held
    await asyncio.sleep(2 * MOMENT)
    return before, lock.held


@pytest.mark.req("LCK-1")
def test_a_lock_counts_as_held_from_before_it_was_asked_for() -> None:
    """The lock may have been taken, or renewed, at any time since: a slow answer leaves less of its time."""

    async def main() -> None:
        lock, backend, clock, _ = lock_of()
        backend.slow = [25.0, 18.0, TTL]  # the answer to the request, to the first renewal, to the second
        async with lock:
            await asyncio.sleep(MOMENT)
            assert backend.renewals == [(25.0, TTL)], "a third of its time is over: it is renewed at once"
            assert await held_around(clock, lock, TTL) == (True, False)
            assert await held_around(clock, lock, 43.0) == (False, True)
            assert backend.renewals[1:] == [(43.0, TTL)]
            assert await held_around(clock, lock, 25.0 + TTL) == (True, False)
            with pytest.raises(LeaseLost, match="lock 'import' is no longer held"):
                lock.check()

    run(main())


@pytest.mark.req("LCK-1")
def test_it_is_renewed_at_a_third_of_its_time() -> None:
    async def main() -> None:
        lock, backend, _, _ = lock_of()
        backend.slow = [1.0, 4.0]
        async with lock:
            await asyncio.sleep(40 - MOMENT)
            assert [at for at, _ in backend.renewals] == pytest.approx([10.0, 20.0, 30.0, 40.0])
            assert lock.held
        assert not lock.held

    run(main())


@pytest.mark.req("LCK-1", "LCK-3")
def test_one_unexpected_error_is_emitted_and_the_lock_renewed_in_time() -> None:
    async def main() -> None:
        lock, backend, _, seen = lock_of()
        backend.answers = [RuntimeError("who expects that?")]
        async with lock:
            await asyncio.sleep(2 * TTL + MOMENT)
            assert lock.held
            assert len(backend.renewals) == 6
        assert [event.error for event in seen if isinstance(event, Trouble)] == ["RuntimeError: who expects that?"]

    run(main())


@pytest.mark.req("LCK-1", "LCK-3")
def test_a_lock_whose_renewals_fail_is_lost_at_the_instant_its_time_is_over() -> None:
    async def main() -> None:
        lock, backend, clock, _ = lock_of()
        backend.answers = [True, *[OSError("the backend is away")] * 20]
        async with lock:
            assert await held_around(clock, lock, 10.0 + TTL) == (True, False)

    run(main())


@pytest.mark.req("LCK-1")
def test_a_refused_renewal_ends_it_for_good() -> None:
    async def main() -> None:
        lock, backend, clock, _ = lock_of()
        backend.answers = [False]
        async with lock:
            assert await held_around(clock, lock, 10.0) == (True, False)
            await asyncio.sleep(TTL)
            assert (lock.held, len(backend.renewals)) == (False, 1)

    run(main())


@pytest.mark.req("LCK-1")
def test_a_renewal_does_not_shorten_the_time_for_which_it_is_held_at_least() -> None:
    """If the process died after the renewal, the lock would be held for the rest of that time all the same."""

    async def main() -> None:
        lock, backend, _, _ = lock_of(ttl=30.0, hold_at_least=100.0)
        async with lock:
            await asyncio.sleep(85)
            asked = [(round(at), round(ttl)) for at, ttl in backend.renewals]
            assert asked == [(10, 90), (20, 80), (30, 70), (40, 60), (50, 50), (60, 40), (70, 30), (80, 30)]
        assert backend.released == pytest.approx([15.0])

    run(main())
