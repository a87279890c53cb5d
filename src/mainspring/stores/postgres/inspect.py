"""What `mainspring doctor` reads of a PostgreSQL server: the objects of our schema beside those of a fresh one, and
facts about the server.

The fresh schema is built by the same steps as every other, under a name of its own, inside a transaction that is always
rolled back: nobody else ever sees it, and nothing of it remains. That needs the right to create schemas in the
database, as a migration does. Partitions of single months are left out, because they come and go.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from functools import cache

import psycopg

from ...model.errors import StoreError
from ...model.store.inspection import ObjectKey, PostgresFacts, SchemaObject, SchemaObjects
from ...model.values.reading import duration
from .connection.address import Address, parse_address
from .connection.pool import PsycopgSession, Row, Session, connect
from .connection.wire import Wire
from .database import explained
from .inspect_sql import (
    COLUMNS,
    CONSTRAINTS,
    FACTS,
    FUNCTIONS,
    INDEXES,
    MONTHS,
    OPTIONS,
    SEQUENCES,
    TABLES,
    TIMEOUTS,
    TRIGGERS,
    TYPES,
    VIEWS,
)
from .statements import definitions, versions

FRESH = "mainspring_doctor_expected"
BEGIN = "BEGIN;\nSET LOCAL check_function_bodies = off;"
PATIENCE = 3.0
_DROP_VIEW = "DROP VIEW IF EXISTS "


class _RollBack(Exception):
    """Ends the transaction that holds the fresh schema."""


async def schema_objects(url: str) -> SchemaObjects:
    address = parse_address(url)
    try:
        connection = await connect(address.main)
    except Exception as error:
        raise explained(error, address.name) from error
    session = PsycopgSession(connection)
    found: list[SchemaObject] = []
    expected: list[SchemaObject] = []
    try:
        with suppress(_RollBack):
            async with connection.transaction():
                found += await _read(session, address.schema, address.schema)
                await _build(session)
                expected += await _read(session, FRESH, address.schema)
                raise _RollBack
    except Exception as error:
        raise explained(error, address.name) from error
    finally:
        await connection.close()
    begin, end = _around(found, expected)
    return SchemaObjects(found=tuple(found), expected=tuple(expected), begin=begin, end=end)


def _around(found: Sequence[SchemaObject], expected: Sequence[SchemaObject]) -> tuple[str, str]:
    """What goes around a repair. PostgreSQL changes neither a column that a view shows, nor a view that another one
    reads: if one of these differs, all views are dropped first, and created again at the end."""
    wanted = {each.key: each.definition for each in expected if each.kind in ("column", "view")}
    if all(wanted.get(each.key, each.definition) == each.definition for each in found):
        return BEGIN, "COMMIT;"
    views = [each.drop.removeprefix(_DROP_VIEW).rstrip(";") for each in found if each.kind == "view"]
    drop = f"{_DROP_VIEW}{', '.join(views)};" if views else ""
    creations = [each.create for each in expected if each.kind == "view"]
    return f"{BEGIN}\n{drop}", "\n".join([*creations, "COMMIT;"])


async def _build(session: Session) -> None:
    await session.script(f"SET LOCAL check_function_bodies = off; CREATE SCHEMA {FRESH}")
    for _, text in versions(FRESH):
        await session.script(text)
    await session.script("\n".join(one.text for one in definitions(FRESH)))


async def _read(session: Session, schema: str, shown: str) -> list[SchemaObject]:
    """The objects of a schema, as if it had the name `shown`."""
    await session.script("SET LOCAL search_path = pg_catalog")  # so that every other name is shown with its schema
    found: list[SchemaObject] = []
    for query, describe in _DESCRIBED:
        for row in await session.fetch(query, (schema,)):
            words = tuple(each.replace(f"{schema}.", f"{shown}.") if isinstance(each, str) else each for each in row)
            found += describe(shown, words)
    return found


# --- objects ----------------------------------------------------------------------------------------------------------


def _type(schema: str, row: Row) -> Iterator[SchemaObject]:
    name, fields = row
    create, drop = f"CREATE TYPE {schema}.{name} AS ({fields});", f"DROP TYPE {schema}.{name};"
    yield SchemaObject(kind="type", name=name, definition=fields, create=create, drop=drop)


def _sequence(schema: str, row: Row) -> Iterator[SchemaObject]:
    name, words = row
    create, drop = f"CREATE SEQUENCE {schema}.{name} {words};", f"DROP SEQUENCE {schema}.{name};"
    yield SchemaObject(kind="sequence", name=name, definition=words, create=create, drop=drop)


def _table(schema: str, row: Row) -> Iterator[SchemaObject]:
    name, partitioned, parent, columns = row
    drop = f"DROP TABLE {schema}.{name};"
    if parent:
        create = f"CREATE TABLE {schema}.{name} PARTITION OF {schema}.{parent} DEFAULT;"
        yield SchemaObject(kind="partition", name=name, create=create, drop=drop, parent=("table", parent))
    else:
        by = f" PARTITION BY {partitioned}" if partitioned else ""
        create = f"CREATE TABLE {schema}.{name} ({columns}){by};"
        yield SchemaObject(kind="table", name=name, definition=partitioned, create=create, drop=drop)


def _column(schema: str, row: Row) -> Iterator[SchemaObject]:
    table, name, kind, default, identity, required, storage, whole = row
    place, column = f"{table}.{name}", f"ALTER TABLE {schema}.{table} ALTER COLUMN {name}"
    parent: ObjectKey = ("column", place)
    yield SchemaObject(
        kind="column",
        name=place,
        definition=kind,
        create=f"ALTER TABLE {schema}.{table} ADD COLUMN {whole};",
        drop=f"ALTER TABLE {schema}.{table} DROP COLUMN {name};",
        replace=f"{column} TYPE {kind} USING {name}::{kind.partition(' COLLATE ')[0]};",
        parent=("table", table),
        inline=True,
    )
    if default or identity:
        yield SchemaObject(
            kind="default",
            name=place,
            definition=default or "generated",
            create=f"{column} ADD GENERATED ALWAYS AS IDENTITY;" if identity else f"{column} SET DEFAULT {default};",
            drop=f"{column} DROP {'IDENTITY' if identity else 'DEFAULT'};",
            replace="" if identity else f"{column} SET DEFAULT {default};",
            parent=parent,
            inline=True,
        )
    if required:
        create, drop = f"{column} SET NOT NULL;", f"{column} DROP NOT NULL;"
        yield SchemaObject(kind="not null", name=place, create=create, drop=drop, parent=parent, inline=True)
    if storage:
        create, drop = f"{column} SET STORAGE {storage};", f"{column} SET STORAGE EXTENDED;"
        yield SchemaObject(
            kind="setting", name=f"{place} storage", definition=storage, create=create, drop=drop, parent=parent
        )


def _option(schema: str, row: Row) -> Iterator[SchemaObject]:
    table, name, value = row
    change = f"ALTER TABLE {schema}.{table}"
    yield SchemaObject(
        kind="setting",
        name=f"{table} {name}",
        definition=value,
        create=f"{change} SET ({name} = {value});",
        drop=f"{change} RESET ({name});",
        replace=f"{change} SET ({name} = {value});",
        parent=("table", table),
    )


def _constraint(schema: str, row: Row) -> Iterator[SchemaObject]:
    table, name, words = row
    yield SchemaObject(
        kind="constraint",
        name=f"{table}.{name}",
        definition=words,
        create=f"ALTER TABLE {schema}.{table} ADD CONSTRAINT {name} {words};",
        drop=f"ALTER TABLE {schema}.{table} DROP CONSTRAINT {name};",
        parent=("table", table),
    )


def _index(schema: str, row: Row) -> Iterator[SchemaObject]:
    table, name, words, valid = row
    yield SchemaObject(
        kind="index",
        name=name,
        definition=words if valid else f"invalid: {words}",
        create=f"{words};",
        drop=f"DROP INDEX {schema}.{name};",
        parent=("table", table),
    )


def _function(schema: str, row: Row) -> Iterator[SchemaObject]:
    """Another result or other parameters make it another function: PostgreSQL cannot replace those in place."""
    name, parameters, result, words = row
    text = f"{words.rstrip()};"
    drop = f"DROP FUNCTION {schema}.{name}({parameters});"
    shown = f"{name}({parameters}) returning {result}"
    yield SchemaObject(kind="function", name=shown, definition=words, create=text, drop=drop, replace=text)


def _view(schema: str, row: Row) -> Iterator[SchemaObject]:
    """It is created by its source: the server's own description, run again, may be described in other words."""
    name, words = row
    create = _view_sources(schema).get(name, f"CREATE VIEW {schema}.{name} AS\n{words}")
    yield SchemaObject(kind="view", name=name, definition=words, create=create, drop=f"{_DROP_VIEW}{schema}.{name};")


