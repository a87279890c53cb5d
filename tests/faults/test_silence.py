"""Every connection of a process falls silent at once, and nobody is told: a firewall has forgotten them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mainspring import State
from mainspring.core.views.execution import row_of
from tests.crash.handlers import build, go
from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tables import address_file
from tests.faults.counters import COUNTERS
from tests.faults.proxy import proxied

LEASE = 16.0
STATEMENT_TIMEOUT = 1.0


@pytest.mark.req("WRK-3", "WRK-4")
async def test_a_worker_whose_connections_all_fall_silent_recovers(
    tmp_path: Path, address: str, processes: Processes
) -> None:
    """In time for what runs in it to keep its lease."""
    app = build(tmp_path)  # straight to the server
    with proxied(address) as proxy:
        address_file(tmp_path).write_text(f"{proxy.address(address)}?statement_timeout={STATEMENT_TIMEOUT:g}s")
        try:
            await app.open()
            worker = processes.node("worker", lease=LEASE, heartbeat=1, poll_interval=1, rescue_interval=1)
            long = await app.enqueue("wait")
            assert long is not None
            await until(lambda: app.ledger.lines("began", id=long.id), PATIENCE)
            for line in list(proxy.lines):
                line.blackhole()
                COUNTERS.cut += 1
            silent = time.monotonic()
            seen = row_of(await app.get(long.id)).lease or 0
            short = await app.enqueue("work")
            assert short is not None

            await until(lambda: app.ledger.lines("began", id=short.id), PATIENCE)
            print(f"claims again {time.monotonic() - silent:.1f} s after its connections fell silent")

            async def renewed() -> bool:
                return (row_of(await app.get(long.id)).lease or 0) > seen + LEASE * 0.3e6

            await until(renewed, PATIENCE)
            print(f"beats again {time.monotonic() - silent:.1f} s after")
            go(tmp_path, 1).touch()
            await until(lambda: app.all_in(State.COMPLETED, [long, short]), PATIENCE)
            assert [attempt.end for attempt in (await app.get(long.id)).attempts] == ["completed"]
            assert app.ledger.lines("rescued") == []
            assert worker.alive
        finally:
            await app.close()
