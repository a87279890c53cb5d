"""Bring a database to the schema of this release, and say where one stands.

The schema has two parts. Tables, types and indexes change by numbered steps, which are applied once, in order
(`statements.VERSIONS`; `model.store.schema` says what they may do). Functions and views are replaced whenever their
text differs from the text applied last: the table `definition` holds a checksum of each. Whatever cannot be replaced in
place (other parameters of a function, other columns of a view, a function that is gone) is dropped by a contracting
step; definitions are applied after it.

Everything happens in one transaction under an advisory lock, so any number of processes may start at once, a process
that dies leaves nothing behind, and a pooler is no obstacle. What takes long on a large table is no part of it: see
live_indexes.py. Whoever needs a table queues up behind a migration that waits for it; so a migration waits for moments
only, lets the others go on, and tries again.

Processes of two releases may share a database during a deployment. Each definition records the release that applied
it, and a process never replaces one of a newer release than its own: the newest release wins, whichever process starts
last. A release keeps its functions callable by the release before it; what replaces a function with other parameters
gets a name of its own.
"""

from __future__ import annotations

import asyncio
import random
import time
import zlib
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ...model.errors import SchemaMismatch
from ...model.store.messages import WorkerInfo
from ...model.store.schema import SchemaAt, SchemaSteps, release_numbers
from ...model.time.instants import Micros
from ...version import VERSION
from . import live_indexes
from .connection.pool import Row, Session, Source
from .database import HELD, KeyHeld, explained, state_of
from .executions.literals import numbers
from .statements import VERSIONS, Definition, definitions, versions

_LOCK_SPACE = 0x6D61696E  # "main"
_RELEASE = numbers(release_numbers(VERSION))  # {0,1,0}: compared number by number

# A search by snapshot. to_regclass may answer from a cache filled before the lock was taken: a session that only waits
# for an advisory lock does not notice the tables that another one creates meanwhile.
_KNOWN = """
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1::text AND c.relname = 'meta'
    )
"""
STEPS = SchemaSteps(base=2, newest=max(VERSIONS), oldest=3)
PLACE = "schema"
_TRIAGE = 3  # older databases have jobs without labels, and the old indexes of the live table
PATIENCE = 60.0
_PAUSE = (0.2, 1.0)  # in which those that waited behind the migration go on
_BRIEFLY = "SET LOCAL lock_timeout = '200ms'"
_DEADLOCK = "40P01"  # with statements of a running process; nothing was changed
_HELD_BY_OTHERS = (
    f"the schema was not changed: for {PATIENCE:.0f} s other transactions have held a table or view that the migration "
    "needs; end those that are open for long (pg_stat_activity shows them), and run `mainspring db migrate`"
)
# Functions may call each other before all of them exist.
_UNCHECKED = "SET LOCAL check_function_bodies = off"


class Status(msgspec.Struct, frozen=True):
    """Where a database stands. `outdated` names the functions and views that differ from those of this release.
    `unlabelled`: jobs that were there before step 3 have no labels yet."""

    schema: str
    at: SchemaAt
    outdated: frozenset[str] = frozenset()
    unlabelled: bool = False


async def migrate(source: Source, schema: str, name: str, *, contract: bool = False) -> Status:
    """Bring the schema up to this release; refuse one that a newer release has contracted."""
    given_up = time.monotonic() + PATIENCE
    while True:
        try:
            async with source.session() as session:
                found = await _migrate(session, schema, contract=contract)
            if found.unlabelled:
                async with source.session() as session:
                    await session.script(_labelling(schema))
            return found
        except SchemaMismatch:
            raise
        except Exception as error:
            state, late = state_of(error), time.monotonic() >= given_up
            if state == HELD and late:
                raise KeyHeld(f"{name}: {_HELD_BY_OTHERS}") from error
            if late or state not in (HELD, _DEADLOCK):
                raise explained(error, name) from error
        await asyncio.sleep(random.uniform(*_PAUSE))


async def _migrate(session: Session, schema: str, *, contract: bool) -> Status:
    found = await status(session, schema)
    STEPS.refuse_newer(found.at, PLACE)
    if STEPS.missing(found.at, contract=contract) or found.outdated:
        await _lock(session, schema)
        await session.script(_BRIEFLY)
        found = await status(session, schema)
        STEPS.refuse_newer(found.at, PLACE)
        await _apply(session, found, STEPS.missing(found.at, contract=contract))
        found = await status(session, schema)
    return found


async def check(source: Source, schema: str, name: str) -> None:
    """For a store that must not migrate."""
    found = await status_of(source, schema, name)
    STEPS.refuse_newer(found.at, PLACE)
    STEPS.refuse_older(found.at)
    if found.outdated:
        raise SchemaMismatch(f"{found.at.expanded} with {len(found.outdated)} functions or views that differ", VERSION)


