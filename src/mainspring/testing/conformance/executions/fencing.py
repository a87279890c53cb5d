"""Fencing: a worker's write counts only while the row runs under its owner and token, in store time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ....model.execution import ExecutionRow, State, next_token
from ....model.store.messages import CancelRequest, Exchanged, HeartbeatRequest, LogLine, ProgressReport
from ..base import LEASE, StoreSuite, World, ids


async def lost(world: World) -> tuple[ExecutionRow, ExecutionRow]:
    """A row as the worker that lost it last saw it, and as its new owner has it."""
    old = await world.running()
    world.clock.advance(LEASE + 1)
    assert await world.settle(old, State.PENDING, rescue=True, crashes=1)
    [new] = await world.claim(owner="w2")
    return old, new


class Fencing(StoreSuite):
    @pytest.mark.req("REL-1", "WRK-3")
    async def test_an_ending_needs_state_token_and_owner(self, world: World) -> None:
        row = await world.running()
        wrong: list[dict[str, Any]] = [
            {"token": 0},
            {"token": row.token + 1},
            {"token": next_token(row.token, 0)},
            {"owner": "w2"},
            {"owner": None},
            {"expect": State.PENDING},
            {"expect": State.WAITING},
        ]
        for fields in wrong:
            for to in (State.COMPLETED, State.PENDING, State.WAITING):
                assert not await world.settle(row, to, **fields)
        assert await world.get(row.id) == row
        assert await world.settle(row)

    @pytest.mark.req("REL-1", "WRK-3")
    async def test_a_worker_that_lost_its_lease_changes_nothing(self, world: World) -> None:
        old, new = await lost(world)
        for to in State:
            assert not await world.settle(old, to)
        assert (await world.heartbeat((old.id, old.token))).lost == {old.id}
        report = ProgressReport(
            id=old.id, token=old.token, owner="w1", progress_json="{}", logs=(LogLine(1, "INFO", "x"),)
        )
        assert await world.store.report([report]) == [False]
        assert await world.get(new.id) == new
        assert await world.store.logs(new.id) == []
        assert await world.settle(new)

    @pytest.mark.req("WRK-3")
    async def test_the_same_token_under_another_owner_is_refused(self, world: World) -> None:
        row = await world.running()
        report = ProgressReport(id=row.id, token=row.token, owner="w2", progress_json="{}")
        assert await world.store.report([report]) == [False]
        assert (await world.heartbeat((row.id, row.token), worker="w2")).lost == {row.id}
        assert not await world.settle(row, owner="w2")
        assert await world.get(row.id) == row

    @pytest.mark.req("WRK-3", "REL-1")
    async def test_a_claim_that_was_undone_shares_its_fence_with_no_other(self, world: World) -> None:
        """A crash of the database may lose a claim that was answered. The row is then as it was before and is claimed
        again, here by the same owner at the same instant: what the first claim says must not count."""
        before = [world.execution(), world.execution(failures=1, token=next_token(0, 9))]
        await world.add(*before)
        undone = await world.claim()
        async with self.open_store(world.clock) as store:  # the database as it was before
            await store.add(before)
            answer = await store.exchange([], world.request())
            assert ids(answer.claimed) == ids(undone)
            for old, new in zip(undone, answer.claimed, strict=True):
                assert (old.owner, old.claims, old.lease) == (new.owner, new.claims, new.lease)
                assert old.token != new.token
                changes = [world.change(old, to) for to in (State.COMPLETED, State.PENDING, State.FAILED)]
                report = ProgressReport(id=old.id, token=old.token, owner="w1", progress_json="{}")
                request = CancelRequest(id=old.id, token=old.token, at=1, reason="late")
                beat = HeartbeatRequest(worker=world.worker(), leases=((old.id, old.token),), lease=2 * LEASE)
                assert (await store.exchange(changes, None)).applied == (False, False, False)
                assert await store.report([report]) == [False]
                assert await store.request_cancel([request]) == [False]
                assert (await asyncio.to_thread(store.heartbeat, beat)).lost == {old.id}
                assert (await store.execution(new.id)) == new
                assert (await store.exchange([world.change(new)], None)).applied == (True,)

    @pytest.mark.req("WRK-8")
    async def test_a_zombie_cannot_write_to_a_finished_row(self, world: World) -> None:
        row = await world.running()
        await world.settle(row)
        done = await world.get(row.id)
        report = ProgressReport(id=row.id, token=row.token, owner="w1", counters_json='{"n":1}')
        assert await world.store.report([report]) == [False]
        assert (await world.heartbeat((row.id, row.token))).lost == {row.id}
        request = CancelRequest(id=row.id, token=row.token, at=1, reason="late")
        assert await world.store.request_cancel([request]) == [False]
        assert await world.get(row.id) == done


class Rescue(StoreSuite):
    @pytest.mark.req("WRK-4")
    async def test_expired_are_running_rows_past_their_lease_in_store_time(self, world: World) -> None:
        await world.add(world.execution(), world.execution(due=world.after(99_999)))
        [row] = await world.claim()
        assert await world.store.expired(10) == []
        world.clock.advance(LEASE - 1)
        assert await world.store.expired(10) == []
        world.clock.advance(2)
        assert await world.store.expired(10) == [row]

    async def test_expired_no_more_than_the_limit(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(5)))
        await world.claim()
        world.clock.advance(LEASE + 1)
        assert len(await world.store.expired(3)) == 3

    @pytest.mark.req("WRK-4")
    async def test_only_when_the_lease_has_run_out(self, world: World) -> None:
        row = await world.running()
        assert not await world.settle(row, State.PENDING, rescue=True)
        world.clock.advance(LEASE - 1)
        assert not await world.settle(row, State.FAILED, rescue=True)
        world.clock.advance(2)
        assert await world.settle(row, State.PENDING, rescue=True, failures=1, crashes=1, delay=2)
        back = await world.get(row.id)
        assert (back.state, back.failures, back.crashes, back.due) == (State.PENDING, 1, 1, world.after(2))

    @pytest.mark.req("WRK-4")
    async def test_a_lease_extended_in_between_refuses(self, world: World) -> None:
        row = await world.running()
        world.clock.advance(LEASE + 1)
        [seen] = await world.store.expired(10)
        assert (await world.heartbeat((row.id, row.token))).lost == frozenset()
        assert not await world.settle(seen, State.PENDING, rescue=True)
        assert await world.state(row.id) is State.RUNNING
        assert await world.settle(row)

    @pytest.mark.req("WRK-4", "NUM-2")
    async def test_of_concurrent_rescues_one_is_accepted(self, world: World) -> None:
        row = await world.running()
        world.clock.advance(LEASE + 1)
        rescue = world.change(row, State.PENDING, rescue=True, crashes=1)
        async with world.second() as other:
            answers: list[Exchanged] = await asyncio.gather(
                *(store.exchange([rescue], None) for store in (world.store, other) * 3)
            )
        assert [answer.applied[0] for answer in answers].count(True) == 1

    async def test_a_late_ending_before_the_rescue_still_counts(self, world: World) -> None:
        row = await world.running()
        world.clock.advance(10 * LEASE)
        assert await world.settle(row)
        assert not await world.settle(row, State.PENDING, rescue=True)
        assert await world.state(row.id) is State.COMPLETED

    @pytest.mark.req("TIM-7")
    async def test_leases_follow_the_stores_clock_when_it_jumps(self, world: World) -> None:
        await world.running()
        world.clock.jump(-3600)
        assert await world.store.expired(10) == []
        world.clock.jump(3600 + LEASE + 1)
        assert len(await world.store.expired(10)) == 1

    @pytest.mark.req("WRK-4")
    async def test_rescues_are_counted(self, world: World) -> None:
        row = await world.running()
        for _ in range(2):
            world.clock.advance(LEASE + 1)
            await world.settle(row, State.PENDING, rescue=True)
            [row] = await world.claim()
        world.clock.advance(LEASE + 1)
        await world.settle(row, State.FAILED, rescue=True)
        for _ in range(2):
            stats = (await world.store.stats())["job-1"]
            assert (stats.rescued, stats.failed, stats.total) == (3, 1, 1)
            await world.store.fold(100)


class Heartbeats(StoreSuite):
    @pytest.mark.req("WRK-3", "WRK-4")
    async def test_a_beat_renews_the_lease_from_the_stores_now(self, world: World) -> None:
        row = await world.running()
        for _ in range(5):
            world.clock.advance(LEASE - 1)
            reply = await world.heartbeat((row.id, row.token))
            assert (reply.lost, reply.cancels, reply.now) == (frozenset(), {}, world.now)
            assert await world.get(row.id) == replace(row, lease=world.after(LEASE))
        assert await world.store.expired(10) == []

    async def test_a_beat_tells_kept_from_lost(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(3)))
        rows = await world.claim()
        await world.settle(rows[0])
        await world.settle(rows[1], State.PENDING)
        reply = await world.heartbeat(*((row.id, row.token) for row in rows), ("nobody", 1))
        assert reply.lost == {rows[0].id, rows[1].id, "nobody"}

    async def test_a_beat_renews_only_what_it_names(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(2)))
        first, second = await world.claim()
        world.clock.advance(LEASE - 1)
        await world.heartbeat((first.id, first.token))
        world.clock.advance(2)
        assert ids(await world.store.expired(10)) == [second.id]

    @pytest.mark.req("WRK-7")
    async def test_a_beat_keeps_the_workers_row(self, world: World) -> None:
        info: dict[str, Any] = {"roles": ("worker",), "queues": ("a", "b"), "handlers": ("work",), "declares": ("job",)}
        await world.heartbeat(**info, concurrency=10, running=0, started=5, seen=1)
        assert await world.store.workers() == [
            world.worker(**info, concurrency=10, running=0, started=5, seen=world.now)
        ]
        world.clock.advance(10)
        await world.heartbeat(**info, concurrency=10, running=3, started=5)
        [worker] = await world.store.workers()
        assert (worker.running, worker.seen, worker.queues) == (3, world.now, ("a", "b"))

    async def test_a_second_handle_sees_the_beat(self, world: World) -> None:
        row = await world.running()
        world.clock.advance(LEASE - 1)
        await world.heartbeat((row.id, row.token))
        world.clock.advance(2)
        async with world.second() as other:
            assert await other.expired(10) == []
            assert [worker.id for worker in await other.workers()] == ["w1"]


class ProgressReports(StoreSuite):
    @pytest.mark.req("EXE-11")
    async def test_progress_and_counters_of_a_running_row(self, world: World) -> None:
        row = await world.running()
        first = ProgressReport(id=row.id, token=row.token, owner="w1", progress_json='{"done":1}')
        second = ProgressReport(id=row.id, token=row.token, owner="w1", counters_json='{"n":5}')
        assert await world.store.report([first, second]) == [True, True]
        noted = await world.get(row.id)
        assert noted == replace(row, progress_json='{"done":1}', counters_json='{"n":5}')
        await world.settle(row, counters_json='{"n":6}')
        done = await world.get(row.id)
        assert (done.counters, done.progress) == ({"n": 6}, {"done": 1})

    async def test_each_report_is_checked_on_its_own(self, world: World) -> None:
        row = await world.running()
        pending = world.execution()
        await world.add(pending)
        reports = [
            ProgressReport(id=row.id, token=0, owner="w1", progress_json="{}"),
            ProgressReport(id=pending.id, token=0, owner="w1", progress_json="{}"),
            ProgressReport(id="nobody", token=1, owner="w1", progress_json="{}"),
            ProgressReport(id=row.id, token=row.token, owner="w1", progress_json='{"done":2}'),
        ]
        assert await world.store.report(reports) == [False, False, False, True]
        assert (await world.get(row.id)).progress == {"done": 2}

    @pytest.mark.req("EXE-11")
    async def test_log_lines_are_numbered_from_one_over_all_tries(self, world: World) -> None:
        row = await world.running()
        lines = [LogLine(world.now + n, "INFO", f"line {n}", "shop" if n % 2 else "") for n in range(4)]
        await world.store.report([ProgressReport(id=row.id, token=row.token, owner="w1", logs=tuple(lines[:2]))])
        await world.settle(row, State.PENDING)
        [row] = await world.claim()
        await world.store.report(
            [ProgressReport(id=row.id, token=row.token, owner="w1", logs=(line,)) for line in lines[2:]]
        )
        await world.settle(row)
        assert await world.store.logs(row.id) == list(enumerate(lines, 1))
        assert await world.store.logs(row.id, after=3) == [(4, lines[3])]
        assert await world.store.logs(row.id, after=4) == []
        assert await world.store.logs("nobody") == []

    @pytest.mark.req("EXE-11")
    async def test_the_newest_thousand_lines_are_kept(self, world: World) -> None:
        row = await world.running()
        lines = [LogLine(n, "INFO", str(n)) for n in range(1, 2301)]
        for batch in (lines[:900], lines[900:1100], lines[1100:]):
            await world.store.report([ProgressReport(id=row.id, token=row.token, owner="w1", logs=tuple(batch))])
        kept = await world.store.logs(row.id)
        assert kept == list(enumerate(lines, 1))[-1000:]
