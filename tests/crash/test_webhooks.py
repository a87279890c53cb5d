"""An event is delivered at least once, and always under one id, wherever a process dies between the event and the
receiver."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tests.crash.handlers import AT_ONCE, UNDISTURBED, Witnessed, build, hold
from tests.crash.processes import PATIENCE, Processes, until
from tests.receiver import Receiver, hangs, receiving

POINTS = ("follow-ups", "deliveries", "marks")
"""After the ending, before the deliveries are added, and after that."""


@pytest.mark.req("WHK-1", "FLW-4", "REL-1")
async def test_kills_at_every_step_of_the_hand_over_lose_no_event(tmp_path: Path, processes: Processes) -> None:
    app = build(tmp_path, private_urls=True)
    async with receiving() as receiver:
        await app.open()
        try:
            await app.webhooks.create(receiver.url("/hook"), id="hook", events=["execution.completed"])
            await app.update_job("mainspring.webhooks", retry=AT_ONCE)
            runs = [await _killed_while_sending(app, receiver, processes)]  # its lease runs out during the others
            runs += [await _killed_at(app, point, tmp_path, processes) for point in POINTS]
            processes.node("worker", private_urls=True, **UNDISTURBED)
            await until(lambda: set(_ids(receiver)) == set(runs), PATIENCE, "every event arrives")
            await until(lambda: _all_done(app), PATIENCE, "every delivery has ended")
            assert {run: len(ids) for run, ids in _ids(receiver).items()} == dict.fromkeys(runs, 1)
        finally:
            await app.close()


async def _killed_at(app: Witnessed, point: str, folder: Path, processes: Processes) -> str:
    hold(folder, point).touch()
    run = await app.enqueue("work")
    assert run is not None
    node = processes.node("worker", private_urls=True)
    await until(lambda: app.ledger.lines("holding", write=point, pid=node.pid), PATIENCE)
    node.kill()
    hold(folder, point).unlink()
    return run.id


async def _killed_while_sending(app: Witnessed, receiver: Receiver, processes: Processes) -> str:
    """The request has arrived, and its answer does not come before the process dies."""
    receiver.behaviours["/hook"] = hangs
    run = await app.enqueue("work")
    assert run is not None
    node = processes.node("worker", private_urls=True)
    await until(lambda: run.id in _ids(receiver), PATIENCE)
    node.kill()
    del receiver.behaviours["/hook"]
    return run.id


async def _all_done(app: Witnessed) -> bool:
    return all(each.state.value == "completed" for each in await app.webhooks.deliveries("hook"))


def _ids(receiver: Receiver) -> dict[str, set[str]]:
    """The message ids of each execution's event."""
    found: dict[str, set[str]] = defaultdict(set)
    for message in receiver.at("/hook"):
        found[message.event["data"]["execution_id"]].add(message.headers["webhook-id"])
    return found
