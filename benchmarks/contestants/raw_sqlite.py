"""The least that SQLite can be asked to do for the same promise: every claim and every ending of a batch is synced.

Ended jobs stay in the table with their new state, which is a cheaper history than any other.
"""

from __future__ import annotations

import sqlite3
import time

from benchmarks.command import main
from benchmarks.tally import Tally

SCHEMA = """
    CREATE TABLE job (id INTEGER PRIMARY KEY, state INTEGER NOT NULL DEFAULT 0, body TEXT NOT NULL);
    CREATE INDEX job_ready ON job (id) WHERE state = 0;
"""
CLAIM = """
    UPDATE job SET state = 1 WHERE id IN (SELECT id FROM job WHERE state = 0 ORDER BY id LIMIT 100) RETURNING id, body
"""
FINISH = "UPDATE job SET state = 2 WHERE id = ?"
ADD = "INSERT INTO job (body) VALUES ('{}')"


def connected(url: str) -> sqlite3.Connection:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def prepare(url: str) -> None:
    connected(url).executescript(SCHEMA)


def fill(url: str, items: int) -> None:
    connection = connected(url)
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(ADD, [()] * items)
    connection.execute("COMMIT")


def work(url: str, tally: Tally) -> None:
    tally.ready_and_wait()
    connection = connected(url)
    while True:
        connection.execute("BEGIN IMMEDIATE")
        claimed = connection.execute(CLAIM).fetchall()
        connection.execute("COMMIT")
        if not claimed:
            break
        ended = []
        for key, _ in claimed:
            tally.hit()
            ended.append((key,))
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(FINISH, ended)
        connection.execute("COMMIT")
    tally.linger()


def state(url: str) -> dict[str, int]:
    connection = connected(url)
    [left] = connection.execute("SELECT count(*) FROM job WHERE state < 2").fetchone()
    [done] = connection.execute("SELECT count(*) FROM job WHERE state = 2").fetchone()
    return {"left": left, "done": done}


def enqueue(url: str, items: int, way: str) -> dict[str, float]:
    connection = connected(url)
    began = time.perf_counter()
    if way == "bulk":
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(ADD, [()] * items)
        connection.execute("COMMIT")
    else:
        for _ in range(items):
            connection.execute(ADD)
    return {"items": items, "seconds": time.perf_counter() - began}


if __name__ == "__main__":
    main(prepare=prepare, fill=fill, work=work, state=state, enqueue=enqueue)
