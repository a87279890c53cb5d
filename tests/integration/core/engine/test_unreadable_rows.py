"""Rows of a newer release: what one node cannot read is left to those that can, and holds up nothing else."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from typing import Any

import msgspec
import pytest

from mainspring import Mainspring, every
from mainspring.core.engine.janitor import Janitor
from mainspring.core.views.execution import row_of
from mainspring.model.events import Trouble
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import ClaimRequest
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from tests.support import Nodes, Seen, ended, until

UNREADABLE = '{"max_attempts":"many"}'


def rewrite(nodes: Nodes, name: str, **changes: Any) -> None:
    """As a newer release would: fields and kinds that this one does not know."""
    with closing(sqlite3.connect(nodes.file)) as database, database:
        (declared,) = database.execute("SELECT declared FROM mainspring_jobs WHERE name = ?", (name,)).fetchone()
        newer = json.dumps(json.loads(declared) | changes)
        database.execute("UPDATE mainspring_jobs SET declared = ? WHERE name = ?", (newer, name))


@pytest.fixture
def sqlite_nodes(tmp_path: Any) -> Nodes:
    return Nodes("sqlite", tmp_path)


@pytest.mark.req("WRK-6")
async def test_fields_of_a_newer_release_are_passed_over(sqlite_nodes: Nodes) -> None:
    app = sqlite_nodes.app()
    app.job("newer", trigger=every(hours=1))(lambda: None)
    await app.open()
    rewrite(sqlite_nodes, "newer", invented=1, retry={"initial": 1.0, "multiplier": 2.0, "shape": "x"})
    (view,) = await app.jobs()
    assert (view.state, view.schedule) == ("scheduled", "@every 1h")
    await app.close()


@pytest.mark.req("WRK-6", "TIM-6")
async def test_a_job_that_cannot_be_read_holds_up_no_other(sqlite_nodes: Nodes) -> None:
    seen, ran = Seen(), []
    app = sqlite_nodes.app(observers=[seen])
    app.job("good", trigger=every(seconds=0.05))(lambda: ran.append("good"))
    app.schedule("newer", "good", every(seconds=0.05))
    await app.open()
    rewrite(sqlite_nodes, "newer", trigger={"kind": "lunar"})
    old = sqlite_nodes.app(observers=[seen])
    old.job("good", trigger=every(seconds=0.05))(lambda: ran.append("good"))
    async with old:
        await until(lambda: len(ran) >= 3, "the good job ticks")
        await until(lambda: any("lunar" in trouble.error for trouble in seen.of(Trouble)), "and the other is told of")
    await app.close()
    with closing(sqlite3.connect(sqlite_nodes.file)) as database:
        ((version,),) = database.execute("SELECT version FROM mainspring_jobs WHERE name = 'newer'")
    assert version == 1


def work(app: Mainspring, execution: ExecutionRow) -> ExecutionRow:
    return msgspec.structs.replace(execution, id=execution.id[:-4] + "0000", policy=UNREADABLE)


@pytest.mark.req("WRK-4")
async def test_an_orphan_that_cannot_be_judged_holds_up_no_other() -> None:
    clock, troubles = FakeClock(), []
    store = MemoryStore(clock)
    app = Mainspring(store, clock=clock)
    app.job("work", max_attempts=3)(lambda: None)
    readable = await app.enqueue("work")
    assert readable is not None
    await store.add([work(app, row_of(readable))])
    request = ClaimRequest(owner="dead", handlers=frozenset({"work"}), queues=None, limit=2, lease=1.0)
    assert len((await store.exchange([], request)).claimed) == 2
    clock.advance(5)
    assert await Janitor(store, clock, random.Random(1), troubles.append).rescue_once() == 1
    assert (await app.get(readable.id)).state is State.PENDING
    assert [trouble.where for trouble in troubles if isinstance(trouble, Trouble)] == ["rescue"]
    await app.close()


@pytest.mark.req("EXE-8", "WRK-6")
async def test_work_whose_rules_cannot_be_read_is_left_for_later(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(concurrency=1)
    app.job("work")(lambda: None)
    first = await app.enqueue("work", start_at="1h")
    assert first is not None
    assert app._runtime.parts is not None
    newer = msgspec.structs.replace(work(app, row_of(first)), due=0)
    await app._runtime.parts.store.add([newer])
    async with app:
        assert (await ended(app, await app.enqueue("work"))).state == "completed"
        await until(lambda: _snoozed(app, newer.id), "it waits")
        left = await app.get(newer.id)
        assert (left.state, left.failures) == ("pending", 0)


async def _snoozed(app: Mainspring, id: str) -> bool:
    return [attempt.end for attempt in (await app.get(id)).attempts] == ["snoozed"]