@cache
def _view_sources(schema: str) -> dict[str, str]:
    """The statement of each view, by its name, without the comments between them."""
    [text] = [one.text for one in definitions(schema) if one.name == "views"]
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    statements = re.split(r"^(?=CREATE OR REPLACE VIEW )", plain, flags=re.MULTILINE)[1:]
    return {each.split()[4].rpartition(".")[2]: each.strip() for each in statements}


def _trigger(schema: str, row: Row) -> Iterator[SchemaObject]:
    table, name, words = row
    yield SchemaObject(
        kind="trigger",
        name=f"{table}.{name}",
        definition=words,
        create=f"{words};",
        drop=f"DROP TRIGGER {name} ON {schema}.{table};",
        parent=("table", table),
    )


_DESCRIBED: tuple[tuple[str, Callable[[str, Row], Iterator[SchemaObject]]], ...] = (
    (TYPES, _type),
    (SEQUENCES, _sequence),
    (TABLES, _table),
    (COLUMNS, _column),
    (OPTIONS, _option),
    (CONSTRAINTS, _constraint),
    (INDEXES, _index),
    (FUNCTIONS, _function),
    (VIEWS, _view),
    (TRIGGERS, _trigger),
)


# --- the server -------------------------------------------------------------------------------------------------------


async def facts(url: str) -> PostgresFacts:
    """Read on a connection without settings of ours, which shows what the server has set for this role."""
    address = parse_address(url)
    try:
        connection = await connect(address.main | {"client_encoding": "UTF8"})
        try:
            return await _facts(PsycopgSession(connection), address)
        finally:
            await connection.close()
    except StoreError:
        raise
    except Exception as error:
        raise explained(error, address.name) from error


