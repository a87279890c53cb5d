"""What the PostgreSQL store costs, without the engine around it, beside bare loops on the same server.

    python -m benchmarks.postgres_store [drain add latency] [--version 15] [--rows 20000] [--rounds 3]

`drain` settles and claims in batches of 100 through one, two and three loops that overlap; `add` enqueues one by one,
from 20 callers at once and in bulk; `latency` is the way from an enqueue in one process to its claim in another. Each
is interleaved with the bare statements a hand-written queue would send. CPU is in microseconds per execution: the
client's is this process's, the server's that of all its processes. Figures of a busy machine compare, no more.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from mainspring.core.ports import Topic
from mainspring.core.rules.transitions import after_attempt
from mainspring.model.execution import ExecutionRow, Outcome, encode_policy
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import ClaimRequest, JobWrite
from mainspring.model.values.ids import random_id
from mainspring.stores.postgres import PostgresStore
from tests.servers import Postgres, new_postgres

CHANCE = random.Random(1)
BATCH = 100
OWNER = "a-worker-with-a-name-of-usual-length"
POLICY = encode_policy(JobSpec(handler="noop").run_policy())
Step = Callable[[], Awaitable[int]]

RAW_TABLES = """
    CREATE TABLE raw_queue (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state smallint NOT NULL DEFAULT 0,
        created timestamptz NOT NULL DEFAULT now(), started timestamptz, payload text NOT NULL);
    CREATE INDEX raw_ready ON raw_queue (id) WHERE state = 0;
    CREATE TABLE raw_history (id bigint PRIMARY KEY, created timestamptz, started timestamptz, finished timestamptz,
        payload text NOT NULL);
"""
RAW_INSERT = "INSERT INTO raw_queue (payload) VALUES ($1::text)"
RAW_MANY = "INSERT INTO raw_queue (payload) SELECT * FROM unnest($1::text[])"
RAW_EXCHANGE = """
    WITH gone AS (DELETE FROM raw_queue WHERE id = ANY ($1::bigint[]) RETURNING id, created, started, payload),
    moved AS (INSERT INTO raw_history SELECT id, created, started, now(), payload FROM gone)
    UPDATE raw_queue SET state = 1, started = now()
    WHERE id IN (SELECT id FROM raw_queue WHERE state = 0 ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED)
    RETURNING id, payload
"""
PAYLOAD = '{"job":"noop","params":{"number":12345},"policy":"' + "x" * 180 + '"}'


class Meter:
    """Rate and CPU of the client and of the server since it was made."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._wall, self._client, self._work = time.perf_counter(), time.process_time(), self._server_cpu()

    def told(self, count: int) -> tuple[float, float, float]:
        client, work = time.process_time() - self._client, self._server_cpu() - self._work
        return count / (time.perf_counter() - self._wall), client * 1e6 / count, work * 1e6 / count

    def _server_cpu(self) -> float:
        assert self._server._process is not None
        parent = self._server._process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return sum(_seconds(Path(f"/proc/{pid}/schedstat")) for pid in children)


