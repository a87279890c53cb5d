"""What five schedulers make of a thousand bad days is what an oracle says."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from mainspring.core.rules import ticks
from mainspring.model.store.messages import JobWrite, JobWritten
from mainspring.model.time.instants import SECOND
from mainspring.stores.memory import MemoryStore
from tests.simulation.thousand_days import World
from tests.simulator import virtual

EXERCISED = (
    "crashes",
    "downtimes",
    "pauses",
    "edits",
    "leaps forwards",
    "leaps back",
    "races lost",
    "reads failed",
    "writes failed",
    "answers lost",
)


@pytest.mark.req("TIM-6", "TIM-7", "WIN-2")
@pytest.mark.parametrize("seed", range(10 if os.environ.get("FLOW_FULL") else 1))
def test_every_tick_becomes_what_the_oracle_says(seed: int) -> None:
    world, made = virtual.run(_lived(seed))
    assert sorted(_wrong(world, made)) == []
    kinds = Counter(outcome[1] for outcome in made)
    print(f"seed {seed}: {dict(kinds)}, {dict(world.counters)}")
    assert not [what for what in EXERCISED if not world.counters[what]]
    assert min(kinds["schedule"] / 1_000, kinds["catch_up"], kinds["missed"]) > 5


class LetsEverySchedulerWin(MemoryStore):
    """Writes jobs without comparing what the writer saw."""

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        stored = {job.name: job.version for job in await self.jobs([write.job.name for write in writes])}
        return await super().write_jobs([replace(write, seen_version=stored.get(write.job.name)) for write in writes])


def test_the_oracle_notices_a_tick_that_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two things prevent it, and each is enough: who has lost the race writes nothing, and a tick has one id."""
    ids = (f"{number:032x}" for number in range(1_000_000))
    monkeypatch.setattr(ticks, "tick_id", lambda *_: next(ids))
    assert _wrong(*virtual.run(_lived(0, LetsEverySchedulerWin, 100)))


def test_the_oracle_notices_a_tick_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = ticks._next
    monkeypatch.setattr(ticks, "_next", lambda trigger, after: planned(trigger, after + 3_600 * SECOND))
    assert _wrong(*virtual.run(_lived(0, days=100)))


def test_the_oracle_notices_another_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    grace = ticks.grace
    monkeypatch.setattr(ticks, "grace", lambda *job_trigger_at: 2 * grace(*job_trigger_at))
    assert _wrong(*virtual.run(_lived(0, days=100)))


async def _lived(
    seed: int, store: type[MemoryStore] = MemoryStore, days: int = 1_000
) -> tuple[World, list[tuple[object, ...]]]:
    world = World(seed, store, days)
    await world.live()
    return world, await world.made()


def _wrong(world: World, made: list[tuple[object, ...]]) -> set[tuple[object, ...]]:
    """Outcomes that are missing, made up, or there twice."""
    return (world.expected() ^ set(made)) | {outcome for outcome, times in Counter(made).items() if times > 1}
