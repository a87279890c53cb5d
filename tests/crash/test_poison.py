"""A payload that kills its worker is found out, alone; those who died with it are not punished."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring import State
from tests.crash.handlers import Witnessed, build
from tests.crash.processes import PATIENCE, Processes, until

NEIGHBOURS = 6


@pytest.mark.req("EXE-12", "EXE-4")
async def test_poison_is_quarantined_after_its_third_crash_alone(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path)
    try:
        poison = await app.enqueue("poison", priority=10)
        assert poison is not None
        neighbours = [each for each in await app.enqueue_many([("work", {"seconds": 1.5})] * NEIGHBOURS) if each]

        async def all_over() -> bool:
            if not processes.alive():  # whoever watches over workers starts another one
                processes.node(concurrency=4)
            return await app.all_in(State.FAILED, [poison]) and await app.all_in(State.COMPLETED, neighbours)

        await until(all_over, PATIENCE)
        ended = await app.get(poison.id)
        assert (ended.state, ended.reason, ended.crashes) == (State.FAILED, "crash_loop", 3)
        assert [attempt.end for attempt in ended.attempts] == ["worker_lost"] * 3
        _alone_at_the_end(app, poison.id)
        hit = [(await app.get(each.id)).crashes for each in neighbours]
        print(f"crashes of the neighbours: {hit}")
        assert any(hit), "nobody died with it"
    finally:
        await app.close()


def _alone_at_the_end(app: Witnessed, poison: str) -> None:
    """In the process that it killed last, it was the only one at work."""
    began = app.ledger.lines("began", id=poison)
    assert len(began) == 3
    last = began[-1]["pid"]
    open_runs = {line["id"] for line in app.ledger.lines("began", pid=last)}
    open_runs -= {line["id"] for line in app.ledger.lines("ended", pid=last)}
    assert open_runs == {poison}
