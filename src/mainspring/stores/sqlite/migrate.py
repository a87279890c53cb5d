"""Bring a database file to the schema of this release. Any number of processes may start at once: the steps that are
missing are applied in one transaction, under the write lock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from ...model.store.messages import WorkerInfo
from ...model.store.schema import SchemaAt, SchemaSteps
from .statements import VERSIONS, versions
from .threads.connect import Hurry, begin, explained, no_hurry, patiently

STEPS = SchemaSteps(base=2, newest=max(VERSIONS), oldest=3)
PLACE = "database"


def migrate(
    connection: sqlite3.Connection,
    path: str,
    patience: float,
    hurry: Hurry = no_hurry,
    *,
    contract: bool = False,
) -> None:
    """Apply the expanding steps that are missing, and with `contract` the contracting ones after them; refuse a schema
    that a newer release has contracted.

    An up-to-date schema is only read, without the write lock, so a store may open inside a transaction of its caller.
    Even the read may have to wait while another process creates or removes the write-ahead log.
    """
    found = patiently(lambda: schema_at(connection), path, patience, hurry)
    STEPS.refuse_newer(found, PLACE)
    if not STEPS.missing(found, contract=contract):
        return
    begin(connection, path, patience, hurry)
    try:
        found = schema_at(connection)
        STEPS.refuse_newer(found, PLACE)
        _apply(connection, STEPS.missing(found, contract=contract))
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise explained(error, path) from error
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def check(connection: sqlite3.Connection, path: str, patience: float, hurry: Hurry = no_hurry) -> None:
    """For a store that must not migrate."""
    found = patiently(lambda: schema_at(connection), path, patience, hurry)
    STEPS.refuse_newer(found, PLACE)
    STEPS.refuse_older(found)


def schema_at(connection: sqlite3.Connection) -> SchemaAt:
    """Where the schema of this file stands."""
    known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mainspring_meta'").fetchone()
    if known is None:
        return SchemaAt()
    rows = connection.execute("SELECT key, value FROM mainspring_meta WHERE key IN ('schema', 'expanded')")
    found = dict(rows.fetchall())
    return SchemaAt(found["schema"], max(found["schema"], found.get("expanded", 0)))


def workers(connection: sqlite3.Connection) -> list[WorkerInfo]:
    """The workers, whatever the schema of the file is."""
    if not schema_at(connection).required:
        return []
    rows = connection.execute("SELECT info, seen FROM mainspring_workers").fetchall()
    return [replace(msgspec.json.decode(info, type=WorkerInfo), seen=seen) for info, seen in rows]


def script(after: int = 0, *, contract: bool = False) -> str:
    """What `migrate` runs on a file at step `after`, for an administrator to read and apply."""
    texts = dict(versions())
    missing = STEPS.missing(SchemaAt(after, after), contract=contract)
    return "\n".join(texts[number] + _record(number) for number in missing)


def _apply(connection: sqlite3.Connection, numbers: list[int]) -> None:
    texts = dict(versions())
    for number in numbers:
        for statement in split(texts[number] + _record(number)):
            connection.execute(statement)


def _record(number: int) -> str:
    key = "schema" if STEPS.raises_required(number) else "expanded"
    return (
        f"\nINSERT INTO mainspring_meta VALUES ('{key}', {number})"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value;\n"
    )


def split(text: str) -> Iterator[str]:
    """The statements of a script. (`executescript` would commit the open transaction.)"""
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
