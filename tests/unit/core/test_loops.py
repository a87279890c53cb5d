"""How long a role sleeps: as its step says, and never for long when its step fails."""

from __future__ import annotations

import pytest

from mainspring.core.loops import Loop, NothingAsked, Outage
from mainspring.model.errors import StoreUnavailable
from mainspring.model.events import Recovered, StoreLost, Trouble


class StoreUnsure(StoreUnavailable):
    """As a store has for answers that were lost."""


class Recorded(Loop):
    """A loop whose sleeps are written down and take no time."""

    def __init__(self, steps: list[float | Exception]) -> None:
        self.told: list[object] = []
        self.slept: list[float] = []
        self._steps = iter(steps)
        super().__init__("recorded", self._next, self.told.append)

    async def _next(self) -> float:
        step = next(self._steps, None)
        if step is None:
            self._stopping = True
            return 0
        if isinstance(step, Exception):
            raise step
        return step

    async def _sleep(self, delay: float) -> None:
        self.slept.append(delay)


@pytest.mark.req("REL-1")
async def test_a_loop_that_fails_tries_again_within_three_seconds_and_forgets_it_when_it_succeeds() -> None:
    failing: list[float | Exception] = [ConnectionError("gone")] * 9
    loop = Recorded([*failing, 7.0, ConnectionError("gone again"), 5.0])
    await loop._run()
    assert loop.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 3.0, 3.0, 7.0, 0.1, 5.0, 0]
    assert [type(event) for event in loop.told] == [Trouble, Recovered, Trouble, Recovered]


@pytest.mark.req("OBS-7", "OPS-9")
async def test_trouble_that_goes_on_is_told_once_for_each_kind_with_its_traceback() -> None:
    gone, full = [ConnectionError("gone")] * 3, OSError("disk full")
    loop = Recorded([*gone, full, *gone, full, 7.0, full, 7.0])
    await loop._run()
    told = [event for event in loop.told if isinstance(event, Trouble)]
    assert [event.error for event in told] == ["ConnectionError: gone", "OSError: disk full", "OSError: disk full"]
    assert all(event.traceback is not None and event.error in event.traceback for event in told)
    assert [type(event) for event in loop.told] == [Trouble, Trouble, Recovered, Trouble, Recovered]


@pytest.mark.req("OPS-9")
async def test_a_store_that_is_away_is_lost_once_and_back_once_whatever_it_says_meanwhile() -> None:
    away = [StoreUnavailable(f"refused, try {number}") for number in range(9)]
    loop = Recorded([*away[:4], NothingAsked(1.0), *away[4:], 7.0, 7.0])
    await loop._run()
    lost, back = loop.told
    assert isinstance(lost, StoreLost)
    assert (lost.where, lost.error) == ("recorded", "refused, try 0")
    assert isinstance(back, Recovered)


@pytest.mark.req("OPS-9")
def test_an_outage_counts_from_its_first_error() -> None:
    told: list[object] = []
    outage = Outage("worker", told.append)
    outage.worked(1.0)
    outage.failed(StoreUnavailable("gone"), 3.0)
    outage.failed(StoreUnsure("an answer was lost"), 5.0)
    outage.worked(15.5)
    outage.worked(16.0)
    assert told[1:] == [Recovered("worker", 12.5)]
