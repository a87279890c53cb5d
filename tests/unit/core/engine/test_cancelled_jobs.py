"""Whatever is cancelled is told once, also what nobody was running: what is told adds up to what the store counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mainspring import Mainspring, Unique
from mainspring.model.events import AttemptEnded
from mainspring.model.execution import State
from mainspring.observe.metrics.process_counters import ProcessCounts
from mainspring.testing import harness
from mainspring.testing.kit import Kit

pytestmark = pytest.mark.req("OBS-1", "OBS-8")
LATER = "2100-01-01T00:00:00Z"


class Told:
    def __init__(self) -> None:
        self.cancelled: list[AttemptEnded] = []
        self.counts = ProcessCounts(10)

    def __call__(self, event: object) -> None:
        self.counts(event)
        if isinstance(event, AttemptEnded) and event.state is State.CANCELLED:
            self.cancelled.append(event)

    @property
    def ids(self) -> set[str]:
        return {event.execution.id for event in self.cancelled}

    def tries(self, job: str) -> int:
        return sum(self.counts.jobs[job].durations.counts) if job in self.counts.jobs else 0


@asynccontextmanager
async def telling(told: Told) -> AsyncIterator[Kit]:
    app = Mainspring("memory://", observers=[told])
    app.job("crawl")(lambda: None)

    @app.job("nightly", tenants=["a", "b", "c"], continue_on_failure=False, tenant_max_attempts=1)
    def nightly() -> None:
        raise ValueError("as asked")

    async with harness(app, raise_errors=False) as kit:
        yield kit
        counted = Counter[str]()
        for each in (await app._runtime.parts.store.stats()).values():  # type: ignore[union-attr]
            for key, count in each.by_trigger.items():
                counted[key.rpartition(":")[2]] += count
        assert counted["cancelled"] == len(told.cancelled) == len(told.ids) > 0
        assert not any(event.tried for event in told.cancelled)


async def test_an_execution_that_waits() -> None:
    told = Told()
    async with telling(told) as kit:
        run = await kit.app.enqueue("crawl", start_at=LATER)
        assert run is not None
        await kit.app.cancel(run, by="ada")
        (event,) = told.cancelled
        assert (event.execution.id, event.reason) == (run.id, "cancelled by ada")
        assert told.tries("crawl") == 0  # no run took 0 seconds


async def test_what_a_cancelled_job_has() -> None:
    told = Told()
    async with telling(told) as kit:
        runs = [await kit.app.enqueue("crawl", start_at=LATER) for _ in range(3)]
        await kit.app.cancel("crawl", by="ada")
        assert told.ids == {run.id for run in runs if run is not None}


async def test_what_a_debounced_one_takes_the_place_of() -> None:
    told = Told()
    async with telling(told) as kit:
        first = await kit.app.enqueue("crawl", unique=Unique("site", debounce=60))
        await kit.app.enqueue("crawl", unique=Unique("site", debounce=60))
        assert first is not None
        assert told.ids == {first.id}


async def test_the_siblings_of_a_tenant_that_failed() -> None:
    told = Told()
    async with telling(told) as kit:
        await kit.app.trigger("nightly")
        await kit.run_until_idle()
        assert [event.reason for event in told.cancelled] == ["tenant a failed"] * 2
        assert {event.execution.tenant for event in told.cancelled} == {"b", "c"}
        assert told.tries("nightly") == 2  # of one tenant, and of their parent


async def test_tenants_that_a_cancelled_parent_never_began() -> None:
    told = Told()
    async with telling(told) as kit:
        parent = await kit.app.trigger("nightly", tenants=["a", "b"])
        await kit.app.cancel(parent, by="ada")
        assert {event.execution.tenant for event in told.cancelled} == {None, "a", "b"}
