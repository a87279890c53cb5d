"""The single-flight cache: one computation for all callers in the meantime, on one event loop or on several."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mainspring.core.monitoring.single_flight import SingleFlight
from mainspring.testing import FakeClock
from tests.support import until_blocking

pytestmark = pytest.mark.req("API-6")


class Work:
    """Counts, and goes on only when it is told to."""

    def __init__(self) -> None:
        self.done = 0
        self.begun, self.may_end = threading.Event(), threading.Event()

    async def __call__(self) -> int:
        self.begun.set()
        assert await asyncio.to_thread(self.may_end.wait, 20)
        self.done += 1
        return self.done


async def asked(numbers: SingleFlight[int], times: int = 3) -> list[int]:
    return await asyncio.gather(*(numbers.get() for _ in range(times)))


def test_several_on_two_loops_get_the_same_numbers() -> None:
    work = Work()
    numbers = SingleFlight(work, FakeClock())
    with ThreadPoolExecutor(2) as threads:
        loops = [threads.submit(asyncio.run, asked(numbers)) for _ in range(2)]
        assert work.begun.wait(20)
        until_blocking(lambda: len(numbers._locks) == 2, "both loops ask")
        work.may_end.set()
        assert [each.result(20) for each in loops] == [[1] * 3] * 2
    assert work.done == 1


async def test_they_last_a_second() -> None:
    work, clock = Work(), FakeClock()
    work.may_end.set()
    numbers = SingleFlight(work, clock)
    assert (await asked(numbers), await numbers.get()) == ([1, 1, 1], 1)
    clock.advance(1.01)
    assert await numbers.get() == 2
    numbers.forget()
    assert await numbers.get() == 3


async def test_callers_that_must_not_wait_get_the_old_numbers_while_new_ones_are_made() -> None:
    work, clock = Work(), FakeClock()
    work.may_end.set()
    numbers = SingleFlight(work, clock)
    assert await numbers.get(stale_for=30) == 1
    work.may_end.clear()
    clock.advance(2)
    assert [await numbers.get(stale_for=30) for _ in range(3)] == [1, 1, 1]
    work.may_end.set()
    assert await numbers.get() == 2
    clock.advance(40)
    assert await numbers.get(stale_for=30) == 3
    assert work.done == 3


def test_a_loop_that_ended_in_the_middle_or_failed_holds_up_nobody() -> None:
    numbers = SingleFlight(failing := Failing(), FakeClock())
    with pytest.raises(ZeroDivisionError):
        asyncio.run(numbers.get())
    failing.fails = False
    assert asyncio.run(numbers.get()) == 7
    numbers.forget()
    abandoned = asyncio.new_event_loop()
    numbers._at_work = abandoned
    abandoned.close()
    assert asyncio.run(numbers.get()) == 7


class Failing:
    fails = True

    async def __call__(self) -> int:
        return 1 // 0 if self.fails else 7
