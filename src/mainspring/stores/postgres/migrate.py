"""Bring a database to the schema of this release, and say where one stands.

The schema has two parts. Tables, types and indexes change by numbered versions, which are applied once, in order
(`statements.VERSIONS`). Functions and views are replaced whenever their text differs from the text applied last: the
table `definition` holds a checksum of each. Whatever cannot be replaced in place (other parameters of a function,
other columns of a view, a function that is gone) is dropped by a numbered version; definitions are applied after it.

Everything happens in one transaction under an advisory lock, so any number of processes may start at once, a process
that dies leaves nothing behind, and a pooler is no obstacle.

Processes of two releases may share a database during a deployment. Each definition records the release that applied
it, and a process never replaces one of a newer release than its own: the newest release wins, whichever process starts
last. A release keeps its functions callable by the release before it, or raises the version number; a process refuses
a version it does not know.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import msgspec

from ...model.errors import SchemaMismatch
from ...version import VERSION
from .connection.pool import Row, Session, Source
from .database import explained
from .executions.literals import numbers
from .statements import Definition, definitions, versions

_LOCK_SPACE = 0x6D61696E  # "main"
_RELEASE = numbers(re.findall(r"\d+", VERSION)[:3])  # {0,1,0}: compared number by number

# A search by snapshot. to_regclass may answer from a cache filled before the lock was taken: a session that only waits
# for an advisory lock does not notice the tables that another one creates meanwhile.
_KNOWN = """
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1::text AND c.relname = 'meta'
    )
"""
# Functions may call each other before all of them exist.
_UNCHECKED = "SET LOCAL check_function_bodies = off"


class Status(msgspec.Struct, frozen=True):
    """Where a database stands: `current` is 0 when it has none of our tables. `outdated` names the functions and views
    that differ from those of this release."""

    schema: str
    current: int
    newest: int
    outdated: frozenset[str] = frozenset()

    @property
    def pending(self) -> list[int]:
        return [number for number, _ in versions(self.schema) if number > self.current]


async def migrate(source: Source, schema: str, name: str) -> Status:
    """Bring the schema up to this release; refuse one that is newer."""
    try:
        async with source.session() as session:
            found = await status(session, schema)
            if found.pending or found.outdated:
                await _lock(session, schema)
                await _apply(session, await status(session, schema))
                found = await status(session, schema)
    except Exception as error:
        raise explained(error, name) from error
    if found.current > found.newest:
        remedy = "update this installation of mainspring, or use a schema of its own"
        raise SchemaMismatch(found.current, found.newest, remedy)
    return found


async def status_of(source: Source, schema: str, name: str) -> Status:
    """The same without changing anything."""
    try:
        async with source.session() as session:
            return await status(session, schema)
    except Exception as error:
        raise explained(error, name) from error


async def status(session: Session, schema: str) -> Status:
    newest = versions(schema)[-1][0]
    [[known]] = await session.fetch(_KNOWN, (schema,))
    if not known:
        return Status(schema, 0, newest, frozenset(one.name for one in definitions(schema)))
    rows = await session.fetch(f"SELECT value FROM {schema}.meta WHERE key = 'schema'")
    current = int(rows[0][0]) if rows else 0
    if current > newest:
        return Status(schema, current, newest)
    in_place = f"SELECT name, checksum, release <= $1::text::int[] FROM {schema}.definition"
    applied = await session.fetch(in_place, (_RELEASE,))
    return Status(schema, current, newest, _outdated(definitions(schema), applied))


def _outdated(wanted: Sequence[Definition], applied: Sequence[Row]) -> frozenset[str]:
    """Those to be applied: what a newer release has put there stays."""
    in_place = {name: checksum for name, checksum, _ in applied}
    newer = {name for name, _, ours in applied if not ours}
    return frozenset(one.name for one in wanted if one.name not in newer and in_place.get(one.name) != one.checksum)


def script(schema: str, after: int = 0) -> str:
    """What `migrate` runs on a database of version `after`, for an administrator to read and apply."""
    parts = ["BEGIN;", f"CREATE SCHEMA IF NOT EXISTS {schema};"]
    for number, text in versions(schema):
        if number > after:
            parts += [f"-- version {number}", text.strip(), _record_version(schema, number)]
    parts += [_UNCHECKED + ";", *_texts(schema, definitions(schema)), f"SELECT {schema}.keep_partitions();"]
    return "\n\n".join([*parts, "COMMIT;"]) + "\n"


async def _lock(session: Session, schema: str) -> None:
    key = zlib.crc32(schema.encode()) & 0x7FFFFFFF
    await session.fetch("SELECT pg_advisory_xact_lock($1::int, $2::int)", (_LOCK_SPACE, key))


async def _apply(session: Session, found: Status) -> None:
    schema = found.schema
    if found.pending and not await session.fetch("SELECT 1 FROM pg_namespace WHERE nspname = $1::text", (schema,)):
        await session.script(f"CREATE SCHEMA {schema}")
    for number, text in versions(schema):
        if number in found.pending:
            await session.script(text + _record_version(schema, number))
    changed = [one for one in definitions(schema) if one.name in found.outdated]
    if changed:
        await session.script("\n".join([_UNCHECKED + ";", *_texts(schema, changed)]))
    if found.pending:
        await session.script(f"SELECT {schema}.keep_partitions()")


def _record_version(schema: str, number: int) -> str:
    return f"UPDATE {schema}.meta SET value = {number} WHERE key = 'schema';"


def _texts(schema: str, changed: Sequence[Definition]) -> list[str]:
    rows = ",\n".join(f"    ('{one.name}', '{one.checksum}', '{_RELEASE}')" for one in changed)
    record = (
        f"INSERT INTO {schema}.definition (name, checksum, release) VALUES\n{rows}\n"
        "ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, release = excluded.release;"
    )
    return [*(one.text.strip() for one in changed), record]
