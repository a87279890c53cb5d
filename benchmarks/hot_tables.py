"""Do the hot tables stay small? Runs executions through PostgreSQL and compares the size of `live` early and late.

    python -m benchmarks.hot_tables --executions 2000000

The server is a throwaway one with default autovacuum and fsync on; the application has its default settings but for the
concurrency. Exits with 1 when the tables have more than doubled or when the claim uses another index than before.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time

import psycopg

from mainspring import JobContext, Mainspring
from tests.servers import new_postgres

EARLY = 50_000
BATCH = 10_000
WAITING = 20_000  # never more than this many wait: the tables hold what lives, not a backlog

CLAIM_PLAN = """
    EXPLAIN SELECT id FROM mainspring.live WHERE phase = 1 AND lane = 'default/noop'
    ORDER BY priority DESC, id LIMIT 100
"""
SIZE = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE oid = 'mainspring.live'::regclass"


class Run:
    def __init__(self, url: str, executions: int) -> None:
        self.app = Mainspring(url, concurrency=100)
        self.executions = executions
        self.done = 0
        self.app.job("noop")(self.noop)

    async def noop(self, ctx: JobContext) -> None:
        self.done += 1

    async def drain(self) -> tuple[int, int, float]:
        """The size early and late, in bytes, and executions per second."""
        early = 0
        began = time.perf_counter()
        async with self.app:
            added = 0
            while self.done < self.executions:
                if added < self.executions and added - self.done < WAITING:
                    count = min(BATCH, self.executions - added)
                    await self.app.enqueue_many([("noop", None)] * count)
                    added += count
                if not early and self.done >= EARLY:
                    early = self.size()
                await asyncio.sleep(0.01)
            return early, self.size(), self.executions / (time.perf_counter() - began)

    def size(self) -> int:
        return int(self.ask(SIZE)[0][0])

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.app.settings.database_url) as connection:
            return connection.execute(statement.encode()).fetchall()

    def plan(self) -> str:
        return "\n".join(str(row[0]) for row in self.ask(CLAIM_PLAN))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--executions", type=int, default=2_000_000)
    executions = arguments.parse_args().executions
    logging.disable(logging.INFO)
    server = new_postgres(fsync="on", full_page_writes="on")
    server.start()
    run = Run(server.new_database(), executions)
    early, late, rate = asyncio.run(run.drain())
    plan = run.plan()
    indexed = "live_ready" in plan
    print(f"{executions:,} executions, {rate:,.0f} enqueued and run per second, history kept")
    print(f"live with its indexes: {early / 1e6:.1f} MB after {EARLY:,}, {late / 1e6:.1f} MB after {executions:,}")
    print(f"factor {late / early:.2f} (bar: 2); claim through live_ready: {'yes' if indexed else plan}")
    return 0 if late <= 2 * early and indexed else 1


if __name__ == "__main__":
    sys.exit(main())