async def _facts(session: Session, address: Address) -> PostgresFacts:
    [row] = await session.fetch(FACTS)
    version, most, used, encoding, read_only, oldest, autovacuum, fsync, pages = row
    timeouts = {name: _seconds(value) for name, value in await session.fetch(TIMEOUTS)}
    months, stray = await _partitions(session, address.schema)
    return PostgresFacts(
        version=version,
        max_connections=most,
        used_connections=used,
        pool_size=address.pool_size,
        timeouts=timeouts,
        settings={"autovacuum": autovacuum, "fsync": fsync, "full_page_writes": pages},
        encoding=encoding,
        read_only=read_only,
        hears=await _hears(address),
        missing_months=months,
        stray_rows=stray,
        oldest_transaction=oldest,
    )


async def _partitions(session: Session, schema: str) -> tuple[tuple[str, ...], bool]:
    rows = await session.fetch(MONTHS, (schema,))
    if not rows:  # there is no table of ours
        return (), False
    missing = tuple(month for month, there in rows if not there)
    [[default]] = await session.fetch("SELECT to_regclass($1::text) IS NOT NULL", (f"{schema}.history_default",))
    stray = await session.fetch(f"SELECT 1 FROM {schema}.history_default LIMIT 1") if default else []
    return missing, bool(stray)


async def _hears(address: Address) -> bool:
    """Whether a notification reaches the connection for LISTEN. A pooler in transaction mode loses it. It is sent from
    a second connection: sent from the first, it may run in the very session that such a pooler left listening."""
    channel, heard = f"doctor_{secrets.token_hex(4)}", asyncio.Event()
    async with AsyncExitStack() as stack:

        async def wire() -> Wire:
            opened = Wire(await connect(address.listen), PATIENCE, prepares=False)
            stack.callback(opened.close)
            return opened

        try:
            listener, sender = await wire(), await wire()
        except (psycopg.Error, OSError, TimeoutError):
            return False
        listener.on_notification(lambda payload: heard.set())
        await listener.fetch(f"LISTEN {channel}", ())
        await sender.fetch("SELECT pg_notify($1::text, 'x')", (channel,))
        for _ in range(round(PATIENCE / 0.1)):
            if heard.is_set():
                return True
            await listener.wait_unless_cut(0.1)
        return False


def _seconds(value: str) -> float:
    """The server shows `30s`, `5min` or `0`."""
    return duration("timeout", value.replace("min", "m"), allow_zero=True) if value != "0" else 0.0
