"""How fast is the SQLite store by itself, without an engine around it? A bare sqlite3 loop runs beside it.

    python -m benchmarks.sqlite_store --executions 30000 --rounds 3

`drain` settles 100 completed executions and claims the next 100 in one exchange, until nothing is left, with
synchronous=FULL and history kept; `cpu` is what the event loop's thread and the writer's thread used per execution.
The bare loop claims and finishes 100 rows of one small table per commit and keeps no history. `--lanes` spreads the
executions over so many handlers, `--unique` gives each a unique key, `--future` and `--excluded` put so many rows in
the way which nobody may claim, `--overlap` runs so many exchanges at once, `--work` keeps the event loop busy for so
many microseconds per execution, as handlers and the engine would, `--memory` measures the memory store.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mainspring.core.rules import transitions
from mainspring.model.execution import ExecutionRow, Outcome, encode_policy
from mainspring.model.policies import RunPolicy
from mainspring.model.store.messages import Change, ClaimRequest
from mainspring.model.time.instants import Micros
from mainspring.model.values.ids import random_id
from mainspring.stores.memory import MemoryStore
from mainspring.stores.sqlite import SqliteStore

BATCH = 100
OWNER = "0199aaaa-0000-7000-8000-000000000001"
POLICY = encode_policy(RunPolicy())
FAR = 10**15  # microseconds: a due time nobody here will live to see

Store = SqliteStore | MemoryStore


class MachineClock:
    def now(self) -> Micros:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()


class Measured(NamedTuple):
    rate: float
    loop_cpu: float  # microseconds per execution
    writer_cpu: float

    def __str__(self) -> str:
        return f"{self.rate:9,.0f}/s   cpu: loop {self.loop_cpu:5.2f}, writer {self.writer_cpu:5.2f} us"


class Meter:
    """Wall-clock time and processor time of the two threads that share the work."""

    def __init__(self) -> None:
        writer = next((t for t in threading.enumerate() if t.name == "mainspring-writer"), None)
        self._writer = None if writer is None else time.pthread_getcpuclockid(writer.ident or 0)
        self._began = self._read()

    def _read(self) -> tuple[float, float, float]:
        writer = 0.0 if self._writer is None else time.clock_gettime(self._writer)
        return time.perf_counter(), time.thread_time(), writer

    def of(self, count: int) -> Measured:
        wall, loop, writer = (end - begin for begin, end in zip(self._began, self._read(), strict=True))
        return Measured(count / wall, loop / count * 1e6, writer / count * 1e6)


def executions(count: int, lanes: int = 1, **fields: Any) -> list[ExecutionRow]:
    chance, now = random.Random(), MachineClock().now()
    ids = [random_id(now + n, chance) for n in range(count)]
    return [
        ExecutionRow(
            id=id,
            job=f"noop-{n % lanes}",
            job_id=f"0199aaaa-0000-7000-8000-{n % lanes:012x}",
            handler=fields.get("handler", f"noop-{n % lanes}"),
            trace_id=id.replace("-", ""),
            policy=POLICY,
            created=now,
            due=fields.get("due", now),
            unique_key=f"key-{id}" if fields.get("unique") else None,
        )
        for n, id in enumerate(ids)
    ]


def completed(row: ExecutionRow, now: Micros) -> Change:
    return transitions.after_attempt(row, Outcome(end="completed", started=now, ended=now + 15, worker=OWNER))


async def fill(store: Store, rows: Sequence[ExecutionRow]) -> Measured:
    meter = Meter()
    for start in range(0, len(rows), 1_000):
        await store.add(rows[start : start + 1_000])
    return meter.of(max(len(rows), 1))


async def drain(store: Store, count: int, lanes: int, overlap: int, work: float) -> Measured:
    """Processor time of making the changes is the engine's own and is taken out of the loop's."""
    handlers = frozenset(f"noop-{n}" for n in range(lanes))
    meter, deciding, done, turn = Meter(), 0.0, 0, 0

    async def exchanges() -> None:
        nonlocal deciding, done, turn
        changes: list[Change] = []
        while True:
            turn += 1
            request = ClaimRequest(owner=OWNER, handlers=handlers, queues=None, limit=BATCH, lease=30.0, turn=turn)
            reply = await store.exchange(changes, request)
            assert all(reply.applied)
            done += len(changes)
            if not reply.claimed:
                return
            began = time.thread_time()
            changes = [completed(row, reply.now) for row in reply.claimed]
            while time.thread_time() - began < work * len(changes):
                pass
            deciding += time.thread_time() - began

    await asyncio.gather(*(exchanges() for _ in range(overlap)))
    assert done == count, (done, count)
    measured = meter.of(count)
    return measured._replace(loop_cpu=measured.loop_cpu - deciding / count * 1e6)


async def one_by_one(store: Store, count: int) -> Measured:
    rows = executions(count, handler="later")
    meter = Meter()
    for row in rows:
        await store.add([row])
    return meter.of(count)


async def together(store: Store, count: int, callers: int = 100) -> Measured:
    """Many coroutines that enqueue one execution after the other."""
    rows = executions(count, handler="later")
    meter = Meter()

    async def caller(mine: Sequence[ExecutionRow]) -> None:
        for row in mine:
            await store.add([row])

    await asyncio.gather(*(caller(rows[n::callers]) for n in range(callers)))
    return meter.of(count)


class Bare:
    """What sqlite3 alone can do: one table, one index, statements of 100 rows."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute("CREATE TABLE q (id INTEGER PRIMARY KEY, state INTEGER, priority INTEGER, payload TEXT)")
        self.db.execute("CREATE INDEX ready ON q (priority, id) WHERE state = 0")

    def fill(self, count: int) -> float:
        began = time.perf_counter()
        for _ in range(0, count, 1_000):
            self.db.execute("BEGIN IMMEDIATE")
            self.db.executemany("INSERT INTO q (state, priority, payload) VALUES (0, 0, ?)", [("{}",)] * 1_000)
            self.db.execute("COMMIT")
        return count / (time.perf_counter() - began)

    def drain(self, count: int) -> float:
        began, ids = time.perf_counter(), []
        claim = (
            "UPDATE q SET state = 1 WHERE id IN (SELECT id FROM q WHERE state = 0 ORDER BY priority, id LIMIT 100)"
            " RETURNING id, payload"
        )
        while True:
            self.db.execute("BEGIN IMMEDIATE")
            if ids:
                self.db.execute(f"UPDATE q SET state = 2 WHERE id IN ({','.join('?' * len(ids))})", ids)
            ids = [id for id, _ in self.db.execute(claim).fetchall()]
            self.db.execute("COMMIT")
            if not ids:
                return count / (time.perf_counter() - began)

    def one_by_one(self, count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            self.db.execute("INSERT INTO q (state, priority, payload) VALUES (0, 0, '{}')")
        return count / (time.perf_counter() - began)


async def round_(options: argparse.Namespace, path: Path) -> dict[str, float]:
    bare = Bare(path / "bare.db")
    found = {"raw fill": bare.fill(options.executions), "raw drain": bare.drain(options.executions)}
    found["raw one by one"] = bare.one_by_one(options.singles)
    bare.db.close()
    store: Store = MemoryStore(MachineClock()) if options.memory else SqliteStore(path / "store.db", MachineClock())
    await store.open()
    try:
        await fill(store, executions(options.excluded, handler="excluded"))
        await fill(store, executions(options.future, due=FAR * 10))
        rows = executions(options.executions, options.lanes, unique=options.unique)
        measured = {"fill": await fill(store, rows)}
        measured["drain"] = await drain(store, options.executions, options.lanes, options.overlap, options.work / 1e6)
        measured["one by one"] = await one_by_one(store, options.singles)
        measured["100 callers"] = await together(store, options.singles * 10)
    finally:
        await store.close()
    for name, figure in measured.items():
        raw = found.get(f"raw {name}")
        beside = "" if raw is None else f"   raw {raw:9,.0f}/s, ratio {figure.rate / raw:.2f}"
        print(f"  {name:12} {figure}{beside}")
        found[name] = figure.rate
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=30_000)
    parser.add_argument("--singles", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--overlap", type=int, default=1)
    parser.add_argument("--work", type=float, default=0.0)
    parser.add_argument("--future", type=int, default=0)
    parser.add_argument("--excluded", type=int, default=0)
    parser.add_argument("--unique", action="store_true")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(asyncio.run(round_(options, Path(folder))))
        print()
    ratios = [found["drain"] / found["raw drain"] for found in rounds]
    middle = statistics.median(found["drain"] for found in rounds)
    print(f"median drain {middle:,.0f}/s, {statistics.median(ratios):.2f} of the bare loop")


if __name__ == "__main__":
    main()
