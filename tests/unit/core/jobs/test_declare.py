"""Declaring jobs at a start: what has not changed costs one reading."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from mainspring import every
from mainspring.core.jobs.job_cache import BATCH, FRESH_FOR, JobCache
from mainspring.model.job import JobSpec
from mainspring.model.triggers import encode_trigger
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock


class Counted:
    """A store that counts the calls made to it."""

    def __init__(self, store: MemoryStore) -> None:
        self._store, self.calls = store, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._store, name)


@pytest.mark.req("UPG-1")
async def test_what_has_not_changed_is_read_once_and_not_written() -> None:
    store = Counted(MemoryStore(FakeClock()))
    await store.open()
    trigger = encode_trigger(every(hours=1))
    specs = [(f"job-{n}", JobSpec(handler="h", trigger=trigger)) for n in range(2 * BATCH)]
    cache: Any = JobCache(store, FakeClock(), random.Random(1), "1")  # type: ignore[arg-type]
    await cache.declare(specs)
    assert store.calls["write_jobs"] == 2
    store.calls.clear()
    await cache.declare(specs)
    assert store.calls == {"list_entries": 1, "jobs": 2}
    await cache.declare([*specs[1:], ("job-0", JobSpec(handler="other", trigger=trigger))])
    assert store.calls["write_jobs"] == 1
    [job] = await store.jobs(["job-0"])
    assert job.spec.handler == "other"


async def test_the_cache_forgets_jobs_that_nobody_reads() -> None:
    clock, trigger = FakeClock(), encode_trigger(every(hours=1))
    store = MemoryStore(clock)
    await store.open()
    cache = JobCache(store, clock, random.Random(1), "1")
    await cache.declare([(f"job-{n}", JobSpec(handler="h", trigger=trigger)) for n in range(3)])
    for n in range(3):
        await cache.read(f"job-{n}")
    assert cache.at_hand("job-1") is not None
    clock.advance(FRESH_FOR)
    assert cache.at_hand("job-1") is None
    await cache.read("job-2")
    assert list(cache._cached) == ["job-2"]
