"""What the processes of the SQLite tests do: scripts for `python -c`, and the work they share with the test."""

from __future__ import annotations

from mainspring.model.changes import Change, ClaimRequest
from mainspring.model.execution import Execution, State
from mainspring.stores.sqlite import SqliteStore

CHILD = """
import asyncio, sys, time
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from tests.integration.sqlite_processes import completed, numbered

async def main(path, child, count):
    store = SqliteStore(path, FakeClock())
    await store.open()
    slowest = 0.0
    for n in range(count):
        began = time.monotonic()
        [added] = await store.add([numbered(child * 1_000_000 + n)])
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
from mainspring.model.changes import ExecutionQuery
from mainspring.model.errors import StoreError
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from tests.integration.sqlite_processes import numbered

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
    await store.add([numbered(1)])
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
loop.run_until_complete(store.add([numbered(2)]))
say("parent-added")
say(loop.run_until_complete(store.count(ExecutionQuery(), 10)))
loop.run_until_complete(store.close())
loop.close()
"""


def numbered(number: int) -> Execution:
    id = f"019b7000-0000-7000-8000-{number:012x}"
    return Execution(id=id, job="job", job_id="job-1", handler="work")


def claim_request(owner: str, limit: int = 10) -> ClaimRequest:
    return ClaimRequest(owner=owner, handlers=frozenset({"work"}), queues=None, limit=limit, lease=30.0)


def change(row: Execution, to: State) -> Change:
    """Of a row as it was claimed."""
    seen = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    return Change(**seen, to=to, at=row.due + 1, failures=0, crashes=0)


async def completed(store: SqliteStore, owner: str) -> int:
    """Claim some rows and complete them; how many it was."""
    rows = (await store.exchange([], claim_request(owner))).claimed
    applied = (
        await store.exchange([change(row, State.COMPLETED) for row in rows], None)
    ).applied
    assert all(applied)
    return len(applied)
