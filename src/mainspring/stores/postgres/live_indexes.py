"""Indexes of the live table that this release replaces with better ones.

On a table full of work that takes seconds. So it is not part of the transaction of a migration, which would block all
writers. The indexes are built concurrently, by `mainspring db migrate` or by the first process that maintains the
indexes (see maintenance.py). Until then everything works along the old ones. New databases get the new ones with the
table.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from .database import HELD, Database, explained, state_of

_LOCK_SPACE = 0x6C697665  # "live"


class Replacement(NamedTuple):
    old: str
    new: str
    definition: str

    def build(self, schema: str) -> str:
        return f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {self.new} ON {schema}.live {self.definition}"

    def drop_old(self, schema: str) -> str:
        return f"DROP INDEX CONCURRENTLY IF EXISTS {schema}.{self.old}"

    def drop_new(self, schema: str) -> str:
        return f"DROP INDEX CONCURRENTLY IF EXISTS {schema}.{self.new}"


# The new indexes also hold the due time or the lane, so that rows are counted by lane without reading the table.
REPLACEMENTS = (
    Replacement("live_ready", "live_ready_due", "(lane, priority DESC, id) INCLUDE (due) WHERE phase = 1"),
    Replacement("live_scheduled", "live_scheduled_lane", "(due) INCLUDE (lane) WHERE phase = 0"),
)
# This transaction holds only the lock. A concurrent build waits until every older snapshot is gone, so this transaction
# must not keep one: at READ COMMITTED, a statement without parameters gives its snapshot up when it ends.
_TURN = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '100ms'; "
_VALID = """
    SELECT c.relname::text, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = $1::text::regclass
"""


async def replace_live_indexes(db: Database) -> None:
    """Does nothing while another process is doing it. An interrupted build leaves an invalid index, which is dropped
    and built again."""
    key = zlib.crc32(db.schema.encode()) & 0x7FFFFFFF
    try:
        async with db.session() as session:
            await session.script(_TURN + f"SELECT pg_advisory_xact_lock({_LOCK_SPACE}, {key})")
            found = await db.query(_VALID, (f"{db.schema}.live",), repeat=True)
            for statement in missing(db.schema, {str(name): bool(valid) for name, valid in found}):
                await db.query(statement, ())
    except Exception as error:
        if state_of(error) != HELD:
            raise explained(error, db.name) from error


def missing(schema: str, valid: dict[str, bool]) -> Iterator[str]:
    """The statements that are left to run, given the existing indexes and whether each is valid."""
    for index in REPLACEMENTS:
        if valid.get(index.new) is False:
            yield index.drop_new(schema)
        if not valid.get(index.new):
            yield index.build(schema)
        if index.old in valid:
            yield index.drop_old(schema)


def script(schema: str) -> str:
    """The same as a script for an administrator. These statements cannot run inside a transaction."""
    return "\n".join(f"{index.build(schema)};\n{index.drop_old(schema)};" for index in REPLACEMENTS)
