"""Workers are killed while they work: every execution completes, with one accepted ending."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from mainspring import Execution
from mainspring.core.views.execution import row_of
from tests.crash.handlers import Witnessed, build
from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tables import ended, live
from tests.crash.tally import TALLY

FULL = "CRASH_FULL" in os.environ
SIZES = (
    {"sqlite": (4_000, 48), "postgres": (2_000, 24), "mongo": (2_000, 24)}
    if FULL
    else {"sqlite": (1_200, 16), "postgres": (300, 6), "mongo": (300, 6)}
)
"""Executions and kills: one database is tried at length, the others enough to see a difference. `make crash-full` tries
all of them at length."""
WORKERS = 4


@pytest.mark.req("REL-1", "WRK-3", "WRK-4", "WRK-7", "EXE-4")
async def test_every_execution_completes_whoever_is_killed(tmp_path: Path, processes: Processes, database: str) -> None:
    executions, kills = SIZES[database]
    app = build(tmp_path)
    try:
        await _enqueue(app, executions)
        for _ in range(WORKERS):
            processes.node(concurrency=8)
        for number in range(kills):
            await until(lambda done=number * executions // (kills + 2): _completed(app, done), PATIENCE)
            async with app.at_work():
                await until(lambda: _kill_a_busy_worker(app, processes), PATIENCE)
            processes.node(concurrency=8)
        everything = executions + kills
        await until(lambda: _completed(app, everything), PATIENCE, "every execution completes")
        await _judge(app, tmp_path, everything)
    finally:
        await app.close()


async def _enqueue(app: Witnessed, count: int) -> None:
    """Mostly short work, so that endings race with kills, and some that is sure to be running when one comes."""
    chance = random.Random(7)
    seconds = [chance.choice([0.01, 0.02, 0.05, 0.4]) for _ in range(count)]
    items = [(("work", "work_in_thread")[n % 2], {"n": n, "seconds": seconds[n]}) for n in range(count)]
    added = await app.enqueue_many(items)
    assert len({execution.id for execution in added if execution is not None}) == count


async def _completed(app: Witnessed, at_least: int) -> bool:
    return sum([view.stats.completed for view in await app.jobs()]) >= at_least


async def _kill_a_busy_worker(app: Witnessed, processes: Processes) -> bool:
    """Stop one first, so that what the store says of it stays true until the kill."""
    for process in random.sample(alive := processes.alive(), len(alive)):
        process.pause()
        if _is_fair_victim(await app.running(process)):
            process.kill()
            TALLY.kills += 1
            return True
        process.go_on()
    return False


def _is_fair_victim(running: list[Execution]) -> bool:
    """Something runs in it, and nothing that would rightly be quarantined when it dies a third time."""
    return bool(running) and not any(row_of(execution).alone for execution in running)


async def _judge(app: Witnessed, folder: Path, count: int) -> None:
    assert live(folder) == 0
    assert ended(folder) == {"completed": count}
    assert sum([view.stats.completed for view in await app.jobs()]) == count
    assert sum([view.stats.total for view in await app.jobs()]) == count

    accepted = Counter(line["id"] for line in app.ledger.lines("accepted", state="completed"))
    assert max(accepted.values()) == 1
    began = {(line["id"], line["token"], line["pid"]) for line in app.ledger.lines("began")}
    finished = {(line["id"], line["token"], line["pid"]) for line in app.ledger.lines("ended")}
    for execution in await _all(app, count):
        assert [attempt.end for attempt in execution.attempts].count("completed") == 1
        assert execution.attempts[-1].end == "completed"
        ends = [attempt.end for attempt in execution.attempts[:-1]]
        assert set(ends) <= {"worker_lost", "handed_back"}  # the latter: fetched ahead, and not begun in time
        assert execution.crashes == execution.failures == ends.count("worker_lost")
        winner = (execution.id, execution.result["token"], execution.result["pid"])
        assert winner in began
        assert winner in finished
    assert app.ledger.lines("trouble") == []


async def _all(app: Witnessed, count: int) -> list[Execution]:
    found: list[Execution] = []
    while page := await app.executions(limit=500, before=found[-1].id if found else None):
        found += page
    assert len(found) == count
    return found
