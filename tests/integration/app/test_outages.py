"""A server goes away for a while and comes back: every loop that noticed says so once, and once that it is over."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mainspring import JobContext, Mainspring
from mainspring.app.adapters import SystemClock
from mainspring.model.events import Stopped
from mainspring.stores.sqlite import SqliteStore
from tests.mongo_server import new_mongo
from tests.servers import new_postgres
from tests.support import DEADLINE, Seen, own_time, until, until_blocking

QUICK = {
    "heartbeat": 0.2,
    "rescue_interval": 0.2,
    "fold_interval": 0.2,
    "poll_interval": 0.2,
    "retention_interval": 0.2,
}
LOOPS = {
    *("scheduler", "worker", "notes", "backfills", "heartbeat", "controls", "control upkeep", "bulk"),
    *("follow-ups", "fan-outs", "rescue", "sweep", "retention"),
}


def a_server(kind: str, folder: Path) -> tuple[Any, Callable[[], object], Callable[[], object]]:
    """A database that runs, and how it goes away and comes back."""
    if kind == "postgres":
        server = new_postgres()
        server.start()
        return server.new_database(), server.kill, server.start
    if kind == "mongo":
        mongo = new_mongo("standalone")
        mongo.start()
        return mongo.url() + "?serverSelectionTimeoutMS=300", mongo.kill, mongo.start
    path = folder / "jobs.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    store = SqliteStore(path, SystemClock(), busy_timeout=0.2)
    return store, lambda: other.execute("BEGIN IMMEDIATE"), lambda: other.execute("ROLLBACK")


@pytest.mark.req("OPS-9", "REL-1")
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mongo"])
async def test_an_outage_is_two_lines_of_each_loop_that_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    database, go_away, come_back = a_server(kind, tmp_path)
    app = Mainspring(database, lease=1.0, **QUICK)

    @app.job("tick", cron="* * * * * *")
    async def tick() -> None: ...

    @app.job("long")
    async def long() -> None:
        await asyncio.sleep(DEADLINE)

    caplog.set_level(logging.INFO)

    def lines(event: str) -> Counter[str]:
        return Counter(record.where for record in caplog.records if getattr(record, "event", "") == event)

    async with asyncio.timeout(DEADLINE):
        await app.start()
        await app.enqueue("long")
        await until(lambda: [each for each in caplog.records if getattr(each, "job", "") == "long"])
        await asyncio.to_thread(go_away)
        await until(lambda: {"scheduler", "worker", "heartbeat", "rescue"} <= lines("store_lost").keys())
        await asyncio.sleep(2)  # the length of the outage, which outlasts the lease
        await asyncio.to_thread(come_back)
        lost = await until(lambda: (found := lines("store_lost")) == lines("recovered") and found)
        assert set(lost.values()) == {1}, lost
        assert lost.keys() <= LOOPS
    ours = [each for each in caplog.records if each.name.startswith("mainspring")]  # drivers have words of their own
    others = [each for each in ours if each.levelno >= logging.WARNING and not hasattr(each, "where")]
    assert {each.event for each in others} <= {
        "waiting_for_database",
        "stale_lock_cleared",
        "job_retry",
        "job_skipped",
        "write_refused",
    }
    assert not [each for each in caplog.records if each.exc_text]
    await app.stop(1)
    await app.close()
    if not isinstance(database, str):
        await database.close()


@pytest.mark.req("WRK-5", "OPS-9")
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mongo"])
async def test_a_stop_while_the_server_is_away_ends_in_time_and_says_what_is_left(tmp_path: Path, kind: str) -> None:
    database, go_away, come_back = a_server(kind, tmp_path)
    seen = Seen()
    app = Mainspring(database, observers=[seen], stop_timeout=4.0)
    began: list[str] = []

    @app.job("long")
    async def long(ctx: JobContext) -> None:
        began.append(ctx.execution_id)
        await asyncio.sleep(DEADLINE)

    async with asyncio.timeout(DEADLINE):
        await app.start()
        await app.enqueue_many([("long", None)] * 2)
        await until(lambda: len(began) == 2)
        await asyncio.to_thread(go_away)
        stopping = own_time()
        await app.stop()
        took = own_time() - stopping
    assert took < 4.0
    assert [(event.handed_back, event.unsettled, event.lease) for event in seen.of(Stopped)] == [(0, 2, 30.0)]
    await asyncio.to_thread(come_back)
    await app.close()
    if not isinstance(database, str):
        await database.close()


@pytest.mark.req("WRK-5", "OPS-9")
def test_a_process_that_could_not_hand_back_its_work_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import asyncio\nfrom mainspring import Mainspring\n"
        'app = Mainspring("sqlite:///jobs.db", stop_timeout="3s", lease="20s")\n'
        '@app.job("long", cron="* * * * * *")\nasync def long() -> None: await asyncio.sleep(600)\n'
    )
    command = [sys.executable, "-m", "mainspring", "run", "shop:app"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    until_blocking(lambda: "job_start" in process.stderr.readline())
    with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=DEADLINE)
    assert "stopped       0 handed back; the endings of 1 could not be recorded" in said
    assert "other workers run them again when their lease ends, within 20 s" in said
    assert process.returncode == 1
