"""Work to do while faults happen, and what must be true of it afterwards: nothing lost, one ending, ticks exact."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from mainspring import Execution
from mainspring.core.views.execution import row_of
from mainspring.core.views.job import job_of
from mainspring.model.errors import StoreError
from tests.crash.handlers import Witnessed, build
from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tables import due_jobs, ended, live
from tests.crash.ticking import with_ticking_jobs

JOBS = 4
PERIOD = timedelta(milliseconds=100)
CLAIM_WITHIN = 5.0
"""Seconds after which work is claimed again. No loop sleeps for more than three of them (test_loops.py)."""


class Load:
    """`executions` enqueued beforehand, more by a client that goes on through every fault, and jobs that tick."""

    def __init__(self, folder: Path, executions: int, ticks: int) -> None:
        self.folder = folder
        self.app = build(folder)
        self.acknowledged: set[str] = set()
        self.refused = 0
        self._executions, self._ticks = executions, ticks
        self._client: asyncio.Task[None] | None = None
        self._enough = False

    async def begin(self, processes: Processes, nodes: int, **settings: object) -> None:
        """With so many nodes, all of which take part before there is any work: one that finds no server when it starts
        says so and ends, as it should, and a busy machine starts one of them seconds after another."""
        await self.app.open()
        for _ in range(nodes):
            processes.node("scheduler,worker", concurrency=4, **settings)
        await until(lambda: self._taking_part(nodes), PATIENCE, "all nodes take part")
        await with_ticking_jobs(lambda: build(self.folder), JOBS, self._ticks, PERIOD, max_attempts=100)
        for seconds in (0.01, 0.05, 0.2, 0.3):
            items = [("work", {"n": n, "seconds": seconds}) for n in range(self._executions // 4)]
            self._acknowledge(await self.app.enqueue_many(items))
        self._client = asyncio.create_task(self._keep_enqueueing())

    async def _taking_part(self, nodes: int) -> bool:
        return len(await self.app.workers()) == nodes

    async def _keep_enqueueing(self) -> None:
        """As a web application would: what fails, fails, and the next request comes."""
        while not self._enough:
            try:
                self._acknowledge([await self.app.enqueue("work_in_thread")])
            except StoreError:
                self.refused += 1
            await asyncio.sleep(0.03)

    def _acknowledge(self, executions: list[Execution | None]) -> None:
        self.acknowledged |= {each.id for each in executions if each is not None}

    async def end(self) -> None:
        if self._client is not None:
            self._client.cancel()
            await asyncio.gather(self._client, return_exceptions=True)
        await self.app.close()

    # --- while it goes on -----------------------------------------------------------------------------------

    def begun(self) -> int:
        return len(self.app.ledger.lines("began"))

    async def more(self, runs: int) -> None:
        """Wait until so many runs have begun from now on."""
        wanted = self.begun() + runs
        await until(lambda: self.begun() >= wanted, PATIENCE, f"{runs} more runs begin")

    async def first_claim(self) -> float:
        """Seconds from now until work is claimed that was not claimed before."""
        began, seen = time.time(), self.begun()
        await until(lambda: self.begun() > seen, PATIENCE, "work is claimed again")
        return float(self.app.ledger.lines("began")[seen]["at"]) - began

    async def fresh_claim(self) -> float:
        """Seconds from now until work is enqueued anew and begins: no answer from before can be mistaken for it."""
        began = time.time()
        new = await until(self._enqueued, PATIENCE, "the store takes work again")
        [line, *_] = await until(lambda: self.app.ledger.lines("began", id=new), PATIENCE, "new work is claimed")
        return float(line["at"]) - began

    async def _enqueued(self) -> str | None:
        try:
            execution = await self.app.enqueue("work", priority=10)
        except StoreError:
            self.refused += 1
            return None
        self._acknowledge([execution])
        return None if execution is None else execution.id

    # --- afterwards -----------------------------------------------------------------------------------------

    async def judge(self) -> None:
        """Stop enqueueing, wait until all is done, and look."""
        assert self._client is not None
        self._enough = True
        await self._client
        await until(self._is_done, PATIENCE, "everything has ended", every=0.15)  # each look takes two new connections
        await self._judge_ticks()
        rows = await _all(self.app)
        assert self.acknowledged <= {execution.id for execution in rows}
        wanted = JOBS * self._ticks + len(self.acknowledged)
        assert wanted <= len(rows) <= wanted + self.refused  # an answer that was lost may have been a yes
        assert ended(self.folder) == {"completed": len(rows)}
        accepted = Counter(line["id"] for line in self.app.ledger.lines("accepted", state="completed"))
        assert set(accepted.values()) == {1}
        for execution in rows:
            ends = [attempt.end for attempt in execution.attempts]
            assert ends[-1] == "completed"
            assert ends.count("completed") == 1
            assert set(ends[:-1]) <= {"worker_lost", "handed_back"}  # fetched ahead, and not begun in time
        await until(lambda: self._counted(len(rows)), PATIENCE, "statistics agree with history")

    async def _is_done(self) -> bool:
        return due_jobs(self.folder) == 0 and live(self.folder) == 0

    async def _judge_ticks(self) -> None:
        views = [view for view in await self.app.jobs() if view.name.startswith("ticks-")]
        numbers = [job_of(view).last_number for view in views]
        assert numbers == [self._ticks] * JOBS, numbers
        for view in views:
            rows = await self.app.executions(view.name, limit=500)
            assert len({row_of(row).tick for row in rows}) == len(rows) == self._ticks

    async def _counted(self, executions: int) -> bool:
        return sum([view.stats.completed for view in await self.app.jobs()]) == executions

    def __str__(self) -> str:
        runs, tries = self.begun(), len({line["id"] for line in self.app.ledger.lines("began")})
        return f"{len(self.acknowledged)} acknowledged, {self.refused} refused, {runs} runs of {tries}"


async def _all(app: Witnessed) -> list[Execution]:
    found: list[Execution] = []
    while page := await app.executions(limit=500, before=found[-1].id if found else None):
        found += page
    return found
