"""What a tenant costs: python -m benchmarks.fan_out [memory] [sqlite] [postgres] [mongo] [--rounds 3]

A parent with 1,000 tenants and one with 10,000, in turn, with a handler that does nothing: wall time and CPU time from
the trigger to the last follow-up, per tenant. The cost of one may not grow with how many there are.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from mainspring import JobContext, Mainspring
from mainspring.core.ports import Store
from tests.mongo_server import mongo
from tests.servers import postgres

FEW, MANY = 1_000, 10_000
PATIENCE = 600.0


def application(address: str, concurrency: int) -> Mainspring:
    app = Mainspring(address, concurrency=concurrency, log_level="ERROR", stop_timeout=5)

    @app.job("fan-out", tenants=lambda: (f"tenant-{number}" for number in range(MANY)), overlap="allow")
    async def nothing(ctx: JobContext) -> None: ...

    return app


async def measured(app: Mainspring, store: Store, tenants: int) -> tuple[float, float]:
    """Wall and CPU time of one parent, until nothing of it is left to do, in microseconds per tenant."""
    names = [f"tenant-{number}" for number in range(tenants)]
    wall, cpu = time.perf_counter(), time.process_time()
    parent = await app.wait(await app.trigger("fan-out", tenants=names), timeout=PATIENCE)
    while await store.todo(1):  # noqa: ASYNC110  nobody tells when the last follow-up is done
        await asyncio.sleep(0.05)
    spent = time.perf_counter() - wall, time.process_time() - cpu
    assert parent.result == {"total": tenants, "success": tenants, "failed": 0}, parent
    return spent[0] / tenants * 1e6, spent[1] / tenants * 1e6


async def compared(address: str, rounds: int, concurrency: int) -> dict[str, Any]:
    """As many tenants in all of either kind, one after the other."""
    app = application(address, concurrency)
    few: list[tuple[float, float]] = []
    many: list[tuple[float, float]] = []
    async with app:
        store = (await app._runtime.engine()).store
        await measured(app, store, FEW)
        for _ in range(rounds):
            few += [await measured(app, store, FEW) for _ in range(3)]
            many.append(await measured(app, store, MANY))
    middle = [statistics.median(each[n] for each in kind) for kind in (few, many) for n in (0, 1)]
    wall, cpu = middle[2] / middle[0], middle[3] / middle[1]
    return {"wall": (middle[0], middle[2], wall), "cpu": (middle[1], middle[3], cpu)}


def address_of(store: str, folder: Path) -> str:
    """Servers are those of the tests: started for this, on this machine."""
    if store == "postgres":
        return postgres().new_database()
    if store == "mongo":
        return mongo("replica_set").new_database()
    return {"memory": "memory://", "sqlite": f"sqlite:///{folder / 'fan-out.db'}"}[store]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stores", nargs="*", default=["memory", "sqlite", "postgres", "mongo"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for store in given.stores:
            found = asyncio.run(compared(address_of(store, Path(folder)), given.rounds, given.concurrency))
            for kind, (few, many, ratio) in found.items():
                print(f"{store:12} {kind:5} {few:8.1f} us at {FEW:,}  {many:8.1f} us at {MANY:,}  x {ratio:.2f}")


if __name__ == "__main__":
    main()
