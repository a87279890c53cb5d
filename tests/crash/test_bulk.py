"""A bulk retry by filter while the processes that carry it out are killed: each execution is retried exactly once, and
the progress is exact. With CRASH_FULL=1, a hundred thousand of them and more kills."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from mainspring import BulkAction, State
from mainspring.core.rules.new_execution import new_execution
from mainspring.model.labels import error_label
from mainspring.model.values.ids import RandomIds
from tests.crash.handlers import Witnessed, build
from tests.crash.processes import PATIENCE, Processes, until

FULL = "CRASH_FULL" in os.environ
ITEMS, KILLS, FIRST = (100_000, 20, 2) if FULL else (600, 1, 1)
"""With one process at first, it is the one at work that is killed; then two compete for what it has left."""
GROUP = "5f0c1a2b3c4d5e6f"


async def _fill(app: Witnessed) -> set[str]:
    """Executions that failed with one error, as history."""
    parts = await app._runtime.engine()
    [job] = await parts.store.jobs(["work"])
    now, ids = await parts.store.now(), RandomIds(parts.chance)
    first = now - ITEMS - 1
    made: set[str] = set()
    for start in range(0, ITEMS, 1_000):
        rows = [
            new_execution(
                job,
                trigger="enqueue",
                now=first + number,
                chance=parts.chance,
                id=ids.at(first + number),
                state=State.FAILED,
                finished=now,
                error="ValueError: no",
                labels=(error_label(GROUP),),
            )
            for number in range(start, min(start + 1_000, ITEMS))
        ]
        await parts.store.add(rows)
        made |= {row.id for row in rows}
    return made


async def _handled(app: Witnessed, id: str, wanted: int) -> BulkAction | None:
    bulk = await app.bulk.get(id)
    return bulk if bulk.handled >= wanted or bulk.over else None


@pytest.mark.req("SRC-4", "REL-1")
async def test_a_bulk_retry_survives_who_carries_it_out(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    await app.open()
    try:
        failed = await _fill(app)
        filter = {"job": "work", "status": "failed", "error_group": GROUP}
        bulk = await app.bulk.start("retry", filter=filter, pace=None if FULL else 300, by="ada")
        nodes = [processes.node("scheduler") for _ in range(FIRST)]
        for number in range(KILLS):
            wanted = ITEMS * (number + 1) // (KILLS + 2)
            await until(lambda wanted=wanted: _handled(app, bulk.id, wanted), PATIENCE * 5, f"{wanted} are handled")
            nodes.pop(0).kill()
            assert FULL or not (await app.bulk.get(bulk.id)).over
            nodes += [processes.node("scheduler") for _ in range(2 - len(nodes))]
        await until(lambda: _handled(app, bulk.id, ITEMS), PATIENCE * 5, "it is over")
        over = await app.bulk.wait(bulk.id, timeout=PATIENCE)
        counts = (over.state, over.total, over.done, over.refused, over.skipped)
        assert counts == ("completed", ITEMS, ITEMS, 0, 0)
        retried: Counter[str | None] = Counter()
        before: str | None = None
        while page := await app.executions("work", status="pending", limit=1_000, before=before):
            retried.update(each.retry_of for each in page)
            before = page[-1].id
        assert retried.keys() == failed
        assert set(retried.values()) == {1}
        assert app.ledger.lines("trouble") == []
    finally:
        await app.close()
