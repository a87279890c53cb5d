"""Labels of executions, from insert to deletion, and the notes of failures that are stored with a change."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ....core.copy_store import copy
from ....model.execution import State
from ....model.store.copy_records import ExecutionRecord, RecordKind
from ....model.store.messages import ExecutionQuery, ProgressReport, PruneRule
from ....stores.memory import MemoryStore
from ..base import StoreSuite, World, ids

KEY = "order_id=4711"
GROUP = "!5f0c"


async def labelled(world: World, *labels: str) -> list[str]:
    """The ids of the executions that have all these labels."""
    return await world.all_ids(labels=labels)


class Labels(StoreSuite):
    @pytest.mark.req("SRC-1")
    async def test_labels_of_every_kind_of_row_are_found(self, world: World) -> None:
        holder = world.execution(overlap_key="k", labels=(KEY, "a=1", KEY))
        skipped = world.execution(overlap_key="k", labels=(KEY, "b=ü 'x'"))
        final = world.execution(state=State.FAILED, finished=world.now, labels=(KEY, GROUP))
        plain = world.execution()
        tick = world.execution(labels=(KEY, "a=1"))
        assert await world.outcomes(holder, skipped, final, plain) == ["added", "skipped", "added", "added"]
        assert await world.write(world.job(), executions=(tick,))
        expected = {
            holder.id: ("a=1", KEY),
            skipped.id: ("b=ü 'x'", KEY),
            final.id: (GROUP, KEY),
            tick.id: ("a=1", KEY),
        }
        found = await world.store.find(ExecutionQuery(labels=(KEY,)))
        assert {row.id: row.labels for row in found} == expected
        assert ids(found) == sorted(expected, reverse=True)
        assert {id: (await world.get(id)).labels for id in expected} == expected
        assert (await world.get(plain.id)).labels == ()
        assert await labelled(world, "a=1", KEY) == [tick.id, holder.id]
        assert await labelled(world, "b=ü 'x'") == [skipped.id]
        assert await labelled(world, "a=1", GROUP) == await labelled(world, "order_id=471") == []
        assert await world.store.count(ExecutionQuery(labels=(KEY,)), 100) == 4
        assert await world.store.count(ExecutionQuery(labels=(KEY,)), 3) == 3
        query = ExecutionQuery(labels=(KEY,), states=frozenset({State.FAILED}), job_id="job-1")
        assert ids(await world.store.find(query)) == [final.id]
        paged = await world.store.find(ExecutionQuery(labels=(KEY,), oldest_first=True, after=holder.id, limit=2))
        assert ids(paged) == [skipped.id, final.id]
        await world.claim()
        assert ids(await world.store.find(ExecutionQuery(labels=("a=1",)))) == [tick.id, holder.id]

    @pytest.mark.req("SRC-1")
    async def test_changes_and_reports_add_labels_if_they_are_accepted(self, world: World) -> None:
        await world.add(*(world.execution(labels=("a=1",)) if n % 2 else world.execution() for n in range(5)))
        retried, done, usual, refused, waits = await world.claim()
        reports = [
            ProgressReport(id=done.id, token=done.token, owner="w1", labels=("r=1", "a=1")),
            ProgressReport(id=refused.id, token=refused.token + 1, owner="w1", labels=("r=1",)),
            ProgressReport(id=usual.id, token=usual.token, owner="w2", labels=("r=1",)),
        ]
        assert await world.store.report(reports) == [True, False, False]
        answer = await world.store.exchange(
            [
                world.change(retried, State.PENDING, labels=(GROUP,), delay=60.0),
                world.change(done, State.FAILED, labels=(GROUP, "a=1")),
                world.change(usual, attempt=world.attempt(end="completed"), labels=("u=1",)),
                world.change(refused, token=refused.token + 1, labels=(GROUP,)),
                world.change(waits, State.WAITING, labels=("w=1",)),
            ],
            None,
        )
        assert answer.applied == (True, True, True, False, True)
        expected = [(GROUP,), (GROUP, "a=1", "r=1"), ("u=1",), ("a=1",), ("w=1",)]
        rows = [await world.get(row.id) for row in (retried, done, usual, refused, waits)]
        assert [row.labels for row in rows] == expected
        assert await labelled(world, GROUP) == [done.id, retried.id]
        assert await labelled(world, "r=1") == [done.id]
        world.clock.advance(61)
        [again] = await world.claim()
        assert await world.settle(again, labels=("last=1",))
        assert (await world.get(again.id)).labels == (GROUP, "last=1")

    @pytest.mark.req("SRC-1")
    async def test_labels_go_with_their_execution(self, world: World) -> None:
        await world.write(world.job())
        await world.add(*(world.execution(labels=(KEY,)) for _ in range(5)))
        rows = await world.claim()
        unkept = [world.change(rows[0], keep=False), world.change(rows[1], keep=False, todo=True, labels=(GROUP,))]
        await world.store.exchange(unkept, None)
        await world.store.exchange([world.change(row, labels=(GROUP,)) for row in rows[2:]], None)
        assert await labelled(world, KEY) == [row.id for row in reversed(rows[1:])]
        await world.store.todo_done([rows[1].id])
        rule = PruneRule(job_id="job-1", states=frozenset({State.COMPLETED}), older_than=None)
        assert await world.store.prune(rule, 1) == 1
        assert await labelled(world, KEY) == await labelled(world, KEY, GROUP) == [rows[4].id, rows[3].id]
        assert await world.store.delete_job("job", 1, purge=True, audit=None)
        while await world.store.fold(100):
            pass
        assert await labelled(world, KEY) == []
        gone = rows[0]
        assert await world.outcomes(world.execution(id=gone.id)) == ["added"]
        assert (await world.get(gone.id)).labels == ()

    @pytest.mark.req("SRC-1")
    async def test_labels_are_copied(self, world: World) -> None:
        await world.write(world.job())
        finished = world.execution(state=State.COMPLETED, finished=world.now, started=world.now, labels=("b=1", KEY))
        await world.add(world.execution(labels=(KEY,)), world.execution(), finished)
        elsewhere = MemoryStore(world.clock)
        assert (await copy(world.store, elsewhere, _silent)).equal
        assert [row.labels for row in await elsewhere.find(ExecutionQuery())] == [(), (KEY,), ("b=1", KEY)]
        records = await elsewhere.copy_out("executions", "", 10)
        rows = [record.execution for record in records if isinstance(record, ExecutionRecord)]
        moved = [ExecutionRecord(execution=replace(row, id=world.id())) for row in rows]
        assert await world.store.copy_in("executions", moved) == 3
        assert len(await labelled(world, KEY)) == 4


class FailureNotes(StoreSuite):
    @pytest.mark.req("SRC-2")
    async def test_a_note_is_stored_with_the_change_that_has_it(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(5)))
        retried, failed, refused, unkept, plain = await world.claim()
        answer = await world.store.exchange(
            [
                world.change(retried, State.PENDING, failure='{"n":1}', attempt=world.attempt()),
                world.change(failed, State.FAILED, failure='{"n":"é"}', attempt=world.attempt(), audit=world.audit()),
                world.change(refused, State.FAILED, failure="{}", token=refused.token + 1),
                world.change(unkept, State.FAILED, failure='{"n":4}', keep=False),
                world.change(plain),
            ],
            None,
        )
        assert answer.applied == (True, True, False, True, True)
        world.clock.advance(1)
        [again] = await world.claim()
        assert await world.settle(again, State.FAILED, failure='{"n":2}')
        await world.store.fold(100)
        notes = await world.store.list_entries("failure", "")
        at, later = world.now - 1_000_000, world.now
        assert [(note.key, note.body, note.version) for note in notes] == [
            (f"{at:016d}/{retried.id}", '{"n":1}', 1),
            (f"{at:016d}/{failed.id}", '{"n":"é"}', 1),
            (f"{at:016d}/{unkept.id}", '{"n":4}', 1),
            (f"{later:016d}/{retried.id}", '{"n":2}', 1),
        ]


def _silent(step: str, kind: RecordKind, count: int, key: str) -> None:
    """Ignores progress."""
