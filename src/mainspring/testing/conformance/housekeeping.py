"""Housekeeping: retention, silent workers, audit records."""

from __future__ import annotations

from typing import Any

import pytest

from ...model.execution import FINAL, State
from ...model.store.messages import Audit, ExecutionQuery, LogLine, ProgressReport, PruneRule
from .base import StoreSuite, World


def rule(**fields: Any) -> PruneRule:
    return PruneRule(**{"job_id": "job-1", "states": FINAL, "older_than": None, **fields})


class Retention(StoreSuite):
    async def history(self, world: World, *states: State, **fields: Any) -> list[str]:
        """One finished execution per state, one second apart."""
        rows = []
        for state in states:
            world.clock.advance(1)
            rows.append(world.execution(state=state, finished=world.now, **fields))
        await world.add(*rows)
        return [row.id for row in rows]

    @pytest.mark.req("HIS-2")
    async def test_by_state(self, world: World) -> None:
        _, failed, skipped = await self.history(world, State.COMPLETED, State.FAILED, State.SKIPPED)
        assert await world.store.prune(rule(states=frozenset({State.COMPLETED})), 100) == 1
        assert await world.all_ids() == [skipped, failed]
        assert await world.store.prune(rule(states=frozenset({State.FAILED, State.SKIPPED})), 100) == 2

    @pytest.mark.req("HIS-2")
    async def test_by_age_only_what_ended_before(self, world: World) -> None:
        rows = await self.history(world, *[State.COMPLETED] * 4)
        assert await world.store.prune(rule(older_than=world.after(-1)), 100) == 2
        assert await world.all_ids() == rows[:1:-1]
        assert await world.store.prune(rule(older_than=world.now + 1), 100) == 2

    @pytest.mark.req("HIS-2")
    async def test_the_newest_stay_whatever_their_age(self, world: World) -> None:
        rows = await self.history(world, *[State.COMPLETED] * 5)
        assert await world.store.prune(rule(newest=2), 100) == 3
        assert await world.all_ids() == rows[:2:-1]
        assert await world.store.prune(rule(newest=2), 100) == 0

    @pytest.mark.req("HIS-2")
    async def test_an_execution_goes_only_if_old_and_not_among_the_newest(self, world: World) -> None:
        rows = await self.history(world, *[State.COMPLETED] * 5)
        assert await world.store.prune(rule(newest=1, older_than=world.after(-2)), 100) == 2
        assert await world.store.prune(rule(newest=4, older_than=world.after(9)), 100) == 0
        assert await world.all_ids() == rows[:1:-1]

    @pytest.mark.req("HIS-2")
    async def test_skipped_ones_are_never_counted_among_the_newest(self, world: World) -> None:
        first, second, *_ = await self.history(world, State.FAILED, State.COMPLETED, *[State.SKIPPED] * 3)
        assert await world.store.prune(rule(newest=2), 100) == 3
        assert await world.all_ids() == [second, first]

    @pytest.mark.req("HIS-2")
    async def test_the_newest_are_counted_over_all_states(self, world: World) -> None:
        _, failed, done = await self.history(world, State.COMPLETED, State.FAILED, State.COMPLETED)
        assert await world.store.prune(rule(states=frozenset({State.COMPLETED}), newest=2), 100) == 1
        assert await world.all_ids() == [done, failed]

    @pytest.mark.req("HIS-2")
    async def test_in_batches_oldest_first(self, world: World) -> None:
        rows = await self.history(world, *[State.COMPLETED] * 5)
        assert await world.store.prune(rule(newest=1), 3) == 3
        assert await world.all_ids() == rows[:2:-1]
        assert await world.store.prune(rule(newest=1), 3) == 1

    async def test_only_finished_rows_of_this_job(self, world: World) -> None:
        live = world.execution(due=world.after(60))
        await world.add(live)
        running = await world.running()
        [other] = await self.history(world, State.COMPLETED, job_id="other-1")
        await self.history(world, State.COMPLETED)
        assert await world.store.prune(rule(), 100) == 1
        assert await world.all_ids() == [other, running.id, live.id]

    async def test_rows_with_follow_ups_to_do_stay(self, world: World) -> None:
        row = await world.running()
        await world.settle(row, todo=True)
        assert await world.store.prune(rule(), 100) == 0
        await world.store.todo_done([row.id])
        assert await world.store.prune(rule(), 100) == 1

    async def test_log_lines_go_with_their_execution(self, world: World) -> None:
        row = await world.running()
        await world.store.report(
            [ProgressReport(id=row.id, token=row.token, owner="w1", logs=(LogLine(1, "INFO", "x"),))]
        )
        await world.settle(row)
        assert len(await world.store.logs(row.id)) == 1
        await world.store.prune(rule(), 100)
        assert await world.store.logs(row.id) == []
        assert await world.store.execution(row.id) is None

    async def test_a_pruned_child_is_counted_no_more(self, world: World) -> None:
        await self.history(world, State.COMPLETED, State.FAILED, parent_id="p")
        await world.store.prune(rule(states=frozenset({State.COMPLETED})), 100)
        assert await world.store.children("p") == {State.FAILED: 1}


async def all_folded(world: World) -> None:
    while await world.store.fold(100):
        pass


