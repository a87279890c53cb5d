"""What the engine itself costs per execution: the real worker and client on a store that does nothing.

    python -m benchmarks.engine [--executions 100000] [--profile]

The store hands out ready-made executions and forgets what is settled, so all that is measured is Mainspring's own
Python between two exchanges: claim to handler to ending, and enqueue up to the store.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from mainspring import Mainspring
from mainspring.app.adapters import SystemClock
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import Added, Change, ClaimRequest, Exchanged, HeartbeatReply, HeartbeatRequest
from mainspring.stores.memory import MemoryStore


class NullStore(MemoryStore):
    """Claims cost nothing, and endings and enqueued work are only counted."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.template: ExecutionRow | None = None
        self.left = self.given = self.settled = self.added = 0
        self.done = asyncio.Event()

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Any] = ()) -> list[Added]:
        self.added += len(executions)
        return [Added(execution.id, "added") for execution in executions]

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        self.settled += len(changes)
        claimed: tuple[ExecutionRow, ...] = ()
        if claim is not None and self.template is not None and self.left:
            count = min(claim.limit, self.left)
            self.left -= count
            claimed = tuple(self._ready(self.left + n, claim) for n in range(count))
        await asyncio.sleep(0)
        if self.given and self.settled >= self.given:
            self.done.set()
        return Exchanged(
            applied=(True,) * len(changes), claimed=claimed, more=self.left > 0, now=int(time.time() * 1_000_000)
        )

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        return HeartbeatReply(lost=frozenset(), cancels={}, now=beat.worker.seen)

    def _ready(self, number: int, claim: ClaimRequest) -> ExecutionRow:
        assert self.template is not None
        return msgspec.structs.replace(
            self.template, id=f"00000000-0000-7000-8000-{number:012x}", state=State.RUNNING, token=1, owner=claim.owner
        )


async def measure(executions: int, kind: str) -> dict[str, float]:
    store = NullStore(SystemClock())
    app = Mainspring(store)

    if kind == "sync":

        @app.job("noop")
        def plain(number: int) -> None: ...
    else:

        @app.job("noop")
        async def noop(number: int) -> None: ...

    await app.open()
    figures = {}
    began = time.process_time()
    store.template = await app.enqueue("noop", {"number": 1})
    for number in range(executions // 10):
        await app.enqueue("noop", {"number": number})
    figures["enqueue one by one, us"] = (time.process_time() - began) / (executions // 10) * 1e6
    began = time.process_time()
    await app.enqueue_many([("noop", {"number": number}) for number in range(executions // 10)])
    figures["enqueue_many, us"] = (time.process_time() - began) / (executions // 10) * 1e6
    store.left = store.given = executions
    began, wall = time.process_time(), time.perf_counter()
    async with app:
        await store.done.wait()
        figures["drain, us of CPU"] = (time.process_time() - began) / executions * 1e6
        figures["drain, per second"] = executions / (time.perf_counter() - wall)
    assert store.settled >= executions, "the engine settled less than it was given"
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--kind", choices=["async", "sync"], default="async")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    profile = cProfile.Profile() if arguments.profile else None
    if profile is not None:
        profile.enable()
    figures = asyncio.run(measure(arguments.executions, arguments.kind))
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)
    for name, value in figures.items():
        print(f"{name:28} {value:12,.1f}")


if __name__ == "__main__":
    main()
