"""Redis flushed, frozen and killed under three processes that lock on it: ticks and endings do not depend on it."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from tests.crash.handlers import UNDISTURBED, Witnessed
from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.redis_node import build_guarded
from tests.crash.ticking import with_ticking_jobs
from tests.valkey_server import Valkey, new_valkey

NODES = 3
JOBS = 4
TICKS = 40
PERIOD = timedelta(milliseconds=70)


@pytest.mark.req("LCK-1", "LCK-3", "REL-1", "TIM-1")
async def test_no_fault_of_redis_doubles_a_tick_or_an_ending(tmp_path: Path, processes: Processes) -> None:
    server = new_valkey()
    server.start()
    url = server.url(socket_timeout=0.3, socket_connect_timeout=0.3)
    undisturbed = [f"{name}={value}" for name, value in UNDISTURBED.items()]
    app = build_guarded(tmp_path, redis_url=server.url(socket_timeout=20))
    await app.open()
    started = [processes.start("redis_node", f"redis_url={url}", *undisturbed) for _ in range(NODES)]
    await until(lambda: _taking_part(app), PATIENCE)
    await with_ticking_jobs(lambda: build_guarded(tmp_path, redis_url=url), JOBS, TICKS, PERIOD)
    wanted = 0
    for fault in (_flushed, _frozen, _killed, _flushed):
        wanted += 20
        await app.enqueue_many([("guarded", {"n": n}) for n in range(20)])
        await until(lambda wanted=wanted: len(app.ledger.lines("locked")) >= wanted - 15, PATIENCE, "locks are taken")
        await fault(server, app)
    await until(lambda: _completed(app) >= JOBS * TICKS + wanted, PATIENCE, "all has run, faults or not")
    await until(lambda: len(app.ledger.lines("ticked")) >= JOBS * TICKS, PATIENCE, "who ticked has said so")
    _judge(app, wanted)
    assert [process.alive for process in started] == [True] * NODES
    assert await app.try_lock("afterwards", ttl=1)
    await app.close()
    server.remove()


async def _flushed(server: Valkey, app: Witnessed) -> None:
    for _ in range(3):
        server.flush()
        await asyncio.sleep(0.05)


async def _frozen(server: Valkey, app: Witnessed) -> None:
    server.freeze()
    await _some_ticks(app)
    server.thaw()


async def _killed(server: Valkey, app: Witnessed) -> None:
    server.kill()
    await _some_ticks(app)
    server.start()


async def _some_ticks(app: Witnessed) -> None:
    """Ticks go on without Redis, unless all of them have been."""
    wanted = min(len(app.ledger.lines("began")) + 5, JOBS * TICKS)
    await until(lambda: len(app.ledger.lines("began")) >= wanted, PATIENCE, "ticks go on without Redis")


async def _taking_part(app: Witnessed) -> bool:
    return len(await app.workers()) == NODES


def _completed(app: Witnessed) -> int:
    return len(app.ledger.lines("accepted", state="completed"))


def _judge(app: Witnessed, guarded: int) -> None:
    ticked = Counter((line["job"], line["tick"]) for line in app.ledger.lines("ticked"))
    runs = Counter((line["job"], line["tick"]) for line in app.ledger.lines("began"))
    assert ticked == runs
    assert ticked.total() == len(ticked) == JOBS * TICKS
    accepted = Counter(line["id"] for line in app.ledger.lines("accepted", state="completed"))
    assert accepted.total() == len(accepted) == JOBS * TICKS + guarded
    locked = app.ledger.lines("locked")
    assert {line["id"] for line in locked} < set(accepted)
    assert len({line["fence"] for line in locked}) == len(locked) >= guarded
