"""Bring a database file to the schema of this release. Any number of processes may start at once: the versions that
are missing are applied in one transaction, under the write lock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ...model.errors import SchemaMismatch
from .statements import versions
from .threads.connect import Hurry, begin, explained, no_hurry, patiently


def migrate(connection: sqlite3.Connection, path: str, patience: float, hurry: Hurry = no_hurry) -> None:
    """Apply the versions that are missing; refuse a schema that is newer than this release.

    An up-to-date schema is only read, without the write lock, so a store may open inside a transaction of its caller.
    Even the read may have to wait while another process creates or removes the write-ahead log.
    """
    newest = versions()[-1][0]
    if patiently(lambda: version_of(connection), path, patience, hurry) == newest:
        return
    begin(connection, path, patience, hurry)
    try:
        _apply_missing(connection, version_of(connection))
        _refuse_newer(version_of(connection), newest)
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise explained(error, path) from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the schema in this file; 0 if it has none of our tables."""
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mainspring_meta'").fetchone()
    if known is None:
        return 0
    [version] = connection.execute("SELECT value FROM mainspring_meta WHERE key = 'schema'").fetchone()
    return int(version)


def script(after: int = 0) -> str:
    """What `migrate` runs on a file of version `after`, for an administrator to read and apply."""
    return "\n".join(text + _record_version(number) for number, text in versions() if number > after)


def _apply_missing(connection: sqlite3.Connection, current: int) -> None:
    for number, text in versions():
        if number > current:
            for statement in split(text + _record_version(number)):
                connection.execute(statement)


def _record_version(number: int) -> str:
    return f"\nUPDATE mainspring_meta SET value = {number} WHERE key = 'schema';\n"


def _refuse_newer(found: int, newest: int) -> None:
    if found > newest:
        remedy = "update this installation of mainspring, or use a database of its own"
        raise SchemaMismatch(found, newest, remedy)


def split(text: str) -> Iterator[str]:
    """The statements of a script. (`executescript` would commit the open transaction.)"""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
