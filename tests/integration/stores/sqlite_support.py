"""What the SQLite tests share: stores and connections on one file, and scripts for processes of their own."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.store.messages import Change, ClaimRequest, ExecutionQuery
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from tests.support import DEADLINE

ALL = ExecutionQuery(limit=10_000)

CHILD = """
import asyncio, sys, time
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from tests.integration.stores.sqlite_support import completed, execution

async def main(path, child, count):
    store = SqliteStore(path, FakeClock())
    await store.open()
    slowest = 0.0
    for n in range(count):
        began = time.monotonic()
        [added] = await store.add([execution(child * 1_000_000 + n)])
        slowest = max(slowest, time.monotonic() - began)
        assert added.outcome == "added", added
        if n % 10 == 9:
            await completed(store, f"child-{child}")
    await store.close()
    print(f"child {child}: {slowest * 1000:.1f} ms")

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""

FORKING = """
import asyncio, os, sys
from mainspring.model.store.messages import ExecutionQuery
from mainspring.model.errors import StoreError
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from tests.integration.stores.sqlite_support import execution

def say(*words):
    print(*words, flush=True)

async def in_child(store, path):
    try:
        await store.jobs()
    except StoreError as error:
        say("child-refused" if "forked" in str(error) else error)
    await store.close()
    say("child-closed")
    await store.open()
    await store.add([execution(1)])
    await store.close()
    say("child-added")

async def main(path):
    store = SqliteStore(path, FakeClock())
    await store.open()
    store.listen(lambda topic: None)
    return store

path = sys.argv[1]
loop = asyncio.new_event_loop()
store = loop.run_until_complete(main(path))
child = os.fork()
if child == 0:
    asyncio.run(in_child(store, path))
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
loop.run_until_complete(store.add([execution(2)]))
say("parent-added")
say(loop.run_until_complete(store.count(ExecutionQuery(), 10)))
loop.run_until_complete(store.close())
loop.close()
"""

FORKING_OFTEN = """
import asyncio, os, sys, threading
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from tests.integration.stores.sqlite_support import execution

def inherited(path):
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return any(path in os.readlink(link) for link in links if os.path.islink(link))

def fork_often(path, children):
    for _ in range(100):
        child = os.fork()
        if child == 0:
            os._exit(inherited(path))
        children.append(child)

async def main(path):
    store, children = SqliteStore(path, FakeClock(), watch_interval=0.01), []
    await store.open()
    store.listen(lambda topic: None)
    threads = [threading.Thread(target=fork_often, args=(path, children)) for _ in range(2)]
    for thread in threads:
        thread.start()
    fork_often(path, children)
    for thread in threads:
        thread.join()
    print("inherited:", sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children), flush=True)
    [added] = await store.add([execution(1)])
    print("added:", added.outcome, flush=True)
    await store.close()

asyncio.run(main(sys.argv[1]))
"""


@asynccontextmanager
async def opened(path: Path, **options: Any) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, FakeClock(), **{"watch_interval": 0.01, **options})
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def connected(path: Path, **options: Any) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, **options)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def write_lock_held(path: Path) -> Iterator[None]:
    """As by another process, between its BEGIN and its COMMIT."""
    with connected(path, isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def execution(number: int, **fields: Any) -> ExecutionRow:
    id = f"019b7000-0000-7000-8000-{number:012x}"
    return ExecutionRow(**{"id": id, "job": "job", "job_id": "job-1", "handler": "work", **fields})


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    root = Path(__file__).parents[3]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root)


def output(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=DEADLINE * 2)
    assert process.returncode == 0, error
    return out


def claim_request(owner: str, limit: int = 10) -> ClaimRequest:
    return ClaimRequest(owner=owner, handlers=frozenset({"work"}), queues=None, limit=limit, lease=30.0)


def change(row: ExecutionRow, to: State) -> Change:
    """Of a row as it was claimed."""
    seen = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    return Change(**seen, to=to, at=row.due + 1, failures=0, crashes=0)


async def completed(store: SqliteStore, owner: str) -> int:
    """Claim some rows and complete them; how many it was."""
    rows = (await store.exchange([], claim_request(owner))).claimed
    applied = (await store.exchange([change(row, State.COMPLETED) for row in rows], None)).applied
    assert all(applied)
    return len(applied)
