"""Administration of a database's schema: show where it stands, bring it up to date, print the SQL.

`model.store.schema` says what the numbers mean, and why a migration has two halves.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from pathlib import Path

import msgspec

from ..app.adapters import SystemClock
from ..model.defaults import LEASE
from ..model.errors import ConfigurationError
from ..model.store.messages import WorkerInfo
from ..model.store.schema import SchemaAt, SchemaSteps, refuse_contraction
from ..model.time.instants import Micros, seconds_to_micros
from ..model.values.database_url import parse_url, without_password
from ..version import VERSION

_PATIENCE = 30.0  # seconds that another process may hold the write lock of a file


class SchemaStatus(msgspec.Struct, frozen=True):
    """`required` is the step that every release has to know to work here, `expanded` the last step that added
    something; both are 0 when there are no tables of ours. `newest` is the newest step that this release knows,
    `pending` what it would add, `contracts` what `--contract` would take away. `outdated` names the functions and views
    that are missing or differ from those of this release (PostgreSQL). `running` counts the live workers by the release
    of Mainspring that they run."""

    database: str
    schema: str | None
    required: int
    expanded: int
    newest: int
    pending: list[int]
    contracts: list[int]
    outdated: list[str]
    version: str
    running: dict[str, int]


async def status(url: str) -> SchemaStatus:
    """Read only: this never creates tables, nor a file."""
    return await _KINDS[_scheme(url)](url, False, False)


async def migrate(url: str, *, contract: bool = False) -> SchemaStatus:
    """Apply what is missing. Safe while others do the same, and while an application runs. `contract` also takes away
    what older releases need, if none of them runs."""
    return await _KINDS[_scheme(url)](url, True, contract)


def script(url: str, after: int = 0, *, contract: bool = False) -> str:
    """The SQL from that step to the newest, for an administrator to read and apply. Connects to nothing."""
    scheme = _scheme(url)
    if scheme == "mongodb":
        raise ConfigurationError("database_url: MongoDB has no SQL; `mainspring db migrate` creates the indexes")
    if scheme == "postgresql":
        from ..stores.postgres.connection.opening import Endpoint
        from ..stores.postgres.migrate import script as postgres_script

        return postgres_script(Endpoint(url, None, None).schema, after, contract=contract)
    from ..stores.sqlite.migrate import script as sqlite_script

    return sqlite_script(after, contract=contract)


def _scheme(url: str) -> str:
    scheme = parse_url(url).scheme
    if scheme not in _KINDS:
        raise ConfigurationError(f"database_url: a {scheme}:// database has no schema to migrate")
    return scheme


# --- each kind of database ------------------------------------------------------------------------------------


async def _postgres(url: str, migrates: bool, contract: bool) -> SchemaStatus:
    from ..stores.postgres import migrate as schema
    from ..stores.postgres.connection.opening import Endpoint
    from ..stores.postgres.database import Database
    from ..stores.postgres.live_indexes import replace_live_indexes

    endpoint = Endpoint(url, None, None)
    source, _, _ = await endpoint.source()
    place = (source, endpoint.schema, endpoint.name)
    try:
        live = _live(*await schema.workers(*place))
        if contract:
            refuse_contraction(schema.STEPS, (await schema.status_of(*place)).at, live)
        if migrates:
            await schema.migrate(*place, contract=contract)
            await Database(*place).value("keep_partitions")
            await replace_live_indexes(Database(*place))
        found = await schema.status_of(*place)
    finally:
        await source.close()
    return _status(url, found.schema, found.at, schema.STEPS, live, found.outdated)


async def _mongo(url: str, migrates: bool, contract: bool) -> SchemaStatus:
    from ..stores.mongo import schema
    from ..stores.mongo.connection.database import ServerTime
    from ..stores.mongo.connection.source import MongoSource
    from ..stores.mongo.documents import worker_of

    source = MongoSource(url, None, None, ServerTime())
    db = source.connect()
    try:
        live = _live([worker_of(doc) for doc in await db.workers.find()], await db.now())
        if contract:
            refuse_contraction(schema.STEPS, await schema.schema_at(db), live)
        if migrates:
            await schema.migrate(db, contract=contract)
        found = await schema.schema_at(db)
    finally:
        await source.close(db)
    return _status(url, db.prefix, found, schema.STEPS, live)


async def _sqlite(url: str, migrates: bool, contract: bool) -> SchemaStatus:
    return await asyncio.to_thread(_sqlite_file, url, migrates, contract)


def _sqlite_file(url: str, migrates: bool, contract: bool) -> SchemaStatus:
    from ..stores.sqlite import migrate as schema
    from ..stores.sqlite.threads.connect import checked_path, connect

    path = Path(checked_path(parse_url(url).path))
    found, live = SchemaAt(), list[WorkerInfo]()
    if path.is_file():
        with closing(_read_only(path)) as connection:
            live = _live(schema.workers(connection), SystemClock().now())
            if contract:
                refuse_contraction(schema.STEPS, schema.schema_at(connection), live)
    if migrates:
        with closing(connect(str(path), "FULL", _PATIENCE)) as connection:
            schema.migrate(connection, str(path), _PATIENCE, contract=contract)
    if path.is_file():
        with closing(_read_only(path)) as connection:
            found = schema.schema_at(connection)
    return _status(url, None, found, schema.STEPS, live)


def _read_only(path: Path) -> sqlite3.Connection:
    """It never creates the file."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


_KINDS: dict[str, Callable[[str, bool, bool], Awaitable[SchemaStatus]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "mongodb": _mongo,
}


def _status(
    url: str,
    schema: str | None,
    found: SchemaAt,
    steps: SchemaSteps,
    live: Iterable[WorkerInfo],
    outdated: Iterable[str] = (),
) -> SchemaStatus:
    return SchemaStatus(
        database=without_password(url),
        schema=schema,
        required=found.required,
        expanded=found.expanded,
        newest=steps.newest,
        pending=steps.pending(found),
        contracts=steps.contractions(found),
        outdated=sorted(outdated),
        version=VERSION,
        running=dict(sorted(Counter(worker.version for worker in live).items())),
    )


def _live(workers: Iterable[WorkerInfo], now: Micros) -> list[WorkerInfo]:
    return [worker for worker in workers if worker.seen >= now - seconds_to_micros(worker.lease or LEASE)]
