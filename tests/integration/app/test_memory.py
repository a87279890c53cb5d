"""Large payloads are given back to the system: a process of its own runs many, and says how much memory it keeps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mongo_server import mongo
from tests.servers import postgres

SCRIPT = """
import asyncio, sys
from mainspring import Mainspring
from mainspring.app.memory import resident
from tests.support import until

SIZE, COUNT = 200_000, 600
app = Mainspring(sys.argv[1], log_level="critical")

@app.job("big", max_attempts=1)
async def big(data: str) -> int:
    return len(data)

async def run(count, size):
    for start in range(0, count, 100):
        added = [await app.enqueue("big", {"data": "x" * size}) for _ in range(100)]
    for each in added:
        await app.wait(each)

async def main():
    async with app:
        await run(100, 10)
        before = resident()
        await run(COUNT, SIZE)
        await until(lambda: resident() - before < 30_000_000, "within 30 MB of before")
        print("given back")

asyncio.run(main())
"""


@pytest.mark.req("NUM-1")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mongo"])
def test_the_memory_of_large_payloads_is_given_back(kind: str, tmp_path: Path) -> None:
    url = {
        "sqlite": lambda: f"sqlite:///{tmp_path / 'jobs.db'}",
        "postgres": lambda: postgres().new_database(),
        "mongo": lambda: mongo("standalone").new_database(),
    }[kind]()
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, url], capture_output=True, text=True, cwd=root, timeout=120, check=False
    )
    assert done.stdout == "given back\n", done.stderr[-2_000:]
