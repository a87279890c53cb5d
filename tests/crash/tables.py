"""The database as it is, past all of our own code."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

_IN_POSTGRES = {
    "mainspring_live": "mainspring.live",
    "mainspring_history": "mainspring.history",
    "mainspring_jobs": "mainspring.job",
}


def address_file(folder: Path) -> Path:
    return folder / "database"


def address_in(folder: Path) -> str | None:
    """The address of the test's database, unless it is the file in its folder."""
    file = address_file(folder)
    return file.read_text() if file.exists() else None


def table(folder: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Written for SQLite, without more than the names of tables that differ."""
    if (address := address_in(folder)) is not None:
        return _postgres_table(address, query, values)
    with closing(sqlite3.connect(folder / "crash.db")) as connection:
        return connection.execute(query, values).fetchall()


def _postgres_table(address: str, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    for name, theirs in _IN_POSTGRES.items():
        query = query.replace(name, theirs)
    with psycopg.connect(address.partition("?")[0]) as connection:
        rows = connection.execute(query.replace("?", "%s").encode(), values).fetchall()
    return [tuple(str(value) if isinstance(value, UUID) else value for value in row) for row in rows]


def is_locked(folder: Path) -> bool:
    """Whether somebody is in the middle of a transaction that writes, and stays there for a while. A server ends what
    it was sent, whatever becomes of the client."""
    if address_in(folder) is not None:
        return False
    with closing(sqlite3.connect(folder / "crash.db", isolation_level=None, timeout=0.5)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False
