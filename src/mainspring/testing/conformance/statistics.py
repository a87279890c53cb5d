"""Statistics, exact whether folded or not; live counts; execution numbers."""

from __future__ import annotations

import asyncio

import pytest

from ...model.execution import State
from ...model.job import JobStats, LiveCounts
from ...model.store.messages import NewestLive, PruneRule
from .base import StoreSuite, World


class Statistics(StoreSuite):
    async def both_ways(self, world: World, job_id: str = "job-1") -> JobStats:
        """The statistics of a job, which must be the same before and after folding."""
        before = await world.store.stats()
        while await world.store.fold(1):
            assert await world.store.stats() == before
        return before[job_id]

    async def test_jobs_without_any_are_absent(self, world: World) -> None:
        await world.write(world.job())
        await world.running()
        assert await world.store.stats() == {}
        assert await world.store.fold(100) == 0

    async def test_every_ending_is_counted(self, world: World) -> None:
        endings = (State.COMPLETED, State.COMPLETED, State.PARTIAL, State.FAILED, State.CANCELLED, State.SKIPPED)
        for to in endings:
            await world.finished(to)
        stats = await self.both_ways(world)
        counts = (stats.completed, stats.partial, stats.failed, stats.cancelled, stats.skipped)
        assert (counts, stats.total, stats.success_rate) == ((2, 1, 1, 1, 1), 5, 0.5)

    async def test_by_job_and_only_those_asked_for(self, world: World) -> None:
        for n in (1, 2, 3):
            await world.finished(job_id=f"j{n}")
        assert set(await world.store.stats(["j1", "j3", "nobody"])) == {"j1", "j3"}
        assert await world.store.stats([]) == {}
        await world.store.fold(2)
        assert set(await world.store.stats()) == {"j1", "j2", "j3"}
        assert set(await world.store.stats(["j2"])) == {"j2"}

    async def test_durations_of_what_ran(self, world: World) -> None:
        for seconds in (1.5, 0.25):
            row = await world.running()
            world.clock.advance(seconds)
            await world.settle(row)
        never_ran = world.execution(due=world.after(60))
        await world.add(never_ran)
        await world.settle(never_ran, State.CANCELLED)
        stats = await self.both_ways(world)
        assert (stats.timed, stats.duration_ms, stats.average_duration_ms) == (2, 1750.0, 875.0)

    @pytest.mark.req("EXE-1")
    async def test_last_is_the_newest_not_skipped(self, world: World) -> None:
        await world.finished()
        world.clock.advance(1)
        row = await world.running()
        world.clock.advance(1)
        await world.settle(row, State.FAILED, error="boom", failures=3)
        await world.finished(State.SKIPPED)
        stats = await self.both_ways(world)
        assert (stats.last_id, stats.last_state, stats.last_status) == (row.id, State.FAILED, "failed")
        assert (stats.last_started, stats.last_finished) == (row.started, world.now)
        assert (stats.last_error, stats.last_failures) == ("boom", 3)

    async def test_last_is_by_id_whatever_ended_last(self, world: World) -> None:
        await world.add(world.execution(), world.execution())
        older, newer = await world.claim()
        await world.settle(newer, State.FAILED, error="newer")
        await world.store.fold(100)
        world.clock.advance(10)
        await world.settle(older)
        stats = await self.both_ways(world)
        assert (stats.last_id, stats.last_error, stats.completed) == (newer.id, "newer", 1)

    async def test_skips_alone_leave_no_last(self, world: World) -> None:
        await world.add(world.execution(overlap_key="o"), world.execution(overlap_key="o"))
        stats = await self.both_ways(world)
        assert (stats.skipped, stats.last_id, stats.last_state, stats.total) == (1, "", None, 0)

    async def test_pruning_does_not_change_them(self, world: World) -> None:
        await world.finished()
        row = await world.running()
        await world.settle(row, keep=False)
        assert (await self.both_ways(world)).completed == 2

    @pytest.mark.req("OBS-4")
    async def test_every_ending_is_counted_by_its_trigger_and_state(self, world: World) -> None:
        for trigger, to in (
            ("schedule", State.COMPLETED),
            ("schedule", State.COMPLETED),
            ("api", State.COMPLETED),
            ("schedule", State.FAILED),
            ("manual", State.PARTIAL),
            ("enqueue", State.CANCELLED),
        ):
            await world.finished(to, trigger=trigger)
        await world.add(*(world.execution(trigger="schedule", overlap_key="o") for _ in range(3)))
        await world.add(world.execution(trigger="catch_up", state=State.SKIPPED, finished=world.now))
        assert (await self.both_ways(world)).by_trigger == {
            "schedule:completed": 2,
            "api:completed": 1,
            "schedule:failed": 1,
            "manual:partial": 1,
            "enqueue:cancelled": 1,
            "schedule:skipped": 2,
            "catch_up:skipped": 1,
        }

    @pytest.mark.req("OBS-4")
    async def test_endings_of_one_batch_are_counted_by_trigger_too(self, world: World) -> None:
        triggers = ("api", "enqueue", "api", "enqueue", "enqueue", "schedule")
        await world.add(*(world.execution(trigger=trigger) for trigger in triggers))
        rows = await world.claim()
        await world.store.exchange([world.change(row) for row in rows], None)
        expected = {"api:completed": 2, "enqueue:completed": 3, "schedule:completed": 1}
        assert (await self.both_ways(world)).by_trigger == expected

    async def test_endings_by_trigger_outlive_what_is_pruned_and_not_kept_but_not_a_purge(self, world: World) -> None:
        await world.write(world.job())
        await world.finished(trigger="api")
        await world.settle(await world.running(trigger="schedule"), keep=False)
        rule = PruneRule(job_id="job-1", states=frozenset({State.COMPLETED}), older_than=None)
        await world.store.prune(rule, 10)
        assert (await self.both_ways(world)).by_trigger == {"api:completed": 1, "schedule:completed": 1}
        assert await world.store.delete_job("job", 1, purge=True, audit=None)
        assert await world.store.stats(["job-1"]) == {}

    async def test_fold_comes_to_an_end(self, world: World) -> None:
        for _ in range(3):
            await world.finished()
        while merged := await world.store.fold(2):
            assert merged <= 2
        assert (await world.store.stats())["job-1"].completed == 3

    async def test_another_handle_sees_them_at_once(self, world: World) -> None:
        async with world.second() as other:
            await world.finished()
            assert (await other.stats())["job-1"].completed == 1
            await other.fold(100)
            assert (await world.store.stats())["job-1"].completed == 1


