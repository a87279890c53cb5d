"""Limits by key hold across processes, also while these are killed."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from mainspring import State
from mainspring.core.views.execution import row_of
from tests.crash.handlers import BURST, NARROW, PACE, UNDISTURBED, Witnessed, build
from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tally import TALLY

WORKERS = 3
NARROW_EXECUTIONS, KILLS = 44, 2
PACED_EXECUTIONS = 90
SECOND = 1_000_000


@pytest.mark.req("FLW-3", "TEN-5")
async def test_no_more_run_at_once_than_may_and_no_slot_is_lost(
    tmp_path: Path, processes: Processes, database: str
) -> None:
    app = build(tmp_path)

    async def at_the_limit() -> bool:
        found = await app.executions(job="narrow", running=True, limit=100)
        leases = [each for each in found if each.state is State.RUNNING]
        assert len(leases) <= NARROW, f"{len(leases)} of at most {NARROW} run at once"
        return len(leases) == NARROW

    async def completed(at_least: int) -> bool:
        await at_the_limit()
        return (await app.job_view("narrow")).stats.completed >= at_least

    try:
        await app.enqueue_many([("narrow", {"n": n, "seconds": 0.03}) for n in range(NARROW_EXECUTIONS)])
        for _ in range(WORKERS):
            processes.node(concurrency=8)
        for number in range(KILLS):
            await until(lambda done=(number + 1) * 10: completed(done), PATIENCE)
            async with app.at_work("narrow", NARROW):
                await until(at_the_limit, PATIENCE, "as many run as may")
                await until(lambda: _kill_one_of(app, processes), PATIENCE)
            processes.node(concurrency=8)
        everything = NARROW_EXECUTIONS + KILLS * NARROW
        await until(lambda: completed(everything), PATIENCE, "every execution completes: no slot was lost")
    finally:
        await app.close()


async def _kill_one_of(app: Witnessed, processes: Processes) -> bool:
    """Stop one first, so that what the store says of it stays true until the kill."""
    for process in random.sample(alive := processes.alive(), len(alive)):
        await app.halt(process)
        mine = await app.running(process)
        if mine and not any(row_of(each).alone for each in mine):
            process.kill()
            TALLY.kills += 1
            return True
        process.go_on()
    return False


@pytest.mark.req("FLW-3")
async def test_no_more_begin_in_any_second_than_may(tmp_path: Path, processes: Processes, database: str) -> None:
    """By the instants at which the store gave them out. How close to the limit it comes is a matter for a benchmark."""
    app = build(tmp_path)
    try:
        for _ in range(WORKERS):
            processes.node(concurrency=8, **UNDISTURBED)
        await until(lambda: _heard(app), PATIENCE)
        rounds = itertools.count(1)

        async def another_round() -> bool:
            """Whether several processes have shared the work so far: all but one may be kept from it for a while."""
            wanted = next(rounds) * PACED_EXECUTIONS
            await app.enqueue_many([("paced", {"n": n, "seconds": 0.0}) for n in range(PACED_EXECUTIONS)])
            await until(lambda: completed(wanted), PATIENCE, "every execution completes")
            ended = await app.executions(job="paced", limit=1_000)
            begun = sorted(row_of(each).claimed for each in ended if row_of(each).claimed is not None)
            assert len(begun) == len(ended) == wanted
            assert max(sum(at <= other < at + SECOND for other in begun) for at in begun) <= PACE + BURST
            return len({each.attempts[0].worker for each in ended}) > 1

        async def completed(wanted: int) -> bool:
            return (await app.job_view("paced")).stats.completed == wanted

        await until(another_round, PATIENCE, "more than one process has a share")
    finally:
        await app.close()


async def _heard(app: Witnessed) -> bool:
    return len([worker for worker in await app.workers() if "worker" in worker.roles]) == WORKERS
