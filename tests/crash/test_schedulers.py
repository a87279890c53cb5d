"""Ten schedulers on one database, some of them killed: every tick happens once."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring import Retention
from mainspring.core.views.job import job_of
from tests.crash.handlers import UNDISTURBED, Witnessed, build
from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tables import due_jobs, known
from tests.crash.ticking import with_ticking_jobs

SCHEDULERS = 10
JOBS = 20
TICKS_PER_JOB = 50
TICKS = JOBS * TICKS_PER_JOB
PERIOD = timedelta(milliseconds=100)


@pytest.mark.req("REL-1", "TIM-1", "TIM-6")
async def test_a_thousand_ticks_are_a_thousand_executions(tmp_path: Path, processes: Processes) -> None:
    """Successes leave no history: nothing but the compare-and-set of the job row keeps a tick from happening twice."""
    quiet = build(tmp_path)
    await quiet.open()
    try:
        schedulers = [processes.node("scheduler") for _ in range(SCHEDULERS)]
        processes.node("worker", concurrency=50, **UNDISTURBED)
        await until(lambda: _taking_part(quiet, SCHEDULERS + 1), PATIENCE)
        retention = Retention(keep_success=False)
        await with_ticking_jobs(lambda: build(tmp_path), JOBS, TICKS_PER_JOB, PERIOD, retention=retention)
        for done in (TICKS // 4, TICKS // 2, TICKS * 3 // 4):
            await until(lambda done=done: len(quiet.ledger.lines("began")) >= done, PATIENCE)
            schedulers.pop().kill()
        await until(lambda: _completed(quiet) >= TICKS, PATIENCE, f"{TICKS} ticks have run")
        await until(lambda: due_jobs(tmp_path) == 0, PATIENCE, "nothing is due", every=0.1)
        await until(lambda: known(tmp_path) == [], PATIENCE, "successes are gone", every=0.1)
        await _judge(quiet)
    finally:
        await quiet.close()


async def _taking_part(app: Witnessed, nodes: int) -> bool:
    return len(await app.workers()) == nodes


def _completed(app: Witnessed) -> int:
    return len(app.ledger.lines("accepted", state="completed"))


async def _judge(app: Witnessed) -> None:
    runs = Counter((line["job"], line["tick"]) for line in app.ledger.lines("began"))
    assert runs.total() == len(runs) == TICKS
    assert set(Counter(job for job, _ in runs).values()) == {TICKS_PER_JOB}

    views = [view for view in await app.jobs() if view.name.startswith("ticks-")]
    assert [job_of(view).last_number for view in views] == [TICKS_PER_JOB] * JOBS
    assert [view.stats.completed for view in views] == [TICKS_PER_JOB] * JOBS
    assert [view.stats.total + view.stats.skipped for view in views] == [TICKS_PER_JOB] * JOBS

    winners = Counter(line["pid"] for line in app.ledger.lines("ticked"))
    print(f"{len(winners)} of {SCHEDULERS} schedulers won ticks: {sorted(winners.values(), reverse=True)}")
    assert len(winners) > 1, "only one scheduler ever won: nothing was contested"
    assert app.ledger.lines("trouble") == []
