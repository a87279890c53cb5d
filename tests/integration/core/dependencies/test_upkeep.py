"""What retention does for jobs that come after others: links and records that nobody needs go, and nothing else."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.app.adapters import SystemClock
from mainspring.core.dependencies.joins import KEPT_FOR
from mainspring.core.dependencies.links import KEPT_USELESS, Dependents, Link, LinkUpkeep, link_body, with_feeds
from mainspring.core.engine.janitor import Janitor
from mainspring.core.expiry import EntryExpiry
from mainspring.core.views.execution import row_of
from mainspring.model.events import Trouble
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.store.messages import JobWrite
from mainspring.model.time.instants import SECOND
from mainspring.stores.memory import MemoryStore
from mainspring.testing import harness
from tests.integration.core.dependencies.test_dependencies import Flow

HOUR = KEPT_USELESS / SECOND + 60


async def links(store: Any) -> dict[str, Link]:
    return {entry.key: link_body(entry) for entry in await store.list_entries("join", "")}


async def feeds(store: Any, name: str) -> bool:
    [job] = await store.jobs([name])
    return bool(job.spec.feeds)


class Upkeep:
    """A janitor that looks once whenever it is told to."""

    def __init__(self, store: Any, clock: Any) -> None:
        self.store, self.clock = store, clock
        self.heard: list[Any] = []
        self.janitor = Janitor(store, clock, Random(1), self.heard.append)

    async def after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.janitor.retain_once()


@pytest.mark.req("FLW-1")
async def test_a_parent_stops_paying_an_hour_after_its_last_dependent_went_elsewhere() -> None:
    flow = Flow()
    for name in ("load", "rates", "end", "other"):
        flow.job(name)
    async with flow.harness() as kit:
        for name in ("end", "other"):
            await flow.app.update_job(name, after=["load"])
        store = (await flow.app._runtime.engine()).store
        upkeep = Upkeep(store, kit.clock)
        await flow.app.update_job("end", after=["rates"])
        await upkeep.after(HOUR)
        assert (await links(store))["load/end"].useless_since is not None
        await flow.app.update_job("end", after=["load", "rates"])
        await upkeep.after(HOUR)
        assert set(await links(store)) == {"load/end", "load/other", "rates/end"}, "it was laid anew meanwhile"
        await flow.app.update_job("end", after=["rates"])
        for _ in range(2):
            await upkeep.after(HOUR)
        assert (set(await links(store)), await feeds(store, "load")) == ({"load/other", "rates/end"}, True)
        await flow.app.update_job("other", after=[])
        await upkeep.after(1)
        assert await feeds(store, "load")
        await upkeep.after(HOUR)
        assert (set(await links(store)), await feeds(store, "load")) == ({"rates/end"}, False)

        await flow.app.update_job("other", after=["load"])
        await flow.app.enqueue("load")
        await kit.run_until_idle()
        assert flow.ran == ["load", "other"], "and pays again as soon as somebody comes after it"
        assert [each for each in upkeep.heard if isinstance(each, Trouble)] == []


@pytest.mark.req("FLW-1")
async def test_links_and_records_of_a_job_that_was_removed_go_with_it() -> None:
    flow = Flow()
    for name in ("left", "right"):
        flow.job(name)
    flow.job("end", after=("left", "right"))
    async with flow.harness() as kit:
        await flow.app.enqueue("left")
        await kit.run_until_idle()
        store = (await flow.app._runtime.engine()).store
        assert len(await store.list_entries("join", "end")) == 1
        await flow.app.remove_job("end")
        upkeep = Upkeep(store, kit.clock)
        for _ in range(2):
            await upkeep.after(HOUR)
        assert (await links(store), await store.list_entries("join", "end")) == ({}, [])
        assert [await feeds(store, name) for name in ("left", "right")] == [False, False]


@pytest.mark.req("FLW-1")
async def test_a_link_and_a_mark_that_are_missing_are_made_good() -> None:
    flow = Flow()
    flow.job("load")
    flow.job("end", after="load")
    async with flow.harness() as kit:
        store = (await flow.app._runtime.engine()).store
        await store.write_entries(
            [EntryWrite(entry=each, remove=True) for each in await store.list_entries("join", "")]
        )
        [load] = await store.jobs(["load"])
        await store.write_jobs([JobWrite(job=with_feeds(load, False), seen_version=load.version)])
        await Upkeep(store, kit.clock).after(1)
        assert (set(await links(store)), await feeds(store, "load")) == ({"load/end"}, True)


@pytest.mark.req("FLW-1")
async def test_who_lays_a_link_while_the_mark_is_taken_away_wins() -> None:
    """Another node declares a job between the look at a parent's links and the write that takes its mark away."""
    flow = Flow()
    flow.job("load")
    flow.job("end")
    async with flow.harness():
        store: Any = (await flow.app._runtime.engine()).store
        await flow.app.update_job("end", after=["load"])
        await flow.app.update_job("end", after=[])
        care = LinkUpkeep(store, print)
        now = await store.now()
        await care.run([], now)
        write, laid = store.write_jobs, []

        async def late(writes: Any) -> Any:
            if not laid:
                laid.append(True)
                other = Dependents(store)
                await other.add_links({("load", "end")})
                await other.mark({"load"})
            return await write(writes)

        store.write_jobs = late
        await care.run([], now + KEPT_USELESS + SECOND)
        store.write_jobs = write
        assert (laid, set(await links(store)), await feeds(store, "load")) == ([True], {"load/end"}, True)


