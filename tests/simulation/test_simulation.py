"""Worlds in which everything goes wrong, and nothing may be lost, doubled or taken from the living.

A red seed prints its last events and the command that shows all of them. `FLOW_SEEDS=1000` (make flow-full) runs more.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from mainspring.core import store_clock
from mainspring.model.execution import ExecutionRow
from mainspring.model.store.messages import (
    Added,
    Audit,
    Change,
    ClaimRequest,
    Exchanged,
    HeartbeatReply,
    HeartbeatRequest,
    JobWrite,
    JobWritten,
)
from mainspring.stores.memory import MemoryStore
from tests.simulator import simulate, virtual

CHUNK = 20
SEEDS = int(os.environ.get("FLOW_SEEDS", "40"))
WRONG_SEEDS = 200
EXERCISED = (
    "crashes",
    "client crashes",
    "pauses",
    "partitions",
    "clock jumps",
    "store clock jumps",
    "jumps noticed",
    "skews noticed",
    "transient errors",
    "lost replies",
    "wake-ups lost",
    "graceful stops",
    "poisonings",
    "crash loops",
    "rescues",
    "fenced writes",
    "lost races",
    "retries",
    "catch-ups",
    "gaps",
    "overlaps skipped",
    "unique refused",
    "blocked claims",
    "cancel requests",
    "follow-ups swept",
    "tries cancelled",
    "tries handed_back",
    "tries snoozed",
    "tries timeout",
    "skews noticed",
)


@pytest.mark.req("REL-1", "ENQ-3", "ENQ-4", "EXE-2", "EXE-3", "EXE-4", "EXE-12", "REG-8", "TIM-6", "TIM-7")
@pytest.mark.req("WIN-1", "WIN-2", "WRK-3", "WRK-4", "WRK-5", "WRK-6", "WRK-8", "WRK-9", "OPS-6")
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_invariant_holds(first: int) -> None:
    """And each chunk of seeds has been through everything: a suite that exercised nothing is a defect."""
    counters: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        report = simulate(seed)
        assert report.violation is None, str(report)
        counters += report.counters
    print(f"seeds {first} to {first + CHUNK - 1}:", ", ".join(f"{counters[what]} {what}" for what in EXERCISED))
    assert not [what for what in EXERCISED if not counters[what]]


# --- the same seed, the same world --------------------------------------------------------------------------------


def test_a_seed_gives_the_same_run_again() -> None:
    one, two = simulate(7, keep=None), simulate(7, keep=None)
    assert one.trace == two.trace
    assert one.digest != simulate(8).digest


def test_a_seed_gives_the_same_run_in_another_process() -> None:
    """Nothing depends on the order of hashes, on addresses or on the real clock."""
    assert len({_digest(hash_seed) for hash_seed in ("1", "2")}) == 1


def _digest(hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.simulator", "--seed", "7"]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return next(line for line in done.stdout.splitlines() if line.startswith("digest"))


# --- the checker notices ------------------------------------------------------------------------------------------


class ForgetsTokens(MemoryStore):
    """Accepts every ending of a running execution, whoever it comes from."""

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        return await super().exchange([await self._unfenced(change) for change in changes], claim)

    async def _unfenced(self, change: Change) -> Change:
        row = await self.execution(change.id)
        return change if row is None else replace(change, token=row.token, owner=row.owner)


class TakesFromTheLiving(MemoryStore):
    """Rescues without a look at the lease."""

    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        return await super().exchange([replace(change, rescue=False) for change in changes], claim)


class DropsFollowUps(MemoryStore):
    async def exchange(self, changes: Sequence[Change], claim: ClaimRequest | None) -> Exchanged:
        return await super().exchange([replace(change, todo=False) for change in changes], claim)


class LetsEverySchedulerWin(MemoryStore):
    """Writes jobs without comparing what the writer saw."""

    async def write_jobs(self, writes: Sequence[JobWrite]) -> list[JobWritten]:
        stored = {job.name: job.version for job in await self.jobs([write.job.name for write in writes])}
        return await super().write_jobs([replace(w, seen_version=stored.get(w.job.name)) for w in writes])


class IgnoresKeys(MemoryStore):
    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        return await super().add([replace(each, unique_key=None, overlap_key=None) for each in executions], audit)


class LosesWrites(MemoryStore):
    """Acknowledges one enqueue in many without storing it."""

    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        if executions[0].id.endswith("7"):
            return [Added(each.id, "added") for each in executions]
        return await super().add(executions, audit)


class IsDeafToBeats(MemoryStore):
    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        return super().heartbeat(replace(beat, leases=()))


SABOTAGED = [
    ForgetsTokens,
    TakesFromTheLiving,
    DropsFollowUps,
    LetsEverySchedulerWin,
    IgnoresKeys,
    LosesWrites,
    IsDeafToBeats,
]


@pytest.mark.req("REL-1", "WRK-3", "TIM-6")
@pytest.mark.parametrize("store", SABOTAGED)
def test_a_store_that_does_wrong_turns_seeds_red(store: type[MemoryStore]) -> None:
    assert any(simulate(seed, store=store).violation for seed in range(WRONG_SEEDS))


@pytest.mark.req("TIM-7")
def test_a_process_that_trusts_its_own_clock_turns_seeds_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_clock.StoreClock, "now", lambda time: time._clock.now())
    assert any(simulate(seed).violation for seed in range(40))


def test_a_red_seed_says_what_happened_and_how_to_see_more() -> None:
    report = simulate(3, store=IgnoresKeys)
    assert report.violation is not None
    text = str(report)
    assert text.startswith("seed 3: keys ")
    assert "--seed 3 -v" in text
    assert len(text.splitlines()) < 60


# --- virtual time -------------------------------------------------------------------------------------------------


def test_time_leaps_to_the_next_timer() -> None:
    async def two_weeks() -> list[float]:
        loop, seen = asyncio.get_running_loop(), []
        for seconds in (0.5, 86_400 * 14):
            await asyncio.sleep(seconds)
            seen.append(loop.time())
        return seen

    assert virtual.run(two_weeks()) == pytest.approx([0.5, 86_400 * 14 + 0.5])


def test_a_deadlock_is_named() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(virtual.Deadlock, match="no timer is set"):
        virtual.run(forever())


def test_a_livelock_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "PATIENCE", 1_000)

    async def spinning() -> None:
        while True:  # noqa: ASYNC110, spinning is what this is about
            await asyncio.sleep(0)

    with pytest.raises(virtual.Livelock, match="without any time passing"):
        virtual.run(spinning())
