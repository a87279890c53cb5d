"""MongoDB goes away in the middle of the work, elects another primary, or answers into nowhere."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tables import address_file
from tests.faults.counters import COUNTERS
from tests.faults.load import CLAIM_WITHIN, Load
from tests.faults.proxy import Line, Proxy, proxied
from tests.mongo_replica_set import ReplicaSet
from tests.mongo_server import KINDS, Mongo, new_mongo

NODES = 3
ENOUGH = 20
WRITES = (b"update\x00", b"insert\x00", b"findAndModify\x00")


@pytest.fixture
def replica_set() -> Iterator[ReplicaSet]:
    members = ReplicaSet()
    try:
        members.start()
        yield members
    finally:
        members.remove()


@pytest.fixture
def single(request: pytest.FixtureRequest) -> Iterator[Mongo]:
    server = new_mongo(request.param)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.mark.req("REL-1", "WRK-3")
@pytest.mark.parametrize("single", KINDS, indirect=True)
async def test_a_killed_server_comes_back(tmp_path: Path, single: Mongo, children: Processes) -> None:
    address_file(tmp_path).write_text(single.new_database())
    load = Load(tmp_path, executions=200, ticks=40)
    try:
        await load.begin(children, NODES)
        for down_for in (0.0, 3.0):  # no longer than it takes, and long enough for loops to have slowed down
            await load.more(40)
            single.kill()
            up_again = time.monotonic() + down_for
            await until(lambda end=up_again: time.monotonic() >= end, down_for + 1)
            single.start()
            COUNTERS.restarts += 1
            took = await load.fresh_claim()
            print(f"killed, down for {down_for:g} s: first claim {took:.2f} s after the server's return")
            assert took < CLAIM_WITHIN
        await load.judge()
        print(load)
        assert len(children.alive()) == NODES
    finally:
        await load.end()


@pytest.mark.req("REL-1", "WRK-3", "TIM-6")
async def test_a_primary_steps_down_and_another_is_killed(
    tmp_path: Path, replica_set: ReplicaSet, children: Processes
) -> None:
    address_file(tmp_path).write_text(replica_set.new_database())
    load = Load(tmp_path, executions=300, ticks=60)
    try:
        await load.begin(children, NODES)
        for how in ("stepped down", "killed"):
            await load.more(40)
            if how == "killed":
                before = replica_set.writable_primary()
                before.kill()
            else:
                before = replica_set.step_down()
            began = time.monotonic()
            after = replica_set.writable_primary(other_than=before)
            assert after is not before
            COUNTERS.elections += 1
            elected, took = time.monotonic() - began, await load.fresh_claim()
            print(f"{how}: a new primary after {elected:.2f} s, first claim {took:.2f} s after that")
            assert took < CLAIM_WITHIN
            if how == "killed":
                before.start()
        await load.judge()
        print(load)
        assert len(children.alive()) == NODES
    finally:
        await load.end()


@pytest.mark.req("REL-1", "WRK-3", "EXE-4")
async def test_answers_to_writes_are_lost(tmp_path: Path, children: Processes) -> None:
    """Claims, endings, ticks and enqueues: done by the server, and the connection cut before the answer."""
    server = new_mongo("standalone")  # here the driver repeats no write of its own accord
    server.start()
    address = server.new_database()
    try:
        with proxied(address) as proxy:
            address_file(tmp_path).write_text(f"mongodb://127.0.0.1:{proxy.port}/{address.rpartition('/')[2]}")
            load = Load(tmp_path, executions=200, ticks=40)
            try:
                await load.begin(children, nodes=2)
                before = COUNTERS.lost_answers
                _lose_some_answers(proxy)
                await until(lambda: COUNTERS.lost_answers >= before + ENOUGH, PATIENCE)
                proxy.on_words = lambda line, words: None
                await load.judge()
                print(f"{COUNTERS.lost_answers - before} answers lost; {load}")
            finally:
                await load.end()
    finally:
        server.remove()


def _lose_some_answers(proxy: Proxy) -> None:
    chance = random.Random(11)

    def hear(line: Line, words: bytes) -> None:
        if any(write in words[:64] for write in WRITES) and chance.random() < 0.04:
            line.doomed = True

    def lost(line: Line) -> None:
        COUNTERS.lost_answers += 1
        COUNTERS.cut += 1

    proxy.on_words, proxy.on_lost = hear, lost
