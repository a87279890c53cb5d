"""What a process asks of the store must not grow with the number of jobs that lie in it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mainspring import Mainspring, every
from mainspring.app.adapters import SystemClock
from mainspring.cli.start_report import OrphanWatch
from mainspring.core.jobs.job_cache import BATCH
from mainspring.core.queries.queries import WALKED
from mainspring.stores.memory import MemoryStore
from tests.support import NEVER, until


class Counting(MemoryStore):
    """How often it was asked for all jobs, for some, and to write any."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.asked: Counter[str] = Counter()

    async def jobs(self, names: Any = None) -> Any:
        self.asked["all jobs" if names is None else "some jobs"] += 1
        return await super().jobs(names)

    async def jobs_after(self, name: str, limit: int) -> Any:
        self.asked["pages"] += 1
        return await super().jobs_after(name, limit)

    async def workers(self) -> Any:
        self.asked["workers"] += 1
        return await super().workers()

    async def write_jobs(self, writes: Any) -> Any:
        self.asked["writes"] += 1
        return await super().write_jobs(writes)


def declaring(store: MemoryStore, count: int) -> Mainspring:
    app = Mainspring(store, poll_interval=NEVER, stop_timeout=5)
    app.job("work")(work)
    for n in range(count):
        app.schedule(f"job-{n:04}", work, every(days=1), params={})
    return app


async def work() -> None:
    pass


@pytest.mark.req("NUM-1", "REG-8")
async def test_declaring_again_what_is_unchanged_is_read_in_batches_and_writes_nothing() -> None:
    store, count = Counting(), 1_200
    async with declaring(store, count):
        assert store.asked["writes"] == count // BATCH + 1
    store.asked.clear()
    async with declaring(store, count):
        reads = count // BATCH + 1
        assert (store.asked["all jobs"], store.asked["writes"]) == (0, 0)
        assert store.asked["some jobs"] == reads


@pytest.mark.req("NUM-1", "OPS-4")
async def test_a_start_names_orphaned_work_without_reading_all_jobs() -> None:
    store = Counting()
    older = declaring(store, 3)
    await older.enqueue("job-0001")
    await older.close()
    newer = Mainspring(store, poll_interval=NEVER, stop_timeout=5)
    newer.job("other")(work)
    newer.observe(OrphanWatch(newer))
    async with newer:
        assert await until(newer.monitoring.waiting_for_code) == {"job-0001": 1}
    assert store.asked["all jobs"] == 0


@pytest.mark.req("NUM-1")
async def test_a_walk_over_all_jobs_reads_small_pages_and_the_workers_once() -> None:
    """Workers name all that they declare; a page is made without a pause."""
    store = Counting()
    app = declaring(store, 2 * WALKED)
    await app.open()
    store.asked.clear()
    queries = (await app._runtime.engine()).queries
    assert [len(page) async for page in queries.walk()] == [WALKED, WALKED, 1]
    assert (store.asked["pages"], store.asked["workers"]) == (4, 1)
    await app.close()
