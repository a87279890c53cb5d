"""Run one seed, and say what came of it."""

from __future__ import annotations

import time
from collections import Counter

import msgspec

from mainspring.stores.memory import MemoryStore
from tests.simulator import virtual
from tests.simulator.judge import TAIL, Judge, Violation
from tests.simulator.world import World

SHOWN = 40


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run. Equal digests mean equal traces, to the last event."""

    seed: int
    violation: Violation | None
    counters: Counter[str]
    digest: int
    virtual_seconds: float
    wall_seconds: float
    trace: tuple[str, ...]

    def __str__(self) -> str:
        if self.violation is None:
            return f"seed {self.seed}: ok, {self.virtual_seconds:.0f} s in {self.wall_seconds * 1000:.0f} ms"
        lines = [
            f"seed {self.seed}: {self.violation}",
            "",
            *self.trace[-SHOWN:],
            "",
            f"again, with everything that happened: python -m tests.simulator --seed {self.seed} -v",
        ]
        return "\n".join(lines)


def simulate(seed: int, *, keep: int | None = TAIL, store: type[MemoryStore] = MemoryStore) -> Report:
    """Run one seed to its end, or to the first violation. `keep` lines of the trace are kept, None for all.

    `store` is for tests of the checker itself: a store that does something wrong must not get through.
    """
    return virtual.run(_simulate(seed, keep, store))


async def _simulate(seed: int, keep: int | None, store: type[MemoryStore]) -> Report:
    began = time.perf_counter()
    judge = Judge(keep)
    world = World(seed, judge, store)
    await world.run()
    return Report(
        seed=seed,
        violation=judge.violation,
        counters=judge.counters,
        digest=judge.digest,
        virtual_seconds=judge.elapsed,
        wall_seconds=time.perf_counter() - began,
        trace=tuple(judge.lines),
    )
