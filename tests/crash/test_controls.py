"""What operators set at run time holds in all processes: pauses of queues, handlers and jobs, ceilings of queues."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mainspring import Execution
from mainspring.core.views.execution import row_of
from tests.crash.handlers import Witnessed, build
from tests.crash.ledger import Ledger
from tests.crash.processes import PATIENCE, Processes, until

SEEN_WITHIN = 2.0
"""Seconds, as promised; on a machine with more work than cores, as many times longer."""
SLOTS = 4
LEASE = {"lease": 3, "heartbeat": 0.5}


@pytest.mark.req("QUE-1", "QUE-2")
async def test_pauses_and_ceilings_hold_in_all_processes(tmp_path: Path, processes: Processes, database: str) -> None:
    app = build(tmp_path)
    total = 0

    async def enqueue(count: int) -> None:
        nonlocal total
        await app.enqueue_many([("work", {"n": total + each, "seconds": 0.1}) for each in range(count)])
        total += count

    try:
        for _ in range(2):
            processes.node("scheduler,worker", concurrency=SLOTS, **LEASE)
        await until(lambda: _both_work(app, enqueue), PATIENCE, "both work")

        await enqueue(240)
        await app.queues.pause("default", note="test")
        await _stops_within(app, time.time())
        await app.queues.resume("default")
        await _goes_on(app)
        await app.handlers.pause("work")
        await _stops_within(app, time.time())
        await app.handlers.resume("work")

        for ceiling in (2, 5, 1):
            await app.queues.limit("default", concurrency=ceiling)
            since = await _in_force(app, ceiling, time.time())
            await enqueue(4 * ceiling)
            await _goes_on(app, 3 * ceiling)
            assert _most_at_once(app.ledger, since) <= ceiling, f"a ceiling of {ceiling}"
        assert _most_at_once(app.ledger, 0.0) <= 2 * SLOTS
        await app.queues.limit("default")

        await enqueue(240)
        await app.pause("work")
        await _stops_within(app, time.time())
        await enqueue(30)
        processes.alive()[0].kill()
        processes.node("scheduler,worker", concurrency=SLOTS, **LEASE)
        await app.resume("work")
        await _goes_on(app)
        await app.pause("work", resume_after="1s")  # a scheduler ends it: nobody is there to release what is held
        await until(lambda: _completed(app, total), PATIENCE, "every execution completes")
        rescued = {line["id"] for line in app.ledger.lines("rescued")}
        begun = Counter(line["id"] for line in app.ledger.lines("began") if line["id"] not in rescued)
        assert set(begun.values()) == {1}
        assert len(begun) + len(rescued) == total
    finally:
        await app.close()


async def _both_work(app: Witnessed, enqueue: Callable[[int], Awaitable[None]]) -> bool:
    """Gives them more until they do: the first to start may end all there is."""
    if len(await app.workers()) < 2:
        return False
    await enqueue(2 * SLOTS)
    return len({line["pid"] for line in app.ledger.lines("began")}) == 2


async def _stops_within(app: Witnessed, paused: float) -> None:
    """Nothing begins any more, although something waits."""

    def idle() -> bool:
        began, ended = ({line["id"] for line in app.ledger.lines(event)} for event in ("began", "ended"))
        return began == ended and time.time() - _last_began(app.ledger) > 0.3

    await until(idle, PATIENCE, "the work stops")
    assert await app.executions(job="work", status="pending", limit=1), "there was nothing left to pause"
    assert _last_began(app.ledger) - paused < SEEN_WITHIN * _busy()


def _busy() -> float:
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


async def _goes_on(app: Witnessed, ended: int = 5) -> None:
    before = len(app.ledger.lines("ended"))
    await until(lambda: len(app.ledger.lines("ended")) >= before + ended, PATIENCE, "the work goes on")


async def _in_force(app: Witnessed, ceiling: int, limited: float) -> float:
    """The instant from which on no more run than may: every process knows of the ceiling, as promised, and what had
    begun before has ended."""

    async def few_run() -> bool:
        running = await app.executions(job="work", running=True, limit=50)
        known = time.time() - limited > SEEN_WITHIN * _busy()
        return known and len(running) <= ceiling and all(_carries(each, ceiling) for each in running)

    await until(few_run, PATIENCE, "the ceiling is in force")
    return time.time()


def _carries(execution: Execution, ceiling: int) -> bool:
    return f'"concurrency":{ceiling}' in (row_of(execution).limits or "")


def _last_began(ledger: Ledger) -> float:
    return max(line["at"] for line in ledger.lines("began"))


def _most_at_once(ledger: Ledger, since: float) -> int:
    """How many handlers were at work at the same moment, among those that began after that."""
    ends = {line["id"]: line["at"] for line in ledger.lines("ended")}
    spans = [(line["at"], ends.get(line["id"], float("inf"))) for line in ledger.lines("began") if line["at"] >= since]
    return max(sum(began <= at < ended for began, ended in spans) for at, _ in spans)


async def _completed(app: Witnessed, total: int) -> bool:
    return (await app.job_view("work")).stats.completed == total
