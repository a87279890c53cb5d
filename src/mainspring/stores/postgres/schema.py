"""The schema is the sum of the numbered migrations, applied under a lock: any number of starting processes is safe.

The lock belongs to the transaction, so that nothing is left behind when a migrator dies, and a pooler is no obstacle.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from ...model.errors import SchemaMismatch
from .connection.pool import Session, Source
from .database import explained
from .executions.literals import texts
from .statements import migrations

_LOCK_SPACE = 0x6D61696E  # "main"
_LISTED = 14  # the migration that makes the list of jobs

# A search by snapshot. What to_regclass says may be remembered from before the lock: another migrator's tables are
# created meanwhile, and nothing tells a session that only waits for an advisory lock.
_KNOWN = """
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1::text AND c.relname = 'meta'
    )
"""


class Status(msgspec.Struct, frozen=True):
    """Where a database stands: `current` is 0 when there is nothing of ours."""

    schema: str
    current: int
    newest: int

    @property
    def pending(self) -> list[int]:
        return [number for number, _ in migrations(self.schema) if number > self.current]


async def migrate(source: Source, schema: str, name: str) -> Status:
    """Bring the schema up to this release; refuse one that is newer."""
    try:
        async with source.session() as session:
            found = await status(session, schema)
            if found.pending:
                await _lock(session, schema)
                await _apply(session, schema, (await status(session, schema)).pending)
                found = await status(session, schema)
    except Exception as error:
        raise explained(error, name) from error
    refuse_newer(found)
    return found


async def status_of(source: Source, schema: str, name: str) -> Status:
    """Without changing anything."""
    try:
        async with source.session() as session:
            return await status(session, schema)
    except Exception as error:
        raise explained(error, name) from error


async def status(session: Session, schema: str) -> Status:
    newest = migrations(schema)[-1][0]
    [[known]] = await session.fetch(_KNOWN, (schema,))
    if not known:
        return Status(schema, 0, newest)
    rows = await session.fetch(f"SELECT value FROM {schema}.meta WHERE key = 'schema'")
    return Status(schema, int(rows[0][0]) if rows else 0, newest)


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


async def _lock(session: Session, schema: str) -> None:
    key = zlib.crc32(schema.encode()) & 0x7FFFFFFF
    await session.fetch("SELECT pg_advisory_xact_lock($1::int, $2::int)", (_LOCK_SPACE, key))


async def _apply(session: Session, schema: str, wanted: Sequence[int]) -> None:
    if wanted and not await session.fetch("SELECT 1 FROM pg_namespace WHERE nspname = $1::text", (schema,)):
        await session.script(f"CREATE SCHEMA {schema}")
    for number, text in migrations(schema):
        if number in wanted:
            await session.script(text)
            await session.script(_record(schema, number))
            if number == _LISTED:
                await _in_small_letters(session, schema)


async def _in_small_letters(session: Session, schema: str) -> None:
    """A database may know the small letters of ASCII only; what lists of jobs search in goes by those of Python."""
    wide = f"SELECT name, search FROM {schema}.job_list WHERE octet_length(search) > char_length(search)"
    found = await session.fetch(wide)
    if found:
        text = f"""
            UPDATE {schema}.job_list l SET search = g.search
            FROM unnest($1::text::text[], $2::text::text[]) g (name, search) WHERE l.name = g.name
        """
        await session.fetch(text, (texts([name for name, _ in found]), texts([search.lower() for _, search in found])))


def _record(schema: str, number: int) -> str:
    return f"UPDATE {schema}.meta SET value = {number} WHERE key = 'schema'"
