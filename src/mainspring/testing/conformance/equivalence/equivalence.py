"""Random sequences of primitives: the store under test and the memory store must agree after every step.

The comparison leaves out what a store may choose: when executions are numbered, lock tokens, whether `more` is
cautious, how deltas are batched, and whether a row that ends, or begins to wait for its children, in the very batch
that frees its key is made due first. Invariants of every store are checked as well.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from ....core.ports import Store
from ....model.execution import ExecutionRow, State
from ....model.store.messages import Blocked, Exchanged, ExecutionQuery, HeartbeatReply
from ....stores.memory import MemoryStore
from ...clock import FakeClock
from ..base import StoreSuite
from .drawing import Drawing
from .steps import Exchange, Script, Side, Step

ALL = 1_000


class Equivalence(StoreSuite):
    scripts = 24
    script_length = 60

    def test_random_sequences_give_the_same_state_as_the_memory_store(self) -> None:
        with self.short_ways() as taken:
            for seed in range(self.scripts):
                script = Drawing(seed).script(self.script_length)
                if self._difference(script) is not None:
                    shortest = self._shortened(script)
                    listed = "\n".join(map(repr, shortest))
                    because = self._difference(shortest)
                    pytest.fail(f"seed {seed}, shortened to:\n{listed}\n\n{because}", pytrace=False)
        assert all(taken.values()), f"a short way that no script took: {dict(taken)}"

    def _difference(self, script: list[Step]) -> str | None:
        try:
            asyncio.run(self.play(script))
        except Exception:
            return traceback.format_exc()
        return None

    def _shortened(self, script: list[Step]) -> list[Step]:
        """The script without steps that are not needed to make it fail."""
        size = len(script) // 2
        while size:
            start = 0
            while start < len(script):
                shorter = script[:start] + script[start + size :]
                if self._difference(shorter) is None:
                    start += size
                else:
                    script = shorter
            size //= 2
        return script

    async def play(self, steps: list[Step]) -> None:
        script = Script(FakeClock())
        reference = Side(MemoryStore(script.clock))
        async with self.open_store(script.clock) as store, self.second_store(store, script.clock) as other:
            tested = Side(store), Side(other)
            tested[1].lock_tokens = tested[0].lock_tokens
            for number, step in enumerate(steps):
                await _take(step, script, tested[number % 2], reference, seen_by=tested[1 - number % 2])
            await _fold_all(store)
            assert not differences(await view(other, script), await view(reference.store, script))
            assert not differences(await searches(other), await searches(reference.store))
            _check_numbers(await other.find(ExecutionQuery(limit=ALL)), script)


async def _take(step: Step, script: Script, tested: Side, reference: Side, seen_by: Side) -> None:
    """One handle acts, the other one reads."""
    action = step.action(script)
    answer, expected = await action(tested), await action(reference)
    shown, wanted = await view(seen_by.store, script), await view(reference.store, script)
    if isinstance(step, Exchange):
        _same_exchange(step, answer, expected, parked=any(row.parked for row in wanted["executions"]))
    else:
        assert _plain(answer) == _plain(expected), step
    different = differences(shown, wanted)
    assert not different, f"after {step}:\n" + "\n".join(different)
    _check_rows(shown["executions"])
    _check_moves(step, script.rows, shown["executions"])
    script.rows = shown["executions"]
    script.entries = {entry.key: entry.version for entry in shown["list of entries"]}
    script.jobs = {job.name: job for job in shown["jobs"]}


async def view(store: Store, script: Script) -> dict[str, Any]:
    """Everything a store can be asked, without what it may choose itself."""
    rows = await store.find(ExecutionQuery(limit=ALL))
    due = await store.due_jobs(ALL)
    return {
        "executions": _rows(rows),
        "newest": [row and _row(row) for row in [await store.execution(row.id) for row in rows[:2]]],
        "count": await store.count(ExecutionQuery(job="a"), ALL),
        "triggered": _rows(await store.find(ExecutionQuery(trigger="schedule", limit=ALL))),
        "children": (await store.children("p"), await store.last_child_ended("p")),
        "held keys": [await store.held_keys(kind) for kind in ("overlap", "unique")],
        "todo": _plain_rows(await store.todo(ALL)),
        "expired": _by_id(await store.expired(ALL)),
        "unserved cancels": _by_id(await store.unserved_cancels(ALL)),
        "cancels": [await store.cancels(owner) for owner in ("w1", "w2")],
        "logs": {id: await store.logs(id) for id in sorted(script.reported)},
        "jobs": [job.with_changes(last_number=0) for job in await store.jobs()],
        "due": ([job.name for job in due.jobs], due.next_due, due.now),
        "swept": [job.name for job in await store.swept(ALL)],
        "stats": {id: replace(s, duration_ms=round(s.duration_ms, 3)) for id, s in (await store.stats()).items()},
        "live": await store.live_counts(),
        "workers": {worker.id: worker for worker in await store.workers()},
        "audits": await store.audits(limit=ALL),
        "list of entries": await store.list_entries("window", "s"),
        "entries": await store.entries("window", "s", ["é", "a", "none"]),
        "locks": [replace(lock, token=0) for lock in await store.locks()],
    }


async def searches(store: Store) -> dict[str, Any]:
    """What searches find, with more to look at than they may need."""
    queries = {
        "label": ExecutionQuery(labels=("k=1",), limit=ALL),
        "labels": ExecutionQuery(labels=("l=ü", "k=1"), limit=ALL, oldest_first=True),
        "failed group": ExecutionQuery(labels=("!e",), states=frozenset({State.FAILED, State.PENDING}), limit=ALL),
        "queue": ExecutionQuery(queue="mail", handler="work", limit=ALL),
        "error": ExecutionQuery(error_text="rror 1", limit=5),
        "worker": ExecutionQuery(workers=frozenset({"w2"}), job="a", limit=ALL),
        "long": ExecutionQuery(longer_than=1_300_000, reason="r", limit=ALL),
        "live": ExecutionQuery(queue="default", states=frozenset({State.PENDING, State.SKIPPED}), limit=ALL),
    }
    found = {name: await store.search(query, 10 * ALL) for name, query in queries.items()}
    return {
        **{name: _rows(one.rows) for name, one in found.items()},
        "ends": {name: one.searched_to for name, one in found.items()},
        "counts": [await store.count(query, 7) for query in queries.values()],
        "lanes": await store.lane_counts(),
        "tenants": await store.tenant_counts(ALL),
        "runs": await store.newest_runs(sorted({row.job_id for row in found["label"].rows}), ALL),
        "notes": await store.list_entries("failure", ""),
    }


def differences(shown: Any, expected: Any, where: str = "") -> list[str]:
    """The differences between two views, field by field."""
    if shown == expected:
        return []
    pairs: list[tuple[str, Any, Any]] = []
    if isinstance(shown, dict) and isinstance(expected, dict):
        pairs = [(f"{where}/{key}", shown.get(key), expected.get(key)) for key in {**shown, **expected}]
    elif isinstance(shown, list) and isinstance(expected, list) and len(shown) == len(expected):
        pairs = [(f"{where}/{n}", *both) for n, both in enumerate(zip(shown, expected, strict=True))]
    elif isinstance(shown, Struct) and type(shown) is type(expected):
        pairs = [(f"{where}.{name}", getattr(shown, name), getattr(expected, name)) for name in shown.__struct_fields__]
    if not pairs:
        return [f"{where}: {shown!r}, expected {expected!r}"]
    return [line for place, one, other in pairs for line in differences(one, other, place)]


def _plain(answer: Any) -> Any:
    if isinstance(answer, HeartbeatReply):
        kept = {id: reason for id, reason in answer.cancels.items() if id not in answer.lost}
        return answer.lost, kept, answer.now
    return answer


def _same_exchange(step: Exchange, answer: Exchanged, expected: Exchanged, parked: bool) -> None:
    assert (answer.applied, answer.now) == (expected.applied, expected.now), step
    assert _plain_rows(answer.claimed) == _plain_rows(expected.claimed), step
    assert [_blocked(one) for one in answer.blocked] == [_blocked(one) for one in expected.blocked], step
    if step.claim is None:
        return
    assert (answer.next_due, answer.alone_waiting) == (expected.next_due, expected.alone_waiting), step
    if step.claim.alone:
        return
    cautious = parked or len(answer.claimed) + len(answer.blocked) == step.claim.limit
    assert answer.more == expected.more or (answer.more and cautious), step


def _blocked(blocked: Blocked) -> tuple[ExecutionRow, str | None]:
    return replace(_row(blocked.execution), labels=()), blocked.holder


def _rows(rows: Iterable[ExecutionRow]) -> list[ExecutionRow]:
    return [_row(row) for row in rows]


def _plain_rows(rows: Iterable[ExecutionRow]) -> list[ExecutionRow]:
    """Without labels, which not every answer has."""
    return [replace(_row(row), labels=()) for row in rows]


def _by_id(rows: Iterable[ExecutionRow]) -> list[ExecutionRow]:
    return sorted(_plain_rows(rows), key=lambda row: row.id)


def _row(row: ExecutionRow) -> ExecutionRow:
    over = row.state.final or row.state is State.WAITING
    return replace(row, number=None, overlap_slots=1, due=0 if over else row.due)


async def _fold_all(store: Store) -> None:
    while await store.fold(ALL):
        pass


# --- invariants of every store --------------------------------------------------------------------------------------


def _check_rows(rows: list[ExecutionRow]) -> None:
    live = [row for row in rows if not row.state.final]
    for keys in ([row.unique_key for row in live], [row.overlap_key for row in live]):
        held = [key for key in keys if key is not None]
        assert len(held) == len(set(held)), "two live rows hold one key"
    for row in rows:
        owned = row.owner is not None and row.lease is not None
        assert owned if row.state is State.RUNNING else row.lease is None, f"a {row.state} row of owner {row.owner}"
        assert (row.finished is not None) == row.state.final, f"a {row.state} row finished at {row.finished}"


def _check_moves(step: Step, before: list[ExecutionRow], after: list[ExecutionRow]) -> None:
    known = {row.id: row for row in after}
    for old in before:
        new = known.get(old.id)
        if new is None:
            assert old.state.final or isinstance(step, Exchange), "a live row vanished"
        elif old.state.final:
            assert replace(new, todo=old.todo) == old, "a finished row changed"
        else:
            assert new.token >= old.token, "a token went back"


def _check_numbers(rows: list[ExecutionRow], script: Script) -> None:
    """Once everything is folded, every finished execution of an existing job has a number of its own."""
    for job in script.jobs.values():
        mine = [row for row in rows if row.job_id == job.id]
        numbers = [row.number for row in mine if row.number is not None]
        assert len(numbers) == len(set(numbers))
        assert all(row.number is not None for row in mine if row.state.final)
