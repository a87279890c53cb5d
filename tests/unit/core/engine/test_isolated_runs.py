"""What the runner does with an isolated attempt, around a pool that starts no process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring.core.declaring.registry import Registry
from mainspring.core.engine.runner import Run, Runner
from mainspring.core.engine.thread_pool import ThreadPool
from mainspring.core.ports import IsolatedAttempt, ProcessDied, StopKind
from mainspring.model.execution import ExecutionRow, Outcome, encode_policy
from mainspring.model.policies import RunPolicy
from mainspring.model.time.instants import SECOND


class Clock:
    seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> int:
        return round(self.seconds * SECOND)


class Pool:
    """Keeps the attempt, and what is asked of it."""

    def __init__(self) -> None:
        self.attempt: IsolatedAttempt
        self.asked: list[tuple[Any, ...]] = []

    def run(self, attempt: IsolatedAttempt) -> Pool:
        self.attempt = attempt
        return self

    def stop(self, kind: StopKind, reason: str, within: float | None = None) -> None:
        self.asked.append((kind, reason, within))

    def kill(self) -> None:
        self.asked.append(("kill",))

    async def start(self) -> None: ...

    async def close(self, patience: float) -> None: ...


class World:
    """One isolated run, begun; made inside an event loop."""

    def __init__(self, **policy: Any) -> None:
        self.clock, self.pool = Clock(), Pool()
        self.ended: list[Outcome | None] = []
        registry = Registry()
        registry.declare("h", lambda: None)
        self.runner = Runner(self.clock, ThreadPool(1), "w", processes=lambda: self.pool)
        rules = encode_policy(RunPolicy(isolation="process", **policy))
        row = ExecutionRow(id="e", job="h", job_id="i", handler="h", policy=rules, claimed=self.clock.now())
        self.run = self.runner.prepare(row, registry.get("h"))
        self.run.leased_until = self.clock.seconds + 30
        self.runner.begin(self.run, self._done)

    def _done(self, run: Run, outcome: Outcome | None) -> None:
        self.ended.append(outcome)


@pytest.mark.req("EXE-4")
async def test_a_handler_does_not_begin_after_its_lease_or_a_request_to_stop() -> None:
    late, cancelled = World(), World()
    late.clock.seconds += 31
    cancelled.runner.cancel(cancelled.run, "not needed", 5)
    for world in (late, cancelled):
        assert not world.pool.attempt.begins()
        await asyncio.sleep(0)
        assert world.ended == [None]
        assert not world.run.entered
    assert cancelled.pool.asked == [("cancelled", "not needed", None)]


@pytest.mark.req("EXE-9")
@pytest.mark.parametrize(
    ("stopped", "end", "reason", "error"),
    [
        (None, "failed", "signal", "was ended by SIGSEGV"),
        ("timeout", "timeout", None, "timed out after 5 s; was ended by SIGSEGV"),
        ("cancelled", "cancelled", "not needed", None),
        ("handed_back", "handed_back", None, None),
        ("lost", "handed_back", None, None),
    ],
)
async def test_the_end_of_a_process_counts_as_what_it_was_asked_for(
    stopped: StopKind | None, end: str, reason: str | None, error: str | None
) -> None:
    world = World(timeout=5.0)
    assert world.pool.attempt.begins()
    world.pool.attempt.reported('{"done":1}', '{"seen":3}', ())
    if stopped == "cancelled":
        world.runner.cancel(world.run, "not needed", 5)
    elif stopped is not None:
        world.run.stop(stopped, "why")
    world.clock.seconds += 2
    world.pool.attempt.ended(ProcessDied("signal", "was ended by SIGSEGV", "stack", 12.5, 40.0))
    (outcome,) = world.ended
    assert outcome is not None
    assert (outcome.end, outcome.reason, outcome.error) == (end, reason, error)
    assert (outcome.cpu_ms, outcome.memory_mb, outcome.counters_json) == (12.5, 40.0, '{"seen":3}')
    assert outcome.ended - outcome.started == 2 * SECOND
    assert (outcome.overran, outcome.retryable) == (None, True)


async def test_a_child_that_returns_although_it_was_asked_to_stop_has_overrun() -> None:
    world = World(timeout=5.0)
    assert world.pool.attempt.begins()
    world.run.stop("timeout", "late")
    world.pool.attempt.ended(Outcome(end="completed", started=world.run.started, ended=0, worker="w"))
    assert world.ended[0] is not None
    assert (world.ended[0].end, world.ended[0].overran) == ("completed", "timeout")


async def test_an_abandoned_run_is_killed() -> None:
    world = World()
    assert world.pool.attempt.begins()
    world.run.stop("handed_back", "the worker is shutting down", within=0.5)
    world.run.abandon()
    assert world.pool.asked == [("handed_back", "the worker is shutting down", 0.5), ("kill",)]