async def status_of(source: Source, schema: str, name: str) -> Status:
    """The same without changing anything."""
    try:
        async with source.session() as session:
            return await status(session, schema)
    except Exception as error:
        raise explained(error, name) from error


async def status(session: Session, schema: str) -> Status:
    [[known]] = await session.fetch(_KNOWN, (schema,))
    if not known:
        return Status(schema, SchemaAt(), frozenset(one.name for one in definitions(schema)))
    rows = await session.fetch(
        f"SELECT key, value FROM {schema}.meta WHERE key IN ('schema', 'expanded', 'unlabelled')"
    )
    stored = {str(key): int(value) for key, value in rows}
    required = stored.get("schema", 0)
    at = SchemaAt(required, max(required, stored.get("expanded", 0)))
    if required > STEPS.newest:
        return Status(schema, at)
    in_place = f"SELECT name, checksum, release <= $1::text::int[] FROM {schema}.definition"
    applied = await session.fetch(in_place, (_RELEASE,))
    return Status(schema, at, _outdated(definitions(schema), applied), "unlabelled" in stored)


async def workers(source: Source, schema: str, name: str) -> tuple[list[WorkerInfo], Micros]:
    """The workers, whatever the schema is, and the store's time."""
    try:
        async with source.session() as session:
            [[known]] = await session.fetch(_KNOWN, (schema,))
            rows = await session.fetch(f"SELECT info, seen FROM {schema}.worker") if known else []
            [[now]] = await session.fetch("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    except Exception as error:
        raise explained(error, name) from error
    return [replace(msgspec.json.decode(info, type=WorkerInfo), seen=seen) for info, seen in rows], int(now)


def _outdated(wanted: Sequence[Definition], applied: Sequence[Row]) -> frozenset[str]:
    """Those to be applied: what a newer release has put there stays."""
    in_place = {name: checksum for name, checksum, _ in applied}
    newer = {name for name, _, ours in applied if not ours}
    return frozenset(one.name for one in wanted if one.name not in newer and in_place.get(one.name) != one.checksum)


def script(schema: str, after: int = 0, *, contract: bool = False) -> str:
    """What `migrate` runs on a database at step `after`, for an administrator to read and apply."""
    parts = ["BEGIN;", _BRIEFLY + ";", f"CREATE SCHEMA IF NOT EXISTS {schema};"]
    texts = dict(versions(schema))
    missing = STEPS.missing(SchemaAt(after, after), contract=contract)
    for number in missing:
        parts += [f"-- step {number}", texts[number].strip(), _record(schema, number)]
    parts += [_UNCHECKED + ";", *_texts(schema, definitions(schema)), _partitions(schema)]
    parts.append("COMMIT;")
    if _TRIAGE in missing:
        parts.append(_labelling(schema))
    if after and _TRIAGE in missing:
        parts.append(live_indexes.script(schema))
    return "\n\n".join(parts) + "\n"


async def _lock(session: Session, schema: str) -> None:
    key = zlib.crc32(schema.encode()) & 0x7FFFFFFF
    await session.fetch("SELECT pg_advisory_xact_lock($1::int, $2::int)", (_LOCK_SPACE, key))


async def _apply(session: Session, found: Status, missing: Sequence[int]) -> None:
    schema = found.schema
    if missing and not await session.fetch("SELECT 1 FROM pg_namespace WHERE nspname = $1::text", (schema,)):
        await session.script(f"CREATE SCHEMA {schema}")
    texts = dict(versions(schema))
    for number in missing:
        await session.script(texts[number] + _record(schema, number))
    changed = [one for one in definitions(schema) if one.name in found.outdated]
    if changed:
        await session.script("\n".join([_UNCHECKED + ";", *_texts(schema, changed)]))
    if missing:
        await session.script(_partitions(schema))


def _partitions(schema: str) -> str:
    return f"SELECT {schema}.keep_partitions();"


def _labelling(schema: str) -> str:
    return f"SELECT {schema}.label_jobs();"


def _record(schema: str, number: int) -> str:
    key = "schema" if STEPS.raises_required(number) else "expanded"
    return (
        f"INSERT INTO {schema}.meta VALUES ('{key}', {number}) ON CONFLICT (key) DO UPDATE SET value = excluded.value;"
    )


def _texts(schema: str, changed: Sequence[Definition]) -> list[str]:
    rows = ",\n".join(f"    ('{one.name}', '{one.checksum}', '{_RELEASE}')" for one in changed)
    record = (
        f"INSERT INTO {schema}.definition (name, checksum, release) VALUES\n{rows}\n"
        "ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, release = excluded.release;"
    )
    return [*(one.text.strip() for one in changed), record]