class LiveCounting(StoreSuite):
    async def test_live_executions_by_job_and_state(self, world: World) -> None:
        await world.add(*(world.execution(job_id="a") for _ in range(4)), world.execution(job_id="b"))
        rows = await world.claim(limit=3)
        await world.settle(rows[0], State.WAITING)
        await world.settle(rows[1])
        counts = await world.store.live_counts()
        assert counts == {"a": LiveCounts(pending=1, running=1, waiting=1), "b": LiveCounts(pending=1)}
        assert counts["a"].total == 3
        assert await world.store.live_counts(["b", "nobody"]) == {"b": LiveCounts(pending=1)}
        assert await world.store.live_counts([]) == {}

    async def test_jobs_whose_executions_have_all_ended_are_absent(self, world: World) -> None:
        await world.finished()
        assert await world.store.live_counts() == {}


class Snapshots(StoreSuite):
    async def test_a_job_with_its_endings_and_its_newest_live_execution(self, world: World) -> None:
        for name in ("a", "b", "c"):
            await world.write(world.job(name))
        await world.finished(State.FAILED, job_id="a-1")
        older = await world.running(job_id="a-1")
        newer = await world.running(job_id="a-1")
        await world.settle(newer, State.PENDING, failures=1)
        await world.add(world.execution(job_id="b-1"))
        found = await world.store.job_snapshots(["c", "nobody", "b", "a"])
        assert [each.job for each in found] == [await world.stored_job(name) for name in ("a", "b", "c")]
        stats, live = await world.store.stats(), await world.store.live_counts()
        assert [each.stats for each in found] == [stats["a-1"], JobStats(job_id="b-1"), JobStats(job_id="c-1")]
        assert [each.live for each in found] == [live["a-1"], live["b-1"], LiveCounts()]
        assert found[0].newest == NewestLive(newer.id, 1, newer.started)
        assert (found[1].newest and found[1].newest.failures, found[2].newest) == (0, None)
        await world.settle(older)
        [again] = await world.store.job_snapshots(["a"])
        assert (again.live, again.newest, again.stats.total) == (LiveCounts(pending=1), found[0].newest, 2)
        assert await world.store.job_snapshots([]) == []

    async def test_it_is_never_torn(self, world: World) -> None:
        """Executions are counted and shown in one state, whatever happens to them meanwhile."""
        await world.write(world.job())
        done = asyncio.Event()

        async def work() -> None:
            for _ in range(10):
                row = await world.running(job_id="job-1")
                await world.settle(row, State.PENDING, failures=1)
                [again] = await world.claim()
                await world.settle(again, State.FAILED, failures=2)
            done.set()

        async def look() -> None:
            async with world.second() as other:
                while not done.is_set():
                    [seen] = await other.job_snapshots(["job"])
                    newest, ended = seen.newest, seen.stats.failed
                    assert (seen.live.total, newest is None) in ((0, True), (1, False))
                    assert newest is None or newest.id > seen.stats.last_id
                    if newest is not None and newest.started is None:
                        assert (seen.live.pending, newest.failures) == (1, 0)
                    if newest is not None and seen.live.pending and newest.started is not None:
                        assert newest.failures == 1, "it waits for its second attempt"
                    assert ended <= 10

        await asyncio.gather(work(), look())


