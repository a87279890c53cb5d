"""The scheduler at scale: many jobs due at one instant, and many jobs that only lie there.

    python -m benchmarks.many_jobs                         # all of it, on SQLite and PostgreSQL: some minutes
    python -m benchmarks.many_jobs --part burst --store sqlite

`burst` and `idle` return figures; the default configuration of a fresh install, one process, fsync on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from mainspring import JobContext, Mainspring, cron, every
from mainspring.app.adapters import SystemClock, make_store
from mainspring.config.load import load
from mainspring.model.events import Ticked
from mainspring.model.triggers import Trigger
from tests.servers import new_postgres

PROJECT = Path(__file__).resolve().parent.parent
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SETTLED_AFTER = 8.0  # seconds until a process that has just started is taken for idle
LEAD = 2.0  # seconds between the start of the process and the instant at which all jobs are due
PATIENCE = 120.0
MILLION = 1_000_000

COPY_JOBS = {
    "postgresql": """
        INSERT INTO mainspring.job
        SELECT (jsonb_populate_record(j, jsonb_build_object('name', 'idle-' || n, 'id', 'idle-' || n))).*
        FROM mainspring.job j, generate_series({first}, {last}) n WHERE j.name = 'idle'
    """,
    "incarnations": """
        INSERT INTO mainspring.incarnation (job_id, job)
        SELECT 'idle-' || n, 'idle-' || n FROM generate_series({first}, {last}) n
    """,
    "sqlite": """
        INSERT INTO mainspring_jobs ({columns})
        WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
        SELECT {values} FROM mainspring_jobs j, numbers WHERE j.name = 'idle'
    """,
}


# --- many jobs due at one instant -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Burst:
    """Milliseconds after the instant, and seconds of starting."""

    jobs: int
    first_inserted_ms: float
    last_inserted_ms: float
    first_started_ms: float
    last_started_ms: float
    start_s: float
    start_again_s: float
    process_cpu_s: float
    server_cpu_s: float


async def burst(url: str, jobs: int, server_pid: int | None = None, lead: float | None = None) -> Burst:
    """Declare so many jobs that are all due at one instant, in an empty database, and see when they start. `lead` is
    how many seconds from now that is: enough to start twice."""
    lead = lead or 2 * LEAD + jobs / 500
    instant = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=lead)
    begin = time.perf_counter()
    first = _declaring(url, jobs, instant, [], [])
    await first.start()
    declared = time.perf_counter()
    await first.close()

    started: list[float] = []
    inserted: list[float] = []
    app = _declaring(url, jobs, instant, started, inserted)
    again = time.perf_counter()
    await app.start()
    ready = time.perf_counter()
    assert time.time() < instant.timestamp() - LEAD / 2, "the jobs took too long to declare: raise lead"
    await asyncio.sleep(instant.timestamp() - time.time() - 0.2)
    cpu, server_cpu = time.process_time(), _cpu_of_server(server_pid)
    give_up = time.monotonic() + PATIENCE
    while len(started) < jobs or len(inserted) < jobs:
        assert time.monotonic() < give_up, f"{len(inserted)} inserted, {len(started)} started of {jobs}"
        await asyncio.sleep(0.02)
    cpu, server_cpu = time.process_time() - cpu, _cpu_of_server(server_pid) - server_cpu
    await app.close()
    assert (len(started), len(inserted)) == (jobs, jobs)
    late = [round((at - instant.timestamp()) * 1000, 1) for at in (inserted[0], inserted[-1], started[0], started[-1])]
    return Burst(jobs, *late, round(declared - begin, 2), round(ready - again, 2), round(cpu, 3), round(server_cpu, 2))


def _declaring(url: str, jobs: int, instant: datetime, started: list[float], inserted: list[float]) -> Mainspring:
    app = Mainspring(url)

    @app.job("noop")
    async def noop(ctx: JobContext) -> None:
        started.append(time.time())

    triggers = _triggers(instant)
    for n in range(jobs):
        app.schedule(f"job-{n:07}", noop, triggers[n % len(triggers)], params={})
    app.observe(lambda event: inserted.append(time.time()) if isinstance(event, Ticked) else None)
    return app


def _triggers(instant: datetime) -> list[Trigger]:
    """Half of them by the wall clock of some zone, half by elapsed time."""
    clock = f"{instant.second} {instant.minute}"
    zones = ["UTC", "Europe/Istanbul", "America/New_York", "Asia/Tokyo"]
    return [cron(f"{clock} * * * *", tz=zone) for zone in zones] + [
        every(hours=n, start=instant) for n in (1, 2, 6, 24)
    ]


# --- many jobs that are not due -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Idle:
    """Medians; the shares of one core that the process and the database server take."""

    jobs: int
    due_query_ms: float
    process_cpu_percent: float
    server_cpu_percent: float
    wakeups_per_second: float
    memory_mb: float


def idle(url: str, jobs: int, seconds: float = 20.0, server_pid: int | None = None) -> Idle:
    """What a process costs that has nothing to do, beside so many jobs. Jobs that are there already are kept."""
    asyncio.run(_fill(url, jobs))
    query = asyncio.run(_due_query_ms(url))
    with _process(url) as pid:
        time.sleep(SETTLED_AFTER)
        before, server_before, switches = _cpu(pid), _cpu_of_server(server_pid), _switches(pid)
        began = time.monotonic()
        time.sleep(seconds)
        lasted = time.monotonic() - began
        own, server = _cpu(pid) - before, _cpu_of_server(server_pid) - server_before
        woken, memory = _switches(pid) - switches, _memory_mb(pid)
    percent = [round(100 * spent / lasted, 3) for spent in (own, server)]
    return Idle(jobs, query, *percent, round(woken / lasted, 1), memory)


async def _fill(url: str, jobs: int) -> None:
    """Jobs like one that is declared, due once a day at different times, copied inside the database."""
    app = Mainspring(url)
    app.job("noop")(_noop)
    app.schedule("idle", _noop, every(days=1, start=datetime.now(UTC) + timedelta(days=1)))
    await app.open()
    await app.close()
    columns = {"name": "'idle-' || n", "id": "'idle-' || n", "due": "due + n", "next_run": "next_run + n"}
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            [known] = connection.execute("SELECT count(*) FROM mainspring_jobs").fetchone()
            names = [row[1] for row in connection.execute("PRAGMA table_info(mainspring_jobs)")]
            values = ", ".join(columns.get(name, f"j.{name}") for name in names)
            if known < jobs:
                text = COPY_JOBS["sqlite"].format(columns=", ".join(names), values=values, first=known, last=jobs)
                connection.execute(text)
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as connection:
        [[known]] = connection.execute("SELECT count(*) FROM mainspring.job").fetchall()
        if known < jobs:
            for text in (COPY_JOBS["incarnations"], COPY_JOBS["postgresql"]):
                connection.execute(text.format(first=known, last=jobs).encode())
            connection.execute("UPDATE mainspring.job SET due = due + substr(name, 6)::int WHERE name LIKE 'idle-%'")
            connection.execute("VACUUM ANALYZE mainspring.job")
            connection.execute("VACUUM ANALYZE mainspring.incarnation")


async def _noop(ctx: JobContext) -> None:
    pass


async def _due_query_ms(url: str) -> float:
    store = make_store(load({"database_url": url}), SystemClock())
    await store.open()
    spent = []
    for _ in range(300):
        began = time.perf_counter()
        page = await store.due_jobs(100)
        spent.append((time.perf_counter() - began) * 1000)
        assert not page.jobs
    await store.close()
    return round(statistics.median(spent[50:]), 3)


@contextmanager
def _process(url: str) -> Iterator[int]:
    command = [sys.executable, "-m", "mainspring", "run", "benchmarks.idle_app:app", "--log-level=error"]
    process = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "MAINSPRING_DATABASE_URL": url})
    try:
        yield process.pid
        assert process.poll() is None, "the process ended by itself"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(40)


def _cpu(pid: int) -> float:
    """Seconds of processor time so far, of its threads that live. Counted in nanoseconds, where `stat` has hundredths
    of a second: an idle process uses a few of these in a minute."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _cpu_of_server(pid: int | None) -> float:
    """Of a server and all processes it has started; those that have ended counted with it."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / TICKS_PER_SECOND
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return _cpu(pid) + ended + sum(_cpu(int(child)) for child in children)


def _switches(pid: int) -> int:
    """How often its threads have begun to wait so far: about as often as they were woken."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return total


