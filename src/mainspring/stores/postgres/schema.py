"""The schema is the sum of the numbered migrations, applied under a lock: any number of starting processes is safe.

The lock belongs to the transaction, so that nothing is left behind when a migrator dies, and a pooler is no obstacle.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec
import psycopg

from ...model.errors import SchemaMismatch
from .connections import Row
from .database import explained
from .statements import migrations

_LOCK_SPACE = 0x6D61696E  # "main"


class Status(msgspec.Struct, frozen=True):
    """Where a database stands: `current` is 0 when there is nothing of ours."""

    schema: str
    current: int
    newest: int

    @property
    def pending(self) -> list[int]:
        return [number for number, _ in migrations(self.schema) if number > self.current]


async def migrate(connection: psycopg.AsyncConnection[Row], schema: str) -> Status:
    """Bring the schema up to this release; refuse one that is newer."""
    try:
        before = await status(connection, schema)
        if before.pending:
            async with connection.transaction():
                await _lock(connection, schema)
                await _apply(connection, schema, (await status(connection, schema)).pending)
        after = await status(connection, schema)
    except psycopg.Error as error:
        raise explained(error) from error
    refuse_newer(after)
    return after


async def status(connection: psycopg.AsyncConnection[Row], schema: str) -> Status:
    newest = migrations(schema)[-1][0]
    cursor = await connection.execute("SELECT to_regclass($1) IS NOT NULL", (f"{schema}.meta",))
    row = await cursor.fetchone()
    if row is None or not row[0]:
        return Status(schema, 0, newest)
    cursor = await connection.execute(f"SELECT value FROM {schema}.meta WHERE key = 'schema'")
    row = await cursor.fetchone()
    return Status(schema, 0 if row is None else int(row[0]), newest)


def refuse_newer(found: Status) -> None:
    if found.current > found.newest:
        remedy = "update this installation of mainspring, or use a schema of its own"
        raise SchemaMismatch(found.current, found.newest, remedy)


def script(schema: str, after: int = 0) -> str:
    """All that `migrate` would run, for an administrator to read and apply."""
    steps = [(number, text) for number, text in migrations(schema) if number > after]
    parts = ["BEGIN;", f"CREATE SCHEMA IF NOT EXISTS {schema};"]
    for number, text in steps:
        parts += [f"-- migration {number}", text.strip(), _record(schema, number) + ";"]
    return "\n\n".join([*parts, "COMMIT;"]) + "\n"


async def _lock(connection: psycopg.AsyncConnection[Row], schema: str) -> None:
    key = zlib.crc32(schema.encode()) & 0x7FFFFFFF
    await connection.execute("SELECT pg_advisory_xact_lock($1::int, $2::int)", (_LOCK_SPACE, key))


async def _apply(connection: psycopg.AsyncConnection[Row], schema: str, wanted: Sequence[int]) -> None:
    """Without parameters, so that a file of many statements goes over as it is."""
    steps = [(number, text) for number, text in migrations(schema) if number in wanted]
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    for number, text in steps:
        await connection.execute(text.encode())
        await connection.execute(_record(schema, number).encode())


def _record(schema: str, number: int) -> str:
    return f"UPDATE {schema}.meta SET value = {number} WHERE key = 'schema'"