def _seconds(file: Path) -> float:
    try:
        return int(file.read_text().split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


class Bench:
    def __init__(self, server: Postgres, url: str, rows: int) -> None:
        self.server, self.url, self.rows = server, url, rows
        self.store = PostgresStore(url)
        self.figures: dict[str, list[tuple[float, float, float]]] = {}
        self.lines: list[psycopg.AsyncConnection[Any]] = []

    async def open(self) -> None:
        await self.store.open()
        job = Job(name="noop", id="0199-job", declared=encode_spec(JobSpec(handler="noop")))
        await self.store.write_jobs([JobWrite(job=job, seen_version=None)])
        with psycopg.connect(self.url) as connection:
            connection.execute(RAW_TABLES.encode())
        self.lines = [await connected(self.url) for _ in range(20)]

    async def close(self) -> None:
        for line in self.lines:
            await line.close()
        await self.store.close()

    def raw(self, number: int = 0) -> psycopg.AsyncRawCursor[Any]:
        return psycopg.AsyncRawCursor(self.lines[number], row_factory=tuple_row)

    async def measured(self, name: str, step: Step) -> None:
        meter = Meter(self.server)
        self.figures.setdefault(name, []).append(meter.told(await step()))

    def show(self) -> None:
        print(f"{'':28}{'per second':>12}{'client µs':>11}{'server µs':>11}")
        for name, rounds in self.figures.items():
            rate, client, work = (statistics.median(part) for part in zip(*rounds, strict=True))
            print(f"{name:28}{rate:12,.0f}{client:11.1f}{work:11.1f}")

    # --- drain ------------------------------------------------------------------------------------------------------
    async def drain(self) -> None:
        for loops in (1, 2, 3):
            await self.fill()
            await self.measured(f"exchange, {loops} loops", lambda loops=loops: self.exchange(loops))
        await self.raw_fill()
        await self.measured("raw, 1 loop", self.raw_exchange)
        while await self.store.fold(10_000):
            pass

    async def fill(self) -> None:
        for _ in range(0, self.rows, 1_000):
            await self.store.add([execution() for _ in range(1_000)])

    async def exchange(self, loops: int) -> int:
        return sum(await asyncio.gather(*(self._loop() for _ in range(loops))))

    async def _loop(self) -> int:
        """What the worker does, without running anything."""
        request = ClaimRequest(owner=OWNER, handlers=frozenset({"noop"}), queues=None, limit=BATCH, lease=30.0)
        changes: list[Any] = []
        count = 0
        while True:
            answer = await self.store.exchange(changes, request)
            assert all(answer.applied)
            if not answer.claimed and not changes:
                return count
            now = answer.now + 1_000
            outcome = Outcome(end="completed", started=answer.now, ended=now, worker=OWNER, cpu_ms=0.021)
            changes = [after_attempt(row, outcome) for row in answer.claimed]
            count += len(changes)

    async def raw_fill(self) -> None:
        async with self.raw() as cursor:
            await cursor.execute(RAW_MANY, ([PAYLOAD] * self.rows,))

    async def raw_exchange(self) -> int:
        count, ids = 0, [0]
        async with self.raw() as cursor:
            while ids:
                await cursor.execute(RAW_EXCHANGE, (ids,))
                ids = [row[0] for row in await cursor.fetchall()]
                count += len(ids)
        return count

    # --- add --------------------------------------------------------------------------------------------------------
    async def add(self) -> None:
        few, many = self.rows // 20, self.rows
        await self.measured("one by one", lambda: self.one_by_one(few))
        await self.measured("raw, one by one", lambda: self.raw_one_by_one(1, few))
        await self.measured("20 callers", lambda: self.callers(many))
        await self.measured("20 callers, unique keys", lambda: self.callers(many, unique=True))
        await self.measured("raw, 20 connections", lambda: self.raw_one_by_one(20, many // 4))
        rows = [execution() for _ in range(many)]
        await self.measured("bulk of 1,000", lambda: self.bulk(rows, 1_000))
        rows2 = [execution() for _ in range(many)]
        await self.measured("bulk, all at once", lambda: self.bulk(rows2, many))
        await self.measured("raw unnest of 1,000", self.raw_bulk)
        with psycopg.connect(self.url) as connection:
            connection.execute("TRUNCATE mainspring.live, raw_queue")

    async def one_by_one(self, count: int) -> int:
        for _ in range(count):
            await self.store.add([execution()])
        return count

    async def callers(self, count: int, unique: bool = False) -> int:
        async def one() -> None:
            for _ in range(count // 20):
                row = execution()
                if unique:
                    row = execution(unique_key=row.id)
                await self.store.add([row])

        await asyncio.gather(*(one() for _ in range(20)))
        return count

    async def bulk(self, rows: Sequence[ExecutionRow], size: int) -> int:
        for start in range(0, len(rows), size):
            await self.store.add(rows[start : start + size])
        return len(rows)

    async def raw_one_by_one(self, connections: int, count: int) -> int:
        async def one(number: int) -> None:
            async with self.raw(number) as cursor:
                for _ in range(count // connections):
                    await cursor.execute(RAW_INSERT, (PAYLOAD,))

        await asyncio.gather(*(one(number) for number in range(connections)))
        return count

    async def raw_bulk(self) -> int:
        async with self.raw() as cursor:
            for _ in range(0, self.rows, 1_000):
                await cursor.execute(RAW_MANY, ([PAYLOAD] * 1_000,))
        return self.rows

    # --- latency ----------------------------------------------------------------------------------------------------
    async def latency(self) -> None:
        """Two stores stand for two processes; the claim is the engine's first step after the wake-up."""
        other = PostgresStore(self.url)
        await other.open()
        woken, listening = asyncio.Event(), asyncio.Event()

        def hear(topic: Topic) -> None:
            (listening if topic is Topic.ANY else woken).set()

        other.listen(hear)
        await listening.wait()
        request = ClaimRequest(owner=OWNER, handlers=frozenset({"noop"}), queues=None, limit=BATCH, lease=30.0)
        ours, raw = [], []
        for _ in range(100):
            woken.clear()
            began = time.perf_counter()
            await self.store.add([execution()])
            await woken.wait()
            while not (await other.exchange([], request)).claimed:
                pass
            ours.append(time.perf_counter() - began)
            raw.append(await self.raw_latency())
            await asyncio.sleep(0.06)
        await other.close()
        for name, times in (("enqueue to claim", ours), ("raw", raw)):
            ordered = sorted(1000 * one for one in times)
            print(f"{name:28}p50 {ordered[50]:.2f} ms, p99 {ordered[98]:.2f} ms")

    async def raw_latency(self) -> float:
        insert, listen, claim = self.lines[:3]
        await listen.execute("LISTEN raw")

        async def claimed() -> None:
            async for _ in listen.notifies(stop_after=1):
                pass
            async with psycopg.AsyncRawCursor(claim, row_factory=tuple_row) as cursor:
                await cursor.execute(RAW_EXCHANGE, ([],))
                assert await cursor.fetchall()

        waiting = asyncio.create_task(claimed())
        await asyncio.sleep(0)
        began = time.perf_counter()
        async with insert.transaction(), psycopg.AsyncRawCursor(insert) as cursor:
            await cursor.execute(RAW_INSERT, (PAYLOAD,))
            await cursor.execute("NOTIFY raw")
        await waiting
        return time.perf_counter() - began


async def connected(url: str) -> psycopg.AsyncConnection[Any]:
    return await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)


def execution(**fields: Any) -> ExecutionRow:
    """As `plan.new_execution` makes them."""
    now = time.time_ns() // 1000
    id = random_id(now, CHANCE)
    plain = {"id": id, "job": "noop", "job_id": "0199-job", "handler": "noop", "trace_id": id.replace("-", "")}
    return ExecutionRow(
        **{**plain, "params": '{"number":12345}', "policy": POLICY, "created": now, "due": now, **fields}
    )


async def run(parts: Iterable[str], version: str, rows: int, rounds: int, fsync: str) -> None:
    server = new_postgres(version, fsync=fsync, full_page_writes="on")
    server.start()
    bench = Bench(server, server.new_database(), rows)
    await bench.open()
    for _ in range(rounds):
        for part in parts:
            await getattr(bench, part)()
    bench.show()
    await bench.close()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("parts", nargs="*", default=["drain", "add", "latency"])
    arguments.add_argument("--version", default="15")
    arguments.add_argument("--rows", type=int, default=20_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--fsync", default="on", help="off: on a machine whose disk is busy, to compare CPU")
    given = arguments.parse_args()
    asyncio.run(run(given.parts, given.version, given.rows, given.rounds, given.fsync))


if __name__ == "__main__":
    main()
