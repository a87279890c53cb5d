"""Settling: what each transition does to a row; final states stay final."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ....model.execution import FINAL, AttemptRecord, State
from ....model.store.messages import LogLine, ProgressReport
from ..base import StoreSuite, World, ids

KEEP_NO_SUCCESS = '{"keep_success":false}'


class Settling(StoreSuite):
    @pytest.mark.req("EXE-2", "EXE-6")
    async def test_a_final_change_makes_a_record(self, world: World) -> None:
        row = await world.running(unique_key="u")
        world.clock.advance(2)
        attempt = world.attempt(end="completed", cpu_ms=1.25, memory_mb=31.5, overran="timeout", reason="signal")
        texts: dict[str, Any] = {"result_json": '{"ok":true}', "counters_json": '{"n":2}', "metadata_json": '{"m":1}'}
        assert await world.settle(row, at=world.now - 7, attempt=attempt, reason="why", error="e", **texts)
        done = await world.get(row.id)
        assert (done.state, done.finished, done.started) == (State.COMPLETED, world.now - 7, row.started)
        assert done.token == row.token
        assert (done.owner, done.lease, done.reason, done.error) == (None, None, "why", "e")
        assert (done.result, done.counters, done.metadata) == ({"ok": True}, {"n": 2}, {"m": 1})
        assert (done.attempts, done.todo, done.unique_key) == ([attempt], False, "u")

    @pytest.mark.req("EXE-2")
    async def test_final_is_final(self, world: World) -> None:
        for to in sorted(FINAL):
            done = await world.finished(to)
            assert done.state is to
            for again in State:
                assert not await world.settle(done, again)
                assert not await world.settle(replace(done, state=State.RUNNING, owner="w1"), again)
            assert await world.get(done.id) == done
            assert await world.claim() == ()

    @pytest.mark.req("REL-1", "EXE-2")
    async def test_one_ending_is_accepted(self, world: World) -> None:
        row = await world.running()
        async with world.second() as other:
            changes = [world.change(row, to) for to in (State.COMPLETED, State.FAILED) * 4]
            tries = [(world.store, other)[n % 2].exchange([change], None) for n, change in enumerate(changes)]
            applied = [answer.applied[0] for answer in await asyncio.gather(*tries)]
        assert applied.count(True) == 1
        assert await world.state(row.id) is changes[applied.index(True)].to
        stats = (await world.store.stats())["job-1"]
        assert stats.total == 1

    async def test_changes_of_one_batch_are_judged_one_by_one(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(3)))
        first, second, third = await world.claim()
        changes = (
            world.change(first),
            world.change(first, State.FAILED),
            world.change(second, token=9),
            world.change(third, State.PENDING),
            world.change(world.execution()),
        )
        answer = await world.store.exchange(changes, None)
        assert answer.applied == (True, False, False, True, False)

    @pytest.mark.req("EXE-3", "EXE-4")
    async def test_a_change_to_pending_clears_ownership_and_keeps_the_rest(self, world: World) -> None:
        row = await world.running(unique_key="u", overlap_key="o", due=world.after(-9))
        await world.store.report(
            [ProgressReport(id=row.id, token=row.token, owner="w1", progress_json="{}", counters_json='{"n":1}')]
        )
        world.clock.advance(1)
        assert await world.settle(row, State.PENDING, delay=2.5, failures=3, crashes=1, error="boom", reason="r")
        back = await world.get(row.id)
        assert (back.state, back.due, back.failures, back.crashes) == (State.PENDING, world.after(2.5), 3, 1)
        assert (back.owner, back.lease, back.claimed, back.progress_json) == (None, None, None, None)
        assert (back.token, back.unique_key, back.overlap_key, back.started) == (row.token, "u", "o", row.started)
        assert (back.error, back.reason, back.counters_json, back.finished) == ("boom", "r", '{"n":1}', None)

    @pytest.mark.req("EXE-4")
    async def test_the_delay_counts_from_the_stores_now(self, world: World) -> None:
        row = await world.running()
        await world.settle(row, State.PENDING, delay=10, at=world.after(-3600))
        assert (await world.exchange()).next_due == world.after(10)
        world.clock.advance(10)
        assert ids(await world.claim()) == [row.id]

    async def test_no_delay_is_due_at_once_even_in_the_same_exchange(self, world: World) -> None:
        row = await world.running(due=world.after(-60))
        answer = await world.exchange(world.change(row, State.PENDING))
        assert [(again.id, again.claims, again.due) for again in answer.claimed] == [(row.id, 2, world.now)]

    async def test_waiting_is_owned_by_nobody_and_never_claimed(self, world: World) -> None:
        row = await world.running(overlap_key="o")
        assert await world.settle(row, State.WAITING, metadata_json='["a","b"]')
        waiting = await world.get(row.id)
        assert (waiting.state, waiting.owner, waiting.lease, waiting.token) == (State.WAITING, None, None, row.token)
        world.clock.advance(3600)
        assert await world.claim() == ()
        assert await world.store.expired(10) == []
        assert await world.settle(waiting, State.PARTIAL)

    async def test_a_pending_row_can_be_ended_without_running(self, world: World) -> None:
        for due in (world.now, world.after(60)):
            execution = world.execution(due=due)
            await world.add(execution)
            assert await world.settle(execution, State.CANCELLED, reason="asked")
            assert await world.claim() == ()
            done = await world.get(execution.id)
            assert (done.state, done.reason, done.started) == (State.CANCELLED, "asked", None)
        assert (await world.exchange()).next_due is None

    @pytest.mark.req("EXE-5")
    async def test_attempts_are_appended_in_order(self, world: World) -> None:
        row = await world.running()
        tries = [AttemptRecord(n, "w", n, n + 1, "failed", f"e{n}", "trace\n" * n, 0.5, 12.5) for n in range(1, 6)]
        for attempt in tries[:-1]:
            await world.settle(row, State.PENDING, attempt=attempt)
            assert (await world.get(row.id)).attempts == tries[: attempt.number]
            [row] = await world.claim()
        await world.settle(row, State.FAILED, attempt=tries[-1])
        assert (await world.get(row.id)).attempts == tries

    async def test_no_attempt_adds_none(self, world: World) -> None:
        row = await world.running()
        await world.settle(row, State.PENDING, attempt=world.attempt())
        [row] = await world.claim()
        await world.settle(row, State.CANCELLED)
        assert len((await world.get(row.id)).attempts) == 1

    async def test_texts_left_out_stay_but_reason_and_error_do_not(self, world: World) -> None:
        row = await world.running()
        texts: dict[str, Any] = {"result_json": '"r"', "counters_json": '{"c":1}', "metadata_json": '{"m":1}'}
        await world.settle(row, State.PENDING, error="first", reason="why", **texts)
        [row] = await world.claim()
        await world.settle(row)
        done = await world.get(row.id)
        assert (done.result_json, done.counters_json, done.metadata_json) == tuple(texts.values())
        assert (done.error, done.reason) == (None, None)

    async def test_started_is_set_by_a_change_that_says_so(self, world: World) -> None:
        row = await world.running()
        await world.settle(row, started=world.now + 17)
        assert (await world.get(row.id)).started == world.now + 17


class KeepingFinished(StoreSuite):
    @pytest.mark.req("HIS-2")
    async def test_not_kept_leaves_no_row_but_counts(self, world: World) -> None:
        row = await world.running(unique_key="u", policy=KEEP_NO_SUCCESS)
        await world.store.report(
            [ProgressReport(id=row.id, token=row.token, owner="w1", logs=(LogLine(1, "INFO", "hello"),))]
        )
        assert await world.settle(row, keep=False)
        assert await world.store.execution(row.id) is None
        assert await world.all_ids() == []
        assert await world.store.logs(row.id) == []
        stats = (await world.store.stats())["job-1"]
        assert (stats.completed, stats.last_id, stats.last_state) == (1, row.id, State.COMPLETED)
        assert await world.outcomes(world.execution(unique_key="u")) == ["added"]
        assert not await world.settle(row, State.FAILED)

    @pytest.mark.req("HIS-2")
    async def test_not_kept_with_follow_ups_stays_until_they_are_done(self, world: World) -> None:
        row = await world.running(policy=KEEP_NO_SUCCESS)
        await world.settle(row, keep=False, todo=True)
        assert ids(await world.store.todo(10)) == [row.id]
        assert await world.state(row.id) is State.COMPLETED
        await world.store.todo_done([row.id])
        assert await world.store.execution(row.id) is None
        assert await world.store.todo(10) == []
        assert (await world.store.stats())["job-1"].completed == 1

    async def test_what_is_kept_stays_when_its_follow_ups_are_done(self, world: World) -> None:
        row = await world.running(policy=KEEP_NO_SUCCESS)
        await world.settle(row, State.FAILED, todo=True)
        await world.store.todo_done([row.id])
        done = await world.get(row.id)
        assert (done.state, done.todo) == (State.FAILED, False)

    async def test_todo_lists_the_oldest_first_up_to_the_limit(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(4)))
        rows = await world.claim()
        for row in reversed(rows):
            await world.settle(row, todo=row is not rows[1])
        marked = [rows[0].id, rows[2].id, rows[3].id]
        assert ids(await world.store.todo(10)) == marked
        assert ids(await world.store.todo(2)) == marked[:2]
        assert ids(await world.store.todo(2, marked[0])) == marked[1:]
        assert ids(await world.store.todo(10, rows[1].id)) == marked[1:]
        assert await world.store.todo(10, marked[2]) == []
        assert all(row.todo for row in await world.store.todo(10))

    async def test_clearing_marks_is_idempotent_and_ignores_strangers(self, world: World) -> None:
        row = await world.running()
        await world.settle(row, todo=True)
        live = world.execution()
        await world.add(live)
        for _ in range(2):
            await world.store.todo_done([row.id, live.id, "nobody"])
        assert await world.state(row.id) is State.COMPLETED
        assert await world.state(live.id) is State.PENDING
