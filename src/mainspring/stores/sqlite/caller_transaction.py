"""Enqueue inside a transaction that the caller holds open on a connection of their own (ENQ-2)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.ports import Clock
from ...model.errors import InvalidValue
from ...model.execution import ExecutionRow
from ...model.store.messages import Added
from .executions.insert import add
from .statements import sql
from .threads.connect import explained
from .transaction import Transaction

_ALLOWED = "an open sqlite3.Connection, or a blocking session or connection of SQLAlchemy"


def add_in(path: str, clock: Clock, connection: Any, executions: Sequence[ExecutionRow]) -> list[Added]:
    """As `add`, through the caller's connection. Nothing is committed; on an error, nothing is inserted."""
    connection = _of_sqlalchemy(connection)
    if not isinstance(connection, sqlite3.Connection):
        raise InvalidValue("connection", connection, _ALLOWED)
    try:
        with _text_as_str(connection):
            _check(path, connection)
            connection.execute(sql("write_lock"))
            return _add(connection, clock, executions)
    except sqlite3.Error as error:
        raise explained(error, path) from error


def _of_sqlalchemy(connection: Any) -> Any:
    """The connection of the driver inside a blocking session or connection of SQLAlchemy; anything else as it is. It is
    known by the name of its package, so that nothing is imported that the application does not use."""
    kinds = type(connection).__mro__
    theirs = any(kind.__module__.partition(".")[0] == "sqlalchemy" for kind in kinds)
    if not theirs or any(kind.__name__.lower().startswith("async") for kind in kinds):
        return connection
    within = connection.connection  # a method of sessions
    pooled = within().connection if callable(within) else within
    return getattr(pooled, "driver_connection", connection)


def _add(connection: sqlite3.Connection, clock: Clock, executions: Sequence[ExecutionRow]) -> list[Added]:
    with _savepoint(connection):
        tx = Transaction(connection, clock)
        added = add(tx, executions)
        tx.flush()
        return added


def _check(path: str, connection: sqlite3.Connection) -> None:
    file = next((file for _, name, file in connection.execute("PRAGMA database_list") if name == "main"), "")
    if not file or not os.path.exists(file) or not os.path.samefile(file, path):
        raise InvalidValue("connection", file or ":memory:", f"a connection to {path}", "Use the same database")
    if not connection.in_transaction and not _begins_by_itself(connection):
        remedy = "Execute BEGIN IMMEDIATE first, or enqueue without a connection"
        raise InvalidValue("connection", connection, "a connection with an open transaction", remedy)


def _begins_by_itself(connection: sqlite3.Connection) -> bool:
    """Whether Python opens a transaction before the first change, as it does by default."""
    return connection.isolation_level is not None and getattr(connection, "autocommit", -1) is not True


@contextmanager
def _text_as_str(connection: sqlite3.Connection) -> Iterator[None]:
    """Read text as `str`, whatever the caller's own queries use."""
    chosen = connection.text_factory
    connection.text_factory = str
    try:
        yield
    finally:
        connection.text_factory = chosen


@contextmanager
def _savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT mainspring_add")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK TO mainspring_add")
        raise
    finally:
        connection.execute("RELEASE mainspring_add")
