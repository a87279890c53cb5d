"""The PostgreSQL store passes the conformance suite on a real server; the second handle is a second store.

The server's own clock is what a store goes by: here the schema's `now_micros` reads a table, and the FakeClock of each
test writes it.
"""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from functools import cache, partial

import psycopg

from mainspring.core.ports import Clock, Store
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.executions import exchange
from mainspring.stores.postgres.executions.literals import Literals
from mainspring.stores.postgres.jobs import rows
from mainspring.stores.postgres.migrate import script
from mainspring.testing.clock import FakeClock
from mainspring.testing.conformance import StoreConformance
from tests.conformance.short_ways import Way, counted
from tests.servers import postgres, postgres_versions

TABLES = (
    *("job", "incarnation", "purge", "live", "history", "log", "totals", "delta", "numbers"),
    *("worker", "lock", "audit", "entry", "trigger_totals", "limit_state", "label"),
)
FAKE_CLOCK = """
    CREATE TABLE mainspring.test_clock (now bigint NOT NULL);
    INSERT INTO mainspring.test_clock VALUES (0);
    CREATE OR REPLACE FUNCTION mainspring.now_micros() RETURNS bigint LANGUAGE sql
    AS $$ SELECT now FROM mainspring.test_clock $$;
"""


class Ground:
    """One database whose clock the test moves, emptied for each test."""

    def __init__(self, version: str) -> None:
        self.url = postgres(version).new_database()
        self._connection = psycopg.connect(self.url, autocommit=True)
        atexit.register(self._connection.close)
        self._connection.execute(script("mainspring").encode())
        self._connection.execute(FAKE_CLOCK.encode())

    def clear(self, clock: Clock) -> None:
        self._connection.execute(";".join(f"DELETE FROM mainspring.{table}" for table in TABLES).encode())
        self.set_clock(clock)

    def set_clock(self, clock: Clock) -> None:
        self._connection.execute("UPDATE mainspring.test_clock SET now = %s", (clock.now(),))

    def follow(self, clock: FakeClock) -> None:
        """From now on the server's clock goes with this one."""
        for name in ("advance", "jump"):
            setattr(clock, name, partial(self._move, clock, getattr(clock, name)))

    def _move(self, clock: FakeClock, step: partial[None], seconds: float) -> None:
        step(seconds)
        self.set_clock(clock)


@cache
def ground(version: str) -> Ground:
    return Ground(version)


class PostgresSuite(StoreConformance):
    version = "18"
    scripts = 7

    @asynccontextmanager
    async def open_store(self, clock: Clock) -> AsyncIterator[Store]:
        assert isinstance(clock, FakeClock)
        place = ground(self.version)
        place.clear(clock)
        place.follow(clock)
        async with opened(place.url) as store:
            yield store

    @asynccontextmanager
    async def second_store(self, store: Store, clock: Clock) -> AsyncIterator[Store]:
        async with opened(ground(self.version).url) as other:
            yield other

    def short_ways(self) -> AbstractContextManager[Mapping[str, int]]:
        def is_completed(statement: str, settled: Literals) -> bool:
            return statement == "exchange_completed" and settled[0] is not None

        endings = {  # the second part of an answer lists what was applied; None stands for all
            "usual endings": lambda answer, _, how, settled, __: is_completed(how, settled) and answer[1] is None,
            "usual endings refused": lambda answer, _, how, settled, __: is_completed(how, settled) and answer[1] == "",
            "some of them": lambda answer, _, how, settled, __: is_completed(how, settled) and bool(answer[1]),
        }
        ticks = {
            "usual ticks": lambda written, *_: any(one.won for one in written),
            "usual ticks refused": lambda written, *_: not all(one.won for one in written),
        }
        return counted(Way(exchange, "_exchange", endings), Way(rows, "write_ticks", ticks))


class TestPostgres18(PostgresSuite):
    pass


if "15" in postgres_versions():

    class TestPostgres15(PostgresSuite):
        version = "15"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