@pytest.mark.req("FLW-1")
async def test_what_cannot_be_read_does_not_stop_the_pruning() -> None:
    flow = Flow()
    for name in ("left", "right"):
        flow.job(name)
    flow.job("end", after=("left", "right"))
    async with flow.harness() as kit:
        store = (await flow.app._runtime.engine()).store
        await flow.app.enqueue("left")
        await kit.run_until_idle()
        odd = Entry(kind="join", scope="end", key="flow:0", body='{"of": "a newer release"}')
        gone = Entry(kind="tenants", scope="open", key="x", body='{"of": "a newer release"}')
        await store.write_entries([EntryWrite(entry=odd), EntryWrite(entry=gone)])
        upkeep = Upkeep(store, kit.clock)
        await upkeep.after(KEPT_FOR / SECOND + 60)
        assert [entry.key for entry in await store.list_entries("join", "end")] == ["flow:0"]
        assert [each.where for each in upkeep.heard if isinstance(each, Trouble)] == ["joins of end"]
        await (await flow.app._runtime.engine()).overview.why("end")


async def test_an_entry_that_cannot_be_read_does_not_stop_the_pruning_of_its_kind() -> None:
    store = MemoryStore(SystemClock())
    for key in ("1", "?", "2"):
        await store.write_entries([EntryWrite(entry=Entry(kind="idempotency", key=key))])
    pruning = EntryExpiry(store, SystemClock(), "idempotency", lambda entry, now: int(entry.key) < now)
    assert await pruning.once() == 2
    assert [entry.key for entry in await store.list_entries("idempotency", "")] == ["?"]


@pytest.mark.req("TEN-1", "HIS-2")
async def test_tenants_of_a_parent_that_waits_stay_though_the_job_has_none_any_more() -> None:
    app = Mainspring("memory://")
    app.job("load", retention={"days": 1})(lambda: None)
    async with harness(app, start="2026-03-10T00:00Z") as kit:
        run = await app.enqueue("load")
        await kit.run_until_idle()
        assert run is not None
        store: Any = (await app._runtime.engine()).store
        body = f'{{"job_id": "{row_of(run).job_id}", "at": {row_of(run).created}}}'
        opened = Entry(kind="tenants", scope="open", key="parent", body=body)
        await store.write_entries([EntryWrite(entry=opened)])
        for _ in range(30):
            extra = await app.enqueue("load")
            assert extra is not None
        await kit.run_until_idle()
        upkeep = Upkeep(store, kit.clock)
        await upkeep.after(40 * 86_400)
        assert await store.execution(run.id) is not None
        await store.write_entries([EntryWrite(entry=opened, remove=True)])
        await upkeep.after(1)
        assert await store.execution(run.id) is None


@pytest.mark.req("FLW-1")
async def test_two_edits_at_one_instant_that_make_a_circle_are_told_of_and_do_not_go_round() -> None:
    flow = Flow()
    for name in ("a", "b", "c"):
        flow.job(name)
    async with flow.harness() as kit:
        store: Any = (await flow.app._runtime.engine()).store
        await flow.app.update_job("b", after=["a"])
        write = store.write_jobs

        async def slow(writes: Any) -> Any:
            """While one operator's edit of `a`, which was fine, is on its way, another edits `c`."""
            if writes[0].job.spec.after == ("c",):
                store.write_jobs = write
                await flow.app.update_job("c", after=["b"])
            return await write(writes)

        store.write_jobs = slow
        await flow.app.update_job("a", after=["c"])
        await flow.app.enqueue("b")
        with pytest.raises(AssertionError, match="'c' comes after itself: c after b after a after c"):
            await kit.run_until_idle()
        assert flow.ran == ["b"]
        await flow.app.update_job("a", after=[])
        await flow.app.enqueue("b")
        await kit.run_until_idle()
        assert flow.ran[1:] == ["b", "c"]
