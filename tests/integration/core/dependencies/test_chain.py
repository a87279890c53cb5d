"""A chain of jobs, each with an execution per tenant, backfilled over many windows: exact counts, everything in order.

`FLOW_FULL=1` (make flow-full) has 10 jobs, 50 tenants and 30 windows, on memory and SQLite; else it is a small one.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mainspring import Execution, JobContext, Mainspring, NonRetryable
from mainspring.core.views.execution import row_of
from tests.support import until

FULL = bool(os.environ.get("FLOW_FULL"))
JOBS, TENANTS, WINDOWS = (10, 50, 30) if FULL else (4, 5, 6)
DEADLINE = 1_800.0 if FULL else 60.0
NAMES = [f"step-{number}" for number in range(JOBS)]
EVERYBODY = [f"tenant-{number:02d}" for number in range(TENANTS)]
BEGIN, END = "2026-03-01", f"2026-03-{WINDOWS + 1:02d}"


def chain(database: Any) -> tuple[Mainspring, list[tuple[str, Any, str]]]:
    """The last tenant fails in the second job, on the second day."""
    app, ran = Mainspring(database, concurrency=20, fold_interval="200ms"), list[tuple[str, Any, str]]()

    async def step(ctx: JobContext) -> None:
        ran.append((ctx.job, ctx.window.begin, ctx.tenant))
        if (ctx.job, ctx.window.begin.day, ctx.tenant) == (NAMES[1], 2, EVERYBODY[-1]):
            raise NonRetryable("no data")

    app.job(NAMES[0], cron="0 3 * * *", window="yesterday", tenants=EVERYBODY, missed="skip")(step)
    for before, name in pairwise(NAMES):
        app.schedule(name, NAMES[0], after=before, tenants=EVERYBODY, overlap="allow")
    return app, ran


async def all_rows(app: Mainspring) -> list[Execution]:
    rows: list[Execution] = []
    while page := await app.executions(limit=1_000, before=rows[-1].id if rows else None):
        rows += page
    return rows


@pytest.mark.req("FLW-1", "WIN-5")
@pytest.mark.timeout(3_600 if FULL else 120)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_chain_of_jobs_with_tenants_is_backfilled_window_by_window(kind: str, tmp_path: Path) -> None:
    app, ran = chain("memory://" if kind == "memory" else tmp_path / "jobs.db")
    async with app:
        made = await app.backfill(NAMES[0], BEGIN, END, concurrency=5)
        await app.backfills.wait(made.id, timeout=DEADLINE)

        async def last_has_ended() -> bool:
            view, left = await app.job_view(NAMES[-1]), await (await app._runtime.engine()).store.todo(1)
            return view.stats.total == WINDOWS * (TENANTS + 1) - 1 and not view.live.total and not left

        await until(last_has_ended, "the last job has run for every window", deadline=DEADLINE)
        rows = await all_rows(app)
    parents = [row for row in rows if row.parent_id in (None, made.id)]
    children = [row for row in rows if row.parent_id not in (None, made.id)]
    after_failure = JOBS - 2  # jobs in which the tenant that failed is left out, in that one window
    assert Counter(row.job for row in parents) == dict.fromkeys(NAMES, WINDOWS)
    assert len(children) == JOBS * WINDOWS * TENANTS - after_failure
    assert len(ran) == len(set(ran)) == len(children), "each of them ran once"
    assert Counter(row.state for row in parents) == {"completed": JOBS * WINDOWS - 1, "partial": 1}
    assert Counter(row.state for row in children) == {"completed": len(children) - 1, "failed": 1}
    assert not [row for row in rows if not row.state.final or row_of(row).todo]
    check_order(rows, parents, ran)


def check_order(rows: list[Execution], parents: list[Execution], ran: list[tuple[str, Any, str]]) -> None:
    """Each job of a window begins when the one before has ended for it, with all its tenants."""
    of = {(row.job, row_of(row).window_begin): row for row in parents}
    for row in parents:
        place = NAMES.index(row.job)
        if place:
            before = of[NAMES[place - 1], row_of(row).window_begin]
            assert (row_of(before).finished or row_of(row).created + 1) <= row_of(row).created
            assert (row.trigger, row.metadata["after"]) == ("dependency", {before.job: before.id})
            assert row.trace_id == before.trace_id
    at = {what: number for number, what in enumerate(ran)}
    for (job, day, tenant), number in at.items():
        if place := NAMES.index(job):
            assert at[NAMES[place - 1], day, tenant] < number
