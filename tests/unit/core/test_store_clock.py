"""The store's time as a process knows it: skew and jumps are noticed, and told of without flooding."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.store_clock import JUMP_WARNING_EVERY, SKEW_WARNING_EVERY, StoreClock
from mainspring.model.events import ClockJumped, SkewNoticed
from mainspring.model.time.instants import SECOND, Micros
from mainspring.testing.clock import FakeClock


class World:
    """A process whose own clock and the store's are set independently; time passes for both alike."""

    def __init__(self) -> None:
        self.clock, self.store_offset, self.events = FakeClock(), 0.0, list[Any]()
        self.time = StoreClock(self.clock, self.events.append)
        self.jumps = 0
        self.time.on_jump = self._jumped
        self.answers_in = 0.0
        self.hear()

    def _jumped(self) -> None:
        self.jumps += 1

    def store_now(self) -> Micros:
        return self.clock.now() + round(self.store_offset * SECOND)

    async def now(self) -> Micros:
        """The store, asked for its time; it may take long to answer."""
        told = self.store_now()
        self.clock.advance(self.answers_in)
        return told

    def hear(self, **options: Any) -> None:
        self.time.observe(self.store_now(), **options)

    def set_own_clock(self, seconds: float) -> None:
        """The store's clock stays where it is."""
        self.clock.jump(seconds)
        self.store_offset -= seconds

    def told(self, kind: type) -> list[float]:
        return [event.seconds for event in self.events if isinstance(event, kind)]


@pytest.mark.req("TIM-7")
@pytest.mark.parametrize(("skew", "told"), [(1.9, []), (-1.9, []), (2.1, [2.1]), (-3600.0, [-3600.0])])
def test_a_skew_above_two_seconds_is_told(skew: float, told: list[float]) -> None:
    world = World()
    world.set_own_clock(skew)
    world.hear()
    assert world.told(SkewNoticed) == pytest.approx(told)
    assert world.told(ClockJumped) == []
    assert world.time.now() == world.store_now()


@pytest.mark.req("TIM-7")
def test_a_lasting_or_returning_skew_is_told_once_in_a_while() -> None:
    world = World()
    for skew in (5, -5, 5, -5, 5):
        world.set_own_clock(skew)
        world.clock.advance(10)
        world.hear()
    assert world.told(SkewNoticed) == [5]
    world.clock.advance(SKEW_WARNING_EVERY)
    world.hear()
    world.hear()
    assert world.told(SkewNoticed) == [5, 5]


@pytest.mark.req("TIM-7")
@pytest.mark.parametrize("jump", [7200.0, -7200.0, 2.5, -2.5])
def test_a_jump_of_the_stores_clock_is_told_and_ends_what_was_planned(jump: float) -> None:
    world = World()
    world.clock.advance(10)
    world.store_offset += jump
    world.hear()
    assert (world.told(ClockJumped), world.jumps) == ([pytest.approx(jump)], 1)
    assert world.time.now() == world.store_now()
    world.clock.advance(10)
    world.hear()
    assert world.jumps == 1


@pytest.mark.req("TIM-7")
def test_many_jumps_are_told_seldom_but_each_is_acted_upon() -> None:
    world = World()
    for jump in (60, -60, 60):
        world.clock.advance(1)
        world.store_offset += jump
        world.hear()
    assert (len(world.told(ClockJumped)), world.jumps) == (1, 3)
    world.clock.advance(JUMP_WARNING_EVERY)
    world.store_offset += 60
    world.hear()
    assert (len(world.told(ClockJumped)), world.jumps) == (2, 4)


@pytest.mark.req("TIM-7")
def test_a_machine_that_slept_is_a_jump_forwards() -> None:
    """While it sleeps, its monotonic clock stands still and the store's goes on."""
    world = World()
    world.clock.jump(3600)
    world.hear()
    assert (world.told(ClockJumped), world.told(SkewNoticed), world.jumps) == ([3600.0], [], 1)


@pytest.mark.req("TIM-7")
def test_an_answer_that_took_long_is_taken_for_neither_skew_nor_jump() -> None:
    world = World()
    asked, told = world.clock.monotonic(), world.store_now()
    world.clock.advance(1.9)
    world.store_offset -= 1.0  # with the delay of the answer, the two seem 2.9 seconds apart
    world.time.observe(told - SECOND, asked=asked)
    assert world.events == []
    world.clock.advance(30)
    before = world.time.now()
    world.time.observe(told, asked=world.clock.monotonic() - 25)
    assert (world.events, world.time.now()) == ([], before)


@pytest.mark.req("TIM-7")
async def test_a_store_that_is_always_slow_is_believed_in_the_end() -> None:
    world = World()
    world.answers_in = 4.0
    world.store_offset += 3600
    await world.time.ask(world)  # type: ignore[arg-type]
    assert abs(world.time.now() - world.store_now()) <= 4 * SECOND
    assert world.jumps == 1