class Numbers(StoreSuite):
    async def numbers(self, world: World, job_id: str) -> list[int | None]:
        """Numbers in the order of insertion, once all executions have ended and everything is folded."""
        for row in await world.claim(limit=100):
            await world.settle(row)
        while await world.store.fold(1_000):
            pass
        return [(await world.get(id)).number for id in reversed(await world.all_ids(job_id=job_id))]

    @pytest.mark.req("EXE-6")
    async def test_every_recorded_execution_is_the_nth_of_its_job(self, world: World) -> None:
        await world.write(world.job("a"))
        await world.write(world.job("b"))
        for n in range(9):
            await world.add(world.execution(job_id=f"{'ab'[n % 2]}-1", overlap_key=f"o{n % 5}"))
        assert await self.numbers(world, "a-1") == [1, 2, 3, 4, 5]
        assert await self.numbers(world, "b-1") == [1, 2, 3, 4]
        assert (await world.stored_job("a")).last_number == 5

    @pytest.mark.req("EXE-6")
    async def test_numbers_go_on_after_executions_have_ended(self, world: World) -> None:
        await world.write(world.job())
        for _ in range(2):
            await world.finished()
        await self.numbers(world, "job-1")
        await world.add(world.execution(), world.execution())
        [row] = await world.claim(limit=1)
        await world.settle(row)
        assert await self.numbers(world, "job-1") == [1, 2, 3, 4]

    async def test_what_added_nothing_uses_no_number(self, world: World) -> None:
        await world.write(world.job())
        first = world.execution(unique_key="u")
        await world.add(first, first, world.execution(unique_key="u"), world.execution())
        assert await self.numbers(world, "job-1") == [1, 2]

    async def test_a_number_once_given_stays(self, world: World) -> None:
        await world.write(world.job())
        await world.add(*(world.execution() for _ in range(3)))
        assert await self.numbers(world, "job-1") == [1, 2, 3]
        given = {id: (await world.get(id)).number for id in await world.all_ids()}
        await world.add(world.execution())
        assert await self.numbers(world, "job-1") == [1, 2, 3, 4]
        assert {id: (await world.get(id)).number for id in given} == given

    @pytest.mark.req("EXE-6")
    async def test_a_tick_has_its_number_at_once(self, world: World) -> None:
        await world.finished()
        await world.store.fold(100)
        await world.write(world.job(), executions=(world.execution(), world.execution()))
        assert sorted(row.number or 0 for row in await world.claim()) == [2, 3]
