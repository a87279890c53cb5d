"""What a worker says of itself at every heartbeat: the names of its jobs are not written again."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from mainspring.model.store.messages import HeartbeatRequest, WorkerInfo
from mainspring.model.values.ids import random_id
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock

NAMES = tuple(f"team.job-{n:05}" for n in range(10_000))
PAGE = 4096


@pytest.mark.req("UPG-1")
async def test_a_heartbeat_writes_only_what_changes(tmp_path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(tmp_path / "jobs.db", clock)
    await store.open()
    log = tmp_path / "jobs.db-wal"
    info = WorkerInfo(
        id=random_id(clock.now(), random.Random(1)), host="here", pid=1, version="0.2.0", handlers=NAMES, declares=NAMES
    )
    store.heartbeat(HeartbeatRequest(worker=info, leases=(), lease=30))
    written = []
    for running in (0, 9, 10, 1_000):
        clock.advance(10)
        size = log.stat().st_size
        info = msgspec.structs.replace(info, running=running, ended={"größe": (running, 1)})
        store.heartbeat(HeartbeatRequest(worker=info, leases=(), lease=30))
        written.append((log.stat().st_size - size) // PAGE)
        assert await store.workers() == [msgspec.structs.replace(info, seen=clock.now())]
    assert max(written) <= 4, written
    await store.close()