def _memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024, 1)


# --- on the command line --------------------------------------------------------------------------------------------


class Place:
    """Fresh databases of one kind, and the process of the server behind them."""

    def __init__(self, kind: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="mainspring-bench-"))
        self._server = new_postgres(fsync="on", full_page_writes="on") if kind == "postgres" else None
        if self._server is not None:
            self._server.start()
        self._made = 0

    def new(self) -> str:
        self._made += 1
        return f"sqlite:///{self._folder}/{self._made}.db" if self._server is None else self._server.new_database()

    @property
    def pid(self) -> int | None:
        if self._server is None:
            return None
        return int((self._server.folder / "data" / "postmaster.pid").read_text().splitlines()[0])

    def close(self) -> None:
        if self._server is not None:
            self._server.remove()
        shutil.rmtree(self._folder)


def measure(kind: str, part: str, sizes: list[int], rounds: int, seconds: float) -> list[dict[str, Any]]:
    place, figures = Place(kind), []
    try:
        kept = place.new()
        for size in sizes:
            for _ in range(rounds):
                figure: Any = (
                    asyncio.run(burst(place.new(), size, place.pid))
                    if part == "burst"
                    else idle(kept, size, seconds, place.pid)
                )
                figures.append({"store": kind, "part": part} | asdict(figure))
                print(json.dumps(figures[-1]), flush=True)
    finally:
        place.close()
    return figures


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--store", choices=["sqlite", "postgres"], action="append")
    arguments.add_argument("--part", choices=["burst", "idle"], action="append")
    arguments.add_argument("--jobs", type=int, action="append", help="1000, 10000; idle: up to 1000000")
    arguments.add_argument("--rounds", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=20.0)
    given = arguments.parse_args()
    logging.disable(logging.INFO)
    defaults = {"burst": [1_000, 10_000], "idle": [1_000, 100_000, MILLION]}
    for part in given.part or ["burst", "idle"]:
        for kind in given.store or ["sqlite", "postgres"]:
            measure(kind, part, given.jobs or defaults[part], given.rounds, given.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
