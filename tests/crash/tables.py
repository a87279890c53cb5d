"""The database file as it is, past all of our own code."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def table(folder: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "crash.db")) as connection:
        return connection.execute(query, values).fetchall()


def is_locked(folder: Path) -> bool:
    """Whether somebody is in the middle of a transaction that writes, and stays there for a while."""
    with closing(sqlite3.connect(folder / "crash.db", isolation_level=None, timeout=0.5)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False
