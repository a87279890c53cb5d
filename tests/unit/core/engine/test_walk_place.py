"""A walk over all jobs keeps its place over restarts, and nodes share it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from mainspring.core.engine import janitor
from mainspring.core.engine.janitor import Janitor
from mainspring.core.engine.walk_place import WalkPlace
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import JobWrite
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock


async def store_of(count: int) -> MemoryStore:
    store, declared = MemoryStore(FakeClock()), encode_spec(JobSpec(handler="work"))
    jobs = [Job(name=f"job-{n}", id=f"id-{n}", declared=declared) for n in range(count)]
    await store.write_jobs([JobWrite(job=job, seen_version=None) for job in jobs])
    return store


def names(jobs: Sequence[Job]) -> list[str]:
    return [job.name for job in jobs]


@pytest.mark.req("HIS-2")
async def test_a_restart_goes_on_where_the_walk_was() -> None:
    store = await store_of(5)
    assert names(await WalkPlace(store, "retention").next_jobs(2)) == ["job-0", "job-1"]
    again = WalkPlace(store, "retention")
    pages = [names(await again.next_jobs(2)) for _ in range(3)]
    assert pages == [["job-2", "job-3"], ["job-4"], ["job-0", "job-1"]]
    assert names(await WalkPlace(store, "other").next_jobs(2)) == ["job-0", "job-1"]


@pytest.mark.req("HIS-2")
async def test_of_two_nodes_at_one_place_one_gets_the_jobs() -> None:
    store = await store_of(5)
    first, second = WalkPlace(store, "retention"), WalkPlace(store, "retention")
    page = store.jobs_after

    async def overtaken(name: str, limit: int) -> list[Job]:
        store.jobs_after = page  # type: ignore[method-assign]
        assert names(await second.next_jobs(2)) == ["job-0", "job-1"]
        return await page(name, limit)

    store.jobs_after = overtaken  # type: ignore[method-assign, assignment]
    assert names(await first.next_jobs(2)) == []
    assert names(await first.next_jobs(2)) == ["job-2", "job-3"]


async def test_few_jobs_need_no_place() -> None:
    store = await store_of(2)
    nodes = WalkPlace(store, "retention"), WalkPlace(store, "retention")
    assert [len(await node.next_jobs(10)) for node in nodes] == [2, 2]
    assert await store.list_entries("place", "") == []


@pytest.mark.req("HIS-2")
async def test_retention_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(janitor, "JOBS_AT_ONCE", 2)
    store, seen = await store_of(5), []
    stats = store.stats

    async def noted(ids: Sequence[str] | None = None) -> object:
        seen.append(ids)
        return await stats(ids)

    store.stats = noted  # type: ignore[method-assign, assignment]
    for _ in range(3):  # each a process of its own
        await Janitor(store, FakeClock(), Random(1), print).retain_once()
    assert seen == [["id-0", "id-1"], ["id-2", "id-3"], ["id-4"]]
