"""How long a role sleeps: as its step says, and never for long when its step fails."""

from __future__ import annotations

import pytest

from mainspring.core.loops import Loop
from mainspring.model.events import Trouble


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
    assert [isinstance(event, Trouble) for event in loop.told] == [True] * 10


@pytest.mark.req("OBS-7")
async def test_trouble_that_goes_on_is_told_with_its_traceback_once() -> None:
    gone, full = [ConnectionError("gone")] * 3, OSError("disk full")
    loop = Recorded([*gone, full, full, 7.0, full])
    await loop._run()
    assert [event.traceback is not None for event in loop.told if isinstance(event, Trouble)] == [
        *(True, False, False),
        *(True, False),
        True,  # it had worked meanwhile
    ]
