"""Job rows: compare-and-set, ticks that happen once, due jobs, deletion."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from ...model.execution import State
from ...model.job import JobSpec, encode_spec
from ...model.store.messages import ExecutionQuery, JobWrite
from ...model.time.instants import SECOND
from ...model.values.ids import random_id
from .base import StoreSuite, World, ids


class JobWrites(StoreSuite):
    async def test_insert_only_if_no_such_job_exists(self, world: World) -> None:
        assert await world.write(world.job(release="1"))
        assert not await world.write(world.job(release="2"))
        job = await world.stored_job()
        assert (job.version, job.release) == (1, "1")

    async def test_update_only_at_the_version_seen(self, world: World) -> None:
        await world.write(world.job())
        assert await world.write(world.job(release="2"), seen=1)
        assert not await world.write(world.job(release="stale"), seen=1)
        assert not await world.write(world.job(release="ahead"), seen=7)
        job = await world.stored_job()
        assert (job.version, job.release) == (2, "2")

    async def test_update_of_a_job_that_does_not_exist_is_refused(self, world: World) -> None:
        assert not await world.write(world.job(), seen=1)
        assert await world.store.jobs() == []

    async def test_every_field_of_a_job_comes_back(self, world: World) -> None:
        job = world.job(
            origin="api",
            overrides='{"queue":"slow"}',
            release="r7",
            next_run=world.after(1.000001),
            last_tick=world.after(-1),
            anchor=12_345,
            paused=world.after(-2),
            paused_by="ann",
            pause_note="näh \u2028 \U0001f40d",
            resume=world.after(99),
            cancelled=world.after(3),
            sweep=True,
        )
        await world.write(job)
        assert await world.stored_job() == job.with_changes(version=1)

    async def test_jobs_can_be_walked_over_in_steps(self, world: World) -> None:
        for name in ("b", "a", "C", "d"):
            await world.write(world.job(name))
        first = await world.store.jobs_after("", 3)
        rest = await world.store.jobs_after(first[-1].name, 3)
        assert [[job.name for job in page] for page in (first, rest)] == [["C", "a", "b"], ["d"]]

    async def test_the_queues_of_jobs_are_named_once_each(self, world: World) -> None:
        assert await world.store.job_queues() == []
        for name, queue in (("a", "slow"), ("b", "default"), ("c", "slow"), ("d", "Mail"), ("e", "mail.7")):
            await world.write(world.job(name, declared=encode_spec(JobSpec(handler="work", queue=queue))))
        assert await world.store.job_queues() == ["Mail", "default", "mail.7", "slow"]
        assert await world.store.delete_job("b", 1, purge=False, audit=world.audit())
        assert await world.store.job_queues() == ["Mail", "mail.7", "slow"]

    async def test_the_size_of_the_store_is_known_without_counting(self, world: World) -> None:
        await world.write(world.job("a"))
        size = await world.store.storage_size()
        assert size.kind
        assert size.bytes is None or size.bytes > 0
        assert all(part.name and part.bytes >= 0 and part.rows >= 0 for part in size.parts)
        assert size.bytes is None or not size.parts or size.bytes == sum(part.bytes for part in size.parts)

    async def test_jobs_are_counted_up_to_a_cap(self, world: World) -> None:
        assert await world.store.count_jobs(3) == 0
        for name in ("a", "b", "c"):
            await world.write(world.job(name))
        assert [await world.store.count_jobs(cap) for cap in (1, 2, 3, 4)] == [1, 2, 3, 3]
        assert await world.store.delete_job("b", 1, purge=False, audit=world.audit())
        assert await world.store.count_jobs(3) == 2

    async def test_each_write_of_a_batch_stands_alone(self, world: World) -> None:
        await world.write(world.job("a"))
        writes = [
            JobWrite(job=world.job("a"), seen_version=None),
            JobWrite(job=world.job("b"), seen_version=None),
            JobWrite(job=world.job("b"), seen_version=1),
        ]
        assert [written.won for written in await world.store.write_jobs(writes)] == [False, True, True]

    @pytest.mark.req("REL-1", "TIM-6")
    async def test_executions_are_inserted_only_if_the_write_won(self, world: World) -> None:
        await world.write(world.job())
        first, second = world.execution(), world.execution()
        assert await world.write(world.job(), seen=1, executions=(first,))
        assert not await world.write(world.job(), seen=1, executions=(second,))
        assert await world.all_ids() == [first.id]

    async def test_executions_of_a_write_are_added_as_add_does(self, world: World) -> None:
        done = await world.finished()
        held = world.execution(unique_key="u", overlap_key="o")
        await world.add(held)
        tick = (
            done,
            world.execution(unique_key="u"),
            world.execution(overlap_key="o"),
            world.execution(),
        )
        [written] = await world.store.write_jobs([JobWrite(job=world.job(), seen_version=None, executions=tick)])
        assert [added.outcome for added in written.added] == ["duplicate", "unique_taken", "skipped", "added"]
        assert [added.id for added in written.added] == ids(tick)
        assert await world.state(tick[2].id) is State.SKIPPED

    @pytest.mark.req("WHK-1", "REL-1")
    async def test_what_is_skipped_at_once_keeps_its_mark(self, world: World) -> None:
        """The ending of an execution that is added decides anew."""
        await world.write(world.job())
        keys = {"overlap_key": "o", "running_overlap_key": "o", "todo": True}
        real = [random_id(world.now, Random(n)) for n in range(3)]
        first, second, third = [world.execution(id=id, trace_id=id.replace("-", ""), **keys) for id in real]
        for seen, tick in enumerate((first, second), 1):
            assert await world.write(world.job(), seen, executions=(tick,), only_plan=True)
        await world.add(third)
        assert ids(await world.store.todo(10)) == sorted([second.id, third.id])
        [row] = await world.claim()
        await world.settle(row)
        assert ids(await world.store.todo(10)) == sorted([second.id, third.id])

    @pytest.mark.req("REL-1", "TIM-6")
    async def test_a_finished_tick_that_left_no_row_cannot_happen_again(self, world: World) -> None:
        await world.write(world.job())
        tick = world.execution()
        assert await world.write(world.job(), seen=1, executions=(tick,))
        [row] = await world.claim()
        await world.settle(row, keep=False)
        assert not await world.write(world.job(), seen=1, executions=(tick,))
        assert await world.all_ids() == []

    @pytest.mark.req("TIM-6", "NUM-2")
    async def test_of_concurrent_writers_one_wins(self, world: World) -> None:
        await world.write(world.job())
        async with world.second() as other:
            writes = [JobWrite(job=world.job(), seen_version=1, executions=(world.execution(),)) for _ in range(10)]
            tries = [(world.store, other)[n % 2].write_jobs([write]) for n, write in enumerate(writes)]
            written = [answer for [answer] in await asyncio.gather(*tries)]
            assert sum(answer.won for answer in written) == 1
            [winner] = [write for write, answer in zip(writes, written, strict=True) if answer.won]
            assert await world.all_ids() == ids(winner.executions)
            assert ids(await other.find(ExecutionQuery())) == ids(winner.executions)

    async def test_of_concurrent_inserts_one_wins(self, world: World) -> None:
        async with world.second() as other:
            write = JobWrite(job=world.job(), seen_version=None)
            tries = [store.write_jobs([write]) for store in (world.store, other) * 4]
            assert sum(answer.won for [answer] in await asyncio.gather(*tries)) == 1

    async def test_audit_is_stored_only_if_the_write_won(self, world: World) -> None:
        won, lost = world.audit(), world.audit()
        await world.write(world.job(), audit=won)
        await world.write(world.job(), audit=lost)
        assert await world.store.audits() == [won]

    @pytest.mark.req("EXE-6")
    async def test_last_number_is_the_stores_own(self, world: World) -> None:
        await world.write(world.job(last_number=50), executions=(world.execution(), world.execution()))
        await world.store.fold(100)
        assert (await world.stored_job()).last_number == 2
        await world.write(world.job(last_number=0), seen=1, executions=(world.execution(),))
        await world.store.fold(100)
        assert (await world.stored_job()).last_number == 3


class JobReads(StoreSuite):
    async def test_jobs_come_by_name(self, world: World) -> None:
        for name in ("b", "C", "a", "a-1"):
            await world.write(world.job(name))
        assert [job.name for job in await world.store.jobs()] == ["C", "a", "a-1", "b"]
        assert [job.name for job in await world.store.jobs(["b", "nobody", "a"])] == ["a", "b"]
        assert await world.store.jobs([]) == []

    async def test_due_jobs_earliest_first_and_when_the_next_comes(self, world: World) -> None:
        for name, seconds in (("late", 10), ("now", 0), ("past", -5), ("later", 20)):
            await world.write(world.job(name, ticking=True, next_run=world.after(seconds)))
        page = await world.store.due_jobs(10)
        assert [job.name for job in page.jobs] == ["past", "now"]
        assert (page.next_due, page.now) == (world.after(10), world.now)

    async def test_due_jobs_beyond_the_limit_are_next(self, world: World) -> None:
        for name, seconds in (("a", -2), ("b", -1), ("c", 60)):
            await world.write(world.job(name, ticking=True, next_run=world.after(seconds)))
        page = await world.store.due_jobs(1)
        assert ([job.name for job in page.jobs], page.next_due) == (["a"], world.after(-1))

    @pytest.mark.req("TIM-7")
    async def test_due_by_the_stores_clock_to_the_microsecond(self, world: World) -> None:
        await world.write(world.job(ticking=True, next_run=world.now + 1))
        assert (await world.store.due_jobs(10)).jobs == ()
        world.clock.advance(0.000001)
        assert [job.name for job in (await world.store.due_jobs(10)).jobs] == ["job"]

    @pytest.mark.req("REG-13")
    async def test_jobs_that_do_not_tick_are_never_due(self, world: World) -> None:
        past: dict[str, Any] = {"next_run": world.after(-1), "ticking": True}
        await world.write(world.job("on-demand", next_run=world.after(-1)))
        await world.write(world.job("disabled", **past, overrides='{"enabled":false}'))
        await world.write(world.job("cancelled", **past, cancelled=world.now))
        await world.write(world.job("paused", **past, paused=world.now))
        await world.write(world.job("unplanned", ticking=True))
        page = await world.store.due_jobs(10)
        assert (page.jobs, page.next_due) == ((), None)

    async def test_a_pause_that_ends_by_itself_makes_the_job_due_then(self, world: World) -> None:
        job = world.job(ticking=True, next_run=world.after(-1), paused=world.now, resume=world.after(60))
        await world.write(job)
        assert (await world.store.due_jobs(10)).next_due == world.after(60)
        world.clock.advance(60)
        assert [due.name for due in (await world.store.due_jobs(10)).jobs] == ["job"]

    async def test_due_follows_each_write(self, world: World) -> None:
        await world.write(world.job(ticking=True, next_run=world.after(-1)))
        await world.write(world.job(ticking=True, next_run=world.after(60)), seen=1)
        page = await world.store.due_jobs(10)
        assert (page.jobs, page.next_due) == ((), world.after(60))

    async def test_swept_lists_jobs_with_the_mark(self, world: World) -> None:
        for name in ("a", "b", "c"):
            await world.write(world.job(name, sweep=name != "b"))
        assert [job.name for job in await world.store.swept(10)] == ["a", "c"]
        assert len(await world.store.swept(1)) == 1
        await world.write(world.job("a"), seen=1)
        assert [job.name for job in await world.store.swept(10)] == ["c"]


class JobDeletion(StoreSuite):
    async def test_only_at_the_version_seen(self, world: World) -> None:
        await world.write(world.job(ticking=True, next_run=world.now))
        refused, taken = world.audit(), world.audit()
        assert not await world.store.delete_job("job", 2, purge=True, audit=refused)
        assert not await world.store.delete_job("nobody", 1, purge=True, audit=refused)
        assert await world.store.delete_job("job", 1, purge=False, audit=taken)
        assert not await world.store.delete_job("job", 1, purge=False, audit=refused)
        assert await world.store.jobs() == []
        assert (await world.store.due_jobs(10)).jobs == ()
        assert await world.store.audits() == [taken]

    async def test_without_purge_the_record_stays(self, world: World) -> None:
        await world.write(world.job())
        done = await world.finished()
        assert await world.store.delete_job("job", 1, purge=False, audit=None)
        assert await world.all_ids() == [done.id]
        assert (await world.store.stats())["job-1"].completed == 1

    async def test_purge_takes_finished_executions_and_statistics_of_this_job(self, world: World) -> None:
        await world.write(world.job())
        await world.finished()
        await world.store.fold(100)
        await world.finished(State.FAILED)
        other = await world.finished(job="other", job_id="other-1")
        live = world.execution()
        await world.add(live)
        assert await world.store.delete_job("job", 1, purge=True, audit=None)
        assert await world.all_ids() == [live.id, other.id]
        assert set(await world.store.stats()) == {"other-1"}

    @pytest.mark.req("REL-1")
    async def test_a_job_created_again_is_another_one(self, world: World) -> None:
        await world.write(world.job(), executions=(world.execution(),))
        await world.store.delete_job("job", 1, purge=False, audit=None)
        again = world.job(id="job-2")
        assert await world.write(again, executions=(world.execution(job_id="job-2"),))
        await world.store.fold(100)
        assert (await world.stored_job()) == again.with_changes(version=1, last_number=1)
        assert not await world.write(world.job(), seen=1, executions=(world.execution(),))
        assert (await world.stored_job()).id == "job-2"
        assert await world.store.count(ExecutionQuery(), 10) == 2

    async def test_deletion_races_with_a_tick_and_one_wins(self, world: World) -> None:
        await world.write(world.job())
        tick = JobWrite(job=world.job(), seen_version=1, executions=(world.execution(created=world.now - SECOND),))
        async with world.second() as other:
            deleted, [written] = await asyncio.gather(
                world.store.delete_job("job", 1, purge=False, audit=None), other.write_jobs([tick])
            )
        assert deleted != written.won
        assert len(await world.all_ids()) == int(written.won)
