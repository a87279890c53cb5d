"""One statement at a time: which failures are repeated, and what the others mean to a user.

Deadlocks and serialisation failures changed nothing: the statement is repeated for some seconds, after short random
waits, because whoever locks the same rows in another order may cause several in a row.
After a lost connection the statement may have been committed: it is repeated only if it may run twice, and only once. A
statement that needs a key which an open transaction is about to take is repeated until that transaction has ended.
Everything else is left to the caller's loop, whose writes are fenced or idempotent.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from ...model.errors import MainspringError, StoreError, StoreUnavailable
from ...model.execution import ExecutionRow
from .connection.pool import Connections, Row, Session, Source
from .executions.rows import executions
from .statements import sql

_LONGEST_PAUSE = 0.25

_ROLLED_BACK = frozenset({"40001", "40P01"})  # serialisation failure, deadlock
_ROLLED_BACK_PATIENCE = 10.0
HELD = "55P03"  # the statement did not get a lock in time
_HELD_PATIENCE = 60.0
_FULL = "53300"  # all connections are in use
_REMEDIES = {
    "28": "check user and password in the address",
    "3D": "create the database first, or name another one in the address",
    "3F": "run `mainspring db migrate`",
    "42P01": "run `mainspring db migrate`",
    "42883": "run `mainspring db migrate`",
    "42501": "grant the rights, or let an administrator run what `mainspring db sql` prints",
    "53300": "raise max_connections on the server, or lower pool_size in the address: each process takes up to "
    "pool_size connections and two more",
    "55P03": "find out which transaction holds the key, and end it",
    "57014": "find out what holds it up, or raise statement_timeout",
}


_STATES_OF_REFUSALS = {
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "authentication failed": "28000",
    "no pg_hba.conf entry": "28000",
    "role .* (does not exist|is not permitted to log in)": "28000",
    "database .* does not exist": "3D000",
    "permission denied for database": "42501",
    "too many (clients|connections)": "53300",
    "remaining connection slots are reserved": "53300",
}
"""A server that refuses a connection says why, but the driver does not pass on the SQLSTATE."""


class KeyHeld(StoreError):
    """An open transaction is about to take a key, or has locked a row, that the statement needs."""


class Database:
    """Runs named statements. `schema` is where their tables and functions are."""

    def __init__(self, source: Source, schema: str, name: str = "PostgreSQL") -> None:
        self._source = source
        self.schema, self.name = schema, name

    @property
    def autocommits(self) -> bool:
        """Whether statements run outside of any transaction block, as VACUUM must: on our own connections."""
        return isinstance(self._source, Connections)

    def session(self) -> AbstractAsyncContextManager[Session]:
        """A transaction: committed at the end, rolled back by an error."""
        return self._source.session()

    async def close(self) -> None:
        await self._source.close()

    async def rows(self, name: str, *values: Any, repeat: bool = False) -> list[Row]:
        return await self.query(sql(name, self.schema), values, repeat=repeat)

    async def row(self, name: str, *values: Any, repeat: bool = False) -> Row:
        return (await self.query(sql(name, self.schema), values, repeat=repeat))[0]

    async def value(self, name: str, *values: Any, repeat: bool = False, patient: bool = True) -> Any:
        """The first column of the first row; None when there is no row."""
        found = await self.query(sql(name, self.schema), values, repeat=repeat, patient=patient)
        return found[0][0] if found else None

    async def executions(self, name: str, *values: Any) -> list[ExecutionRow]:
        return await executions(await self.value(name, *values, repeat=True))

    async def query(self, text: str, values: Sequence[Any], *, repeat: bool = False, patient: bool = True) -> list[Row]:
        """`repeat`: the statement may run twice, because it reads, or recognises rows it has inserted. Without
        `patient` a key that is held is an error at once."""
        lost, tried, began = False, 0, time.monotonic()
        while True:
            try:
                return await self._source.fetch(text, values)
            except Exception as error:
                state, lost_now, waited = state_of(error), is_lost(error), time.monotonic() - began
                held = state == HELD and patient and waited < _HELD_PATIENCE
                rolled_back = state in _ROLLED_BACK and waited < _ROLLED_BACK_PATIENCE
                if not held and not rolled_back and not (lost_now and repeat and not lost):
                    raise explained(error, self.name) from error
                lost, tried = lost or lost_now, tried + 1
            shortest = _LONGEST_PAUSE / 5 if held else 0
            await asyncio.sleep(random.uniform(shortest, max(shortest, min(0.01 * 2**tried, _LONGEST_PAUSE))))


def state_of(error: BaseException) -> str | None:
    """The SQLSTATE of an error, whichever driver raised it."""
    state = getattr(error, "sqlstate", None) or getattr(getattr(error, "orig", None), "sqlstate", None)
    if state is None and type(error).__name__ == "OperationalError":
        state = next((found for words, found in _STATES_OF_REFUSALS.items() if re.search(words, str(error))), None)
    return state if isinstance(state, str) else None


def is_lost(error: BaseException) -> bool:
    """Whether the connection is lost: cut, shut down by the server, or never made."""
    state = state_of(error)
    if state is not None:
        return state.startswith("08") or state in ("57P01", "57P02", "57P03")
    return type(error).__name__ in ("OperationalError", "InterfaceError") or isinstance(error, OSError)


def explained(error: BaseException, name: str = "PostgreSQL") -> BaseException:
    """A driver's error as one of ours, with a remedy where there is one; other errors are returned unchanged.

    `name` is the address of the database, without any password.
    """
    state = state_of(error)
    if isinstance(error, MainspringError) or (state is None and not is_lost(error) and not _is_driver(error)):
        return error
    text = _sentences(str(error)) or type(error).__name__
    if is_lost(error):
        return StoreUnavailable(f"{name} cannot be reached: {text}")
    kind = {HELD: KeyHeld, _FULL: StoreUnavailable}.get(state or "", StoreError)
    remedy = _REMEDIES.get(state or "") or _REMEDIES.get((state or "")[:2])
    return kind(f"{name}: {text}" + (f"; {remedy}" if remedy else ""))


def _sentences(text: str) -> str:
    """The lines of a driver's message as one line, each a sentence of its own."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return " ".join(line if line[-1] in ".:;,?!" else f"{line}." for line in lines).removesuffix(".")


def _is_driver(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("psycopg", "psycopg2", "asyncpg", "sqlalchemy", "django")
