"""Catch-up and single occurrences on the clock of the database itself: jobs are dated back instead of waited for."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from mainspring import CatchUp, Execution, JobContext, Mainspring, every
from mainspring.core.views.job import job_of
from mainspring.model.store.messages import JobWrite
from mainspring.model.time.instants import SECOND, to_datetime
from tests.support import Nodes, until

MINUTE = 60 * SECOND


class Shop:
    def __init__(self, nodes: Nodes, overlap: str) -> None:
        self.nodes, self.overlap = nodes, overlap
        self.order: list[datetime] = []
        self.at_once = self.most = 0

    def app(self) -> Mainspring:
        app = self.nodes.app()
        app.job("tick", trigger=every(seconds=60), grace=5, missed=RULE, overlap=self.overlap)(self.tick)
        return app

    async def tick(self, ctx: JobContext) -> None:
        assert ctx.scheduled_at is not None
        self.order.append(ctx.scheduled_at)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1

    async def declared(self, minutes_ago: float) -> datetime:
        """The job as if it had been declared that long ago, and nobody had run since: when that was."""
        client = self.app()
        job = job_of(await client.job_view("tick"))
        store = client._runtime.parts.store  # type: ignore[union-attr]
        anchor = await store.now() - round(minutes_ago * MINUTE)
        back_dated = job.with_changes(anchor=anchor, next_run=anchor + MINUTE)
        [written] = await store.write_jobs([JobWrite(job=back_dated, seen_version=job.version)])
        assert written.won
        await client.close()
        return to_datetime(anchor)


RULE = CatchUp("all", max_runs=6, pace=0)


async def finished(app: Mainspring, state: str, count: int) -> list[Execution]:
    async def enough() -> list[Execution]:
        found = await app.executions(job="tick", status=state)
        return found if len(found) >= count else []

    return await until(enough, f"{count} are {state}")


@pytest.mark.req("WIN-1", "WIN-2")
@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel_running"])
async def test_an_absence_is_caught_up_one_after_another(nodes: Nodes, overlap: str) -> None:
    shop = Shop(nodes, overlap)
    begin = await shop.declared(minutes_ago=10.5)
    async with shop.app() as app:
        await finished(app, "completed", 6)
        assert shop.order == [begin + timedelta(minutes=number) for number in range(5, 11)]
        assert shop.most == 1
        [gap] = await app.executions(job="tick", status="skipped")
        assert (gap.reason, gap.metadata["count"]) == ("missed", 4)


@pytest.mark.req("WIN-8")
async def test_one_is_moved_and_one_is_skipped(nodes: Nodes) -> None:
    shop = Shop(nodes, "allow")
    begin = await shop.declared(minutes_ago=0.97)
    async with shop.app() as app:
        await app.skip_occurrence("tick", begin + timedelta(minutes=1), by="ada")
        later = begin + timedelta(minutes=9)
        soon = begin + timedelta(minutes=1, microseconds=1)
        await app.move_occurrence("tick", later, soon, by="ada")
        [run] = await finished(app, "completed", 1)
        assert (run.scheduled_at, run.start_at) == (later, soon)
        [record] = await finished(app, "skipped", 1)
        assert (record.reason, record.scheduled_at) == ("occurrence", begin + timedelta(minutes=1))
        view = await app.job_view("tick")
        assert (view.occurrences, view.next_run_at) == ((), begin + timedelta(minutes=2))
        assert [each.at for each in job_of(view).occurrences] == [later]  # it is remembered until its own time is past
