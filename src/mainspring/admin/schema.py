"""Administration of a database's schema: show its version, bring it up to date, print the SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from ..model.errors import ConfigurationError
from ..model.values.database_url import parse_url, without_password


class SchemaStatus(msgspec.Struct, frozen=True):
    """`current` is the version of the tables, 0 when there are none of ours. `outdated` names the functions and views
    that are missing or differ from those of this release (PostgreSQL)."""

    database: str
    schema: str | None
    current: int
    newest: int
    pending: list[int]
    outdated: list[str] = []


async def status(url: str) -> SchemaStatus:
    """Read only: this never creates tables, nor a file."""
    scheme = _scheme(url)
    if scheme == "sqlite":
        return _sqlite_status(url)
    return await (_mongo if scheme == "mongodb" else _postgres)(url, migrate=False)


async def migrate(url: str) -> SchemaStatus:
    """Apply what is missing. Safe while others do the same, and while an application runs."""
    scheme = _scheme(url)
    if scheme != "sqlite":
        return await (_mongo if scheme == "mongodb" else _postgres)(url, migrate=True)
    from ..app.adapters import SystemClock
    from ..stores.sqlite import SqliteStore

    store = SqliteStore(parse_url(url).path, SystemClock())
    await store.open()
    await store.close()
    return _sqlite_status(url)


def script(url: str, after: int = 0) -> str:
    """The SQL from that version to the newest, for an administrator to read and apply. Connects to nothing."""
    scheme = _scheme(url)
    if scheme == "mongodb":
        raise ConfigurationError("database_url: MongoDB has no SQL; `mainspring db migrate` creates the indexes")
    if scheme == "postgresql":
        from ..stores.postgres.connection.opening import Endpoint
        from ..stores.postgres.migrate import script as postgres_script

        return postgres_script(Endpoint(url, None, None).schema, after)
    from ..stores.sqlite.migrate import script as sqlite_script

    return sqlite_script(after)


def _scheme(url: str) -> str:
    scheme = parse_url(url).scheme
    if scheme not in ("sqlite", "postgresql", "mongodb"):
        raise ConfigurationError(f"database_url: a {scheme}:// database has no schema to migrate")
    return scheme


async def _postgres(url: str, *, migrate: bool) -> SchemaStatus:
    from ..stores.postgres import migrate as schema
    from ..stores.postgres.connection.opening import Endpoint
    from ..stores.postgres.database import Database

    endpoint = Endpoint(url, None, None)
    source, _, _ = await endpoint.source()
    try:
        step = schema.migrate if migrate else schema.status_of
        found = await step(source, endpoint.schema, endpoint.name)
        if migrate:
            await Database(source, endpoint.schema, endpoint.name).value("keep_partitions")
    finally:
        await source.close()
    outdated = sorted(found.outdated)
    return SchemaStatus(without_password(url), found.schema, found.current, found.newest, found.pending, outdated)


async def _mongo(url: str, *, migrate: bool) -> SchemaStatus:
    from ..stores.mongo import schema
    from ..stores.mongo.connection.database import ServerTime
    from ..stores.mongo.connection.source import MongoSource

    source = MongoSource(url, None, None, ServerTime())
    db = source.connect()
    try:
        found = await (schema.migrate if migrate else schema.status)(db)
    finally:
        await source.close(db)
    return SchemaStatus(without_password(url), found.prefix, found.current, found.newest, found.pending)


def _sqlite_status(url: str) -> SchemaStatus:
    from ..stores.sqlite.statements import versions

    numbers = [number for number, _ in versions()]
    current = _sqlite_version(Path(parse_url(url).path))
    return SchemaStatus(url, None, current, numbers[-1], [number for number in numbers if number > current])


def _sqlite_version(path: Path) -> int:
    """Opened read-only, so that it never creates the file."""
    if not path.is_file():
        return 0
    from ..stores.sqlite.migrate import version_of

    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        return version_of(connection)
