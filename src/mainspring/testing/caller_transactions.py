"""Transactions of the code under test, of which an enqueue with `connection=` is a part.

The kit keeps executions in memory, whatever database the connection leads to. SQLAlchemy reports commits, rollbacks and
savepoints. `sqlite3` does not: there a marked row is written in the transaction, and looked for when it has ended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from ..model.errors import InvalidValue
from ..model.execution import ExecutionRow

ALLOWED = "a session or connection of SQLAlchemy, or a sqlite3.Connection"
MARKS = "mainspring_test_marks"
AWAITED = ("AsyncSession", "AsyncConnection", "async_scoped_session")


class CallerTransactions:
    """Executions that wait for a commit."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    def wait_for(self, connection: Any, rows: Sequence[ExecutionRow], add: Callable[[], object]) -> None:
        """Call `add` when what is open on this connection has been committed."""
        waiting = _Waiting(rows, add, self._waiting)
        self._waiting.append(waiting)
        try:
            waiting.outcome = _watched(connection, waiting)
        except BaseException:
            waiting.dropped()
            raise

    def holder(self, key: str) -> str | None:
        """The execution in an open transaction that holds this unique key."""
        self.look()
        return next((row.id for each in self._waiting for row in each.rows if row.unique_key == key), None)

    def look(self) -> None:
        """Settle what has ended, where nobody reports it."""
        for each in list(self._waiting):
            each.look()


class _Waiting:
    """The executions of one enqueue."""

    def __init__(self, rows: Sequence[ExecutionRow], add: Callable[[], object], among: list[_Waiting]) -> None:
        self.rows, self._add, self._among = rows, add, among
        self.outcome: Callable[[], bool | None] | None = None

    def committed(self) -> None:
        self._among.remove(self)
        self._add()

    def dropped(self) -> None:
        self._among.remove(self)

    def look(self) -> None:
        committed = None if self.outcome is None else self.outcome()
        if committed is not None:
            (self.committed if committed else self.dropped)()


def _watched(connection: Any, waiting: _Waiting) -> Callable[[], bool | None] | None:
    """Watch the transaction. Returns a function to ask whether it was committed (None: it is open), if its driver does
    not report it."""
    if isinstance(connection, sqlite3.Connection):
        return _Marked(connection, [row.id for row in waiting.rows]).committed
    if not any(each.__module__.partition(".")[0] == "sqlalchemy" for each in type(connection).__mro__):
        remedy = "Other drivers do not report commits: test that code against its database"
        raise InvalidValue("connection", type(connection).__name__, f"{ALLOWED} in a test", remedy)
    from .sqlalchemy_connections import watch

    watch(connection, waiting.committed, waiting.dropped)
    return None


def must_be_awaited(connection: Any) -> bool:
    return any(each.__name__ in AWAITED for each in type(connection).__mro__)


class _Marked:
    """A transaction of `sqlite3`, with a row in the caller's database for each execution."""

    def __init__(self, connection: sqlite3.Connection, ids: list[str]) -> None:
        self._connection, self._ids = connection, ids
        listed = connection.execute("PRAGMA database_list").fetchall()
        self._file = next((str(row[2]) for row in listed if row[1] == "main"), "")
        connection.execute(f"CREATE TABLE IF NOT EXISTS {MARKS} (id TEXT)")
        connection.executemany(f"INSERT INTO {MARKS} VALUES (?)", [(id,) for id in ids])

    def committed(self) -> bool | None:
        try:
            if self._connection.in_transaction:
                return None
            return self._found(self._connection)
        except sqlite3.ProgrammingError:  # closed, or of another thread
            if not self._file:
                return False
            with closing(sqlite3.connect(self._file)) as other:
                return self._found(other)

    def _found(self, connection: sqlite3.Connection) -> bool:
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (MARKS,)).fetchone()
        if known is None:
            return False
        row = connection.execute(f"SELECT count(*) FROM {MARKS} WHERE id = ?", (self._ids[0],)).fetchone()
        return bool(row[0])
