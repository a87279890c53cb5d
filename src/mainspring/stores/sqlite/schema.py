"""The schema is the sum of the numbered migrations. Applied under the write lock: two starting processes are safe."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ...model.errors import SchemaMismatch
from .statements import migrations
from .threads.connect import Hurry, begin, explained, no_hurry, patiently


def migrate(connection: sqlite3.Connection, path: str, patience: float, hurry: Hurry = no_hurry) -> None:
    """Bring the schema up to this release; refuse one that is newer.

    A schema that is up to date needs no lock: the first use may be inside a transaction the caller holds open. Even to
    read may have to wait a moment, while another process makes the log of the file, or puts it away.
    """
    steps = migrations()
    newest = steps[-1][0]
    if patiently(lambda: _version(connection), path, patience, hurry) == newest:
        return
    begin(connection, path, patience, hurry)
    try:
        _apply(connection, [(number, text) for number, text in steps if number > _version(connection)])
        _refuse_newer(_version(connection), newest)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise explained(error, path) from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _apply(connection: sqlite3.Connection, steps: list[tuple[int, str]]) -> None:
    connection.create_function("mainspring_lower", 1, str.lower, deterministic=True)  # SQLite's own knows ASCII only
    for number, text in steps:
        for statement in split(text):
            connection.execute(statement)
        connection.execute("UPDATE mainspring_meta SET value = ? WHERE key = 'schema'", (number,))


def _refuse_newer(found: int, newest: int) -> None:
    if found > newest:
        remedy = "update this installation of mainspring, or use a database of its own"
        raise SchemaMismatch(found, newest, remedy)


def _version(connection: sqlite3.Connection) -> int:
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mainspring_meta'").fetchone()
    if known is None:
        return 0
    [version] = connection.execute("SELECT value FROM mainspring_meta WHERE key = 'schema'").fetchone()
    return int(version)


def split(text: str) -> Iterator[str]:
    """The statements of a script, one by one: `executescript` would commit."""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
