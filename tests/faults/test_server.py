"""The server goes away in the middle of the work, and comes back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psycopg
import pytest

from tests.crash.processes import PATIENCE, Processes, until
from tests.faults.counters import COUNTERS
from tests.faults.load import CLAIM_WITHIN, Load
from tests.servers import Postgres

NODES = 2
STORM = 4.0
EVERY = 0.2
TERMINATE = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.mark.req("REL-1", "WRK-3")
@pytest.mark.parametrize(("how", "wakeups"), [("restarted", True), ("killed", False)])
async def test_the_server_goes_away_and_comes_back(
    tmp_path: Path, server: Postgres, processes: Processes, how: str, wakeups: bool
) -> None:
    load = Load(tmp_path, executions=300, ticks=40)
    try:
        await load.begin(processes, NODES, wakeups=wakeups)
        for down_for in (0.0, 3.0):  # no longer than it takes, and long enough for loops to have slowed down
            await load.more(60)
            (server.stop if how == "restarted" else server.kill)()
            await _nothing_for(down_for)
            await until(lambda: _started(server), 30)
            COUNTERS.restarts += 1
            took = await load.first_claim()
            print(f"{how}, down for {down_for:g} s: first claim {took:.2f} s after the server's return")
            assert took < CLAIM_WITHIN
        await load.judge()
        print(load)
        assert len(processes.alive()) == NODES
    finally:
        await load.end()


def _started(server: Postgres) -> bool:
    """What is left of a killed server may still be ending."""
    try:
        server.start()
    except RuntimeError:
        return False
    return True


async def _nothing_for(seconds: float) -> None:
    end = time.monotonic() + seconds
    await until(lambda: time.monotonic() >= end, seconds + 1)


@pytest.mark.req("REL-1", "WRK-3")
async def test_connections_are_terminated_all_the_time(tmp_path: Path, address: str, processes: Processes) -> None:
    load = Load(tmp_path, executions=400, ticks=60)
    try:
        await load.begin(processes, NODES)
        await load.more(20)
        before, began, pause = load.begun(), time.monotonic(), EVERY
        with psycopg.connect(address, autocommit=True) as connection:
            while time.monotonic() < began + STORM or load.begun() == before:
                [[count]] = connection.execute(TERMINATE).fetchall()
                COUNTERS.terminated += count
                await asyncio.sleep(pause)
                if time.monotonic() > began + STORM:  # a busy machine needs longer for a connection and a claim
                    pause *= 1.5
                assert time.monotonic() < began + PATIENCE, "nothing began in the storm"
        during = load.begun() - before
        took = await load.first_claim()
        print(f"{during} runs began in a storm of {STORM:g} s; first claim {took:.2f} s after it")
        assert took < CLAIM_WITHIN
        await load.judge()
        print(load)
    finally:
        await load.end()