class Deletion(StoreSuite):
    @pytest.mark.req("SRC-4", "SEC-3")
    async def test_finished_ones_go_with_their_logs_labels_and_audit_records(self, world: World) -> None:
        await world.write(world.job())
        rows = [await world.running(labels=("order=1",)) for _ in range(5)]
        lines = (LogLine(1, "INFO", "x"),)
        await world.store.report([ProgressReport(id=rows[0].id, token=rows[0].token, owner="w1", logs=lines)])
        await world.settle(rows[0], failure="{}", audit=world.audit(f"execution:{rows[0].id}", "cancel"))
        await world.settle(rows[1])
        await all_folded(world)
        await world.settle(rows[2], labels=("last=1",))
        await world.settle(rows[3], todo=True)
        skipped = world.execution(state=State.SKIPPED, finished=world.now, labels=("order=1",))
        await world.add(skipped)
        before = (await world.store.stats(["job-1"]))["job-1"]
        ids = [rows[0].id, rows[1].id, rows[2].id, rows[3].id, rows[4].id, skipped.id, world.execution().id, "nobody"]
        ids.append(rows[0].id)
        audits = [world.audit(f"execution:{id}", "delete") for id in ids]
        deleted = await world.store.delete_executions(ids, audits)
        assert deleted == [True, True, True, False, False, True, False, False, False]
        stored = {each.id for each in await world.store.audits() if each.action == "delete"}
        assert stored == {audit.id for audit, gone in zip(audits, deleted, strict=True) if gone}
        assert len(await world.store.audits(f"execution:{rows[0].id}")) == 2
        assert await world.all_ids() == [rows[4].id, rows[3].id]
        for id in (rows[0].id, rows[2].id):
            assert await world.store.execution(id) is None
            assert await world.store.logs(id) == []
        found = await world.store.find(ExecutionQuery(labels=("order=1",)))
        assert [row.id for row in found] == [rows[4].id, rows[3].id]
        assert (await world.store.stats(["job-1"]))["job-1"] == before
        await all_folded(world)
        assert (await world.store.stats(["job-1"]))["job-1"] == before
        assert await world.store.delete_executions(
            [rows[0].id], [world.audit(f"execution:{rows[0].id}", "delete")]
        ) == [False]
        assert await world.store.delete_executions([], []) == []
        assert len(await world.store.list_entries("failure", "")) == 1
        await world.store.todo_done([rows[3].id])
        assert await world.store.delete_executions(
            [rows[3].id], [world.audit(f"execution:{rows[3].id}", "delete")]
        ) == [True]
        await world.settle(rows[4])
        await all_folded(world)
        await world.add(again := world.execution(state=State.FAILED, finished=world.now))
        await all_folded(world)
        assert (await world.get(again.id)).number == 7


class Workers(StoreSuite):
    @pytest.mark.req("WRK-7")
    async def test_silent_ones_are_forgotten(self, world: World) -> None:
        await world.heartbeat(worker="old")
        world.clock.advance(60)
        await world.heartbeat(worker="young")
        assert await world.store.prune_workers(61) == 0
        assert await world.store.prune_workers(30) == 1
        assert [worker.id for worker in await world.store.workers()] == ["young"]

    async def test_one_that_says_goodbye_is_removed(self, world: World) -> None:
        await world.heartbeat(worker="a")
        await world.heartbeat(worker="b")
        await world.store.remove_worker("a")
        await world.store.remove_worker("nobody")
        assert [worker.id for worker in await world.store.workers()] == ["b"]

    @pytest.mark.req("WRK-4")
    async def test_forgetting_a_worker_leaves_its_leases_alone(self, world: World) -> None:
        row = await world.running()
        await world.heartbeat((row.id, row.token))
        await world.store.remove_worker("w1")
        assert await world.get(row.id) == row
        assert (await world.heartbeat((row.id, row.token))).lost == frozenset()

    async def test_a_worker_of_all_queues_is_told_from_one_of_none(self, world: World) -> None:
        await world.heartbeat(worker="all", queues=None)
        await world.heartbeat(worker="none", queues=())
        assert {worker.id: worker.queues for worker in await world.store.workers()} == {"all": None, "none": ()}


class AuditTrail(StoreSuite):
    async def test_newest_first_by_target_and_limit(self, world: World) -> None:
        audits = [world.audit(target=f"job-{n % 2}") for n in range(6)]
        await world.add(*(world.execution() for _ in audits), audit=audits)
        assert await world.store.audits() == audits[::-1]
        assert await world.store.audits("job-1") == audits[::-2]
        assert await world.store.audits(limit=2) == audits[:3:-1]
        assert await world.store.audits(limit=2, before=audits[4].id) == [audits[3], audits[2]]
        assert await world.store.audits("job-1", before=audits[3].id) == [audits[1]]
        assert await world.store.audits(before=audits[0].id) == []
        assert await world.store.audits("nobody") == []

    @pytest.mark.req("SEC-3", "HIS-2")
    async def test_the_oldest_are_pruned_a_few_at_a_time(self, world: World) -> None:
        audits = [world.audit() for _ in range(6)]
        await world.add(*(world.execution() for _ in audits), audit=audits)
        assert await world.store.prune_audits(audits[0].id, 10) == 0
        assert await world.store.prune_audits(audits[5].id, 0) == 0
        assert await world.store.prune_audits(audits[5].id, 2) == 2
        assert await world.store.audits() == audits[:1:-1]
        assert await world.store.prune_audits(audits[5].id, 10) == 3
        assert await world.store.audits() == [audits[5]]

    async def test_every_field_of_a_record_comes_back(self, world: World) -> None:
        audit = Audit(
            id="a1",
            at=world.now + 1,
            actor="Zoë",
            action="override",
            target="job",
            before='{"n":1}',
            after='{"n":18446744073709551616}',
            request_id="r-1",
        )
        await world.write(world.job(), audit=audit)
        assert await world.store.audits("job") == [audit]
