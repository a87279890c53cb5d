"""Misconfigurations of databases and their schemas, on real servers. Thresholds are moved where the real thing would
take hours, or a server of another release."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg

from mainspring.admin import schema
from mainspring.core.doctor import database_checks
from mainspring.model.store.inspection import MongoFacts
from mainspring.stores.postgres import inspect as postgres_inspect
from mainspring.stores.postgres.connection.wire import Wire
from mainspring.stores.sqlite.inspect import filesystem_of
from tests.integration.admin.doctor.clinic import Clinic, Result, induces
from tests.mongo_server import mongo
from tests.servers import free_port, postgres


@contextmanager
def editing(clinic: Clinic) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(clinic.file, isolation_level=None)) as connection:
        yield connection


async def damaged_file(clinic: Clinic, *statements: str) -> Result:
    await schema.migrate(clinic.url)
    with editing(clinic) as connection:
        for statement in statements:
            connection.execute(statement)
    return await clinic.examine()


# --- any database -----------------------------------------------------------------------------------------------------


@induces("database_unreachable")
async def _closed_port(clinic: Clinic) -> Result:
    return await clinic.examine(f"postgresql://postgres@127.0.0.1:{free_port()}/app")


@induces("database_refused")
async def _no_database(clinic: Clinic) -> Result:
    return await clinic.examine(postgres().url("nobody_made_this"))


@induces("database_absent")
async def _no_file(clinic: Clinic) -> Result:
    return await clinic.examine(f"sqlite:///{clinic.folder / 'other.db'}")


@induces("memory_database")
async def _in_memory(clinic: Clinic) -> Result:
    return await clinic.examine("memory://")


@induces("not_mainspring")
async def _foreign(clinic: Clinic) -> Result:
    with editing(clinic) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    return await clinic.examine()


@induces("schema_newer")
async def _newer(clinic: Clinic) -> Result:
    return await damaged_file(clinic, "UPDATE mainspring_meta SET value = 99 WHERE key = 'schema'")


@induces("schema_older")
async def _older(clinic: Clinic) -> Result:
    return await damaged_file(clinic, "DELETE FROM mainspring_meta WHERE key = 'expanded'")


@induces("schema_damaged")
async def _damaged(clinic: Clinic) -> Result:
    return await damaged_file(clinic, "DROP INDEX mainspring_jobs_due")


@induces("schema_extra")
async def _extra(clinic: Clinic) -> Result:
    return await damaged_file(clinic, "CREATE INDEX odd ON mainspring_jobs (release)")


# --- SQLite -----------------------------------------------------------------------------------------------------------


@induces("sqlite_network_file")
async def _network(clinic: Clinic) -> Result:
    clinic.patch.setattr(database_checks, "NETWORK", frozenset({filesystem_of(str(clinic.folder))}))
    return await clinic.examine()


@induces("sqlite_several_machines")
async def _machines(clinic: Clinic) -> Result:
    await clinic.worker(host="one", id="0" * 32)
    await clinic.worker(host="two", id="1" * 32)
    return await clinic.examine()


@induces("sqlite_journal_mode")
async def _journal(clinic: Clinic) -> Result:
    return await damaged_file(clinic, "PRAGMA journal_mode = DELETE")


@induces("sqlite_not_writable")
async def _not_writable(clinic: Clinic) -> Result:
    await schema.migrate(clinic.url)
    real = os.access
    clinic.patch.setattr(os, "access", lambda path, mode, **more: mode != os.W_OK and real(path, mode, **more))
    return await clinic.examine()


@induces("sqlite_file_mode")
async def _open_file(clinic: Clinic) -> Result:
    await schema.migrate(clinic.url)
    clinic.file.chmod(0o644)
    return await clinic.examine()


@induces("sqlite_damaged")
async def _broken(clinic: Clinic) -> Result:
    await damaged_file(
        clinic,
        "CREATE TABLE filler (a)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)"
        " INSERT INTO filler SELECT hex(randomblob(200)) FROM n",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    )
    with clinic.file.open("r+b") as file:
        file.seek(-3 * 4096, os.SEEK_END)
        file.write(b"\xff" * 4096)
    return await clinic.examine()


@induces("sqlite_version")
async def _old_sqlite(clinic: Clinic) -> Result:
    clinic.patch.setattr(database_checks, "OLDEST_SQLITE", (99, 0, 0))
    return await clinic.examine()


@induces("sqlite_unused_space")
async def _unused(clinic: Clinic) -> Result:
    clinic.patch.setattr(database_checks, "LEAST_UNUSED", 0)
    return await damaged_file(
        clinic, "CREATE TABLE filler (a)", "INSERT INTO filler VALUES (randomblob(5000000))", "DROP TABLE filler"
    )


@induces("disk_space")
async def _full(clinic: Clinic) -> Result:
    clinic.patch.setattr(database_checks, "LEAST_FREE", 10**18)
    return await clinic.examine()


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


async def damaged_postgres(clinic: Clinic, *statements: str, options: str = "") -> Result:
    url = postgres().migrated_database()
    name = url.rpartition("/")[2]
    for statement in statements:
        postgres().execute(statement.replace("THIS", name), name)
    return await clinic.examine(url + options)


@induces("functions_outdated")
async def _outdated(clinic: Clinic) -> Result:
    return await damaged_postgres(clinic, "UPDATE mainspring.definition SET checksum = 'x' WHERE name = 'now_micros'")


@induces("postgres_version")
async def _old_postgres(clinic: Clinic) -> Result:
    clinic.patch.setattr(database_checks, "OLDEST_POSTGRES", 990_000)
    return await damaged_postgres(clinic)


@induces("postgres_connections")
async def _large_pool(clinic: Clinic) -> Result:
    return await damaged_postgres(clinic, options="?pool_size=500")


@induces("postgres_connections_used")
async def _crowded(clinic: Clinic) -> Result:
    clinic.patch.setattr(database_checks, "OWN_CONNECTIONS", 197)
    return await damaged_postgres(clinic)


@induces("postgres_timeouts")
async def _short_timeouts(clinic: Clinic) -> Result:
    return await damaged_postgres(clinic, "ALTER DATABASE THIS SET lock_timeout = '50ms'")


@induces("postgres_autovacuum")
async def _no_autovacuum(clinic: Clinic) -> Result:
    server = postgres()
    server.execute("ALTER SYSTEM SET autovacuum = off")
    server.execute("SELECT pg_reload_conf()")
    try:
        return await damaged_postgres(clinic)
    finally:
        server.execute("ALTER SYSTEM RESET autovacuum")
        server.execute("SELECT pg_reload_conf()")


@induces("postgres_unsafe")
async def _no_fsync(clinic: Clinic) -> Result:
    return await damaged_postgres(clinic)  # the servers of tests run without fsync


@induces("postgres_encoding")
async def _other_encoding(clinic: Clinic) -> Result:
    name = f"ascii_{os.getpid()}"
    postgres().execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    return await clinic.examine(postgres().url(name))


@induces("postgres_read_only")
async def _read_only(clinic: Clinic) -> Result:
    return await damaged_postgres(clinic, "ALTER DATABASE THIS SET default_transaction_read_only = on")


@induces("postgres_listen")
async def _pooler(clinic: Clinic) -> Result:
    """A pooler in transaction mode gives each statement a session of its own: nobody receives the notification."""

    class Pooled(Wire):
        async def fetch(self, text: str, values: Any) -> Any:
            return [] if text.startswith("LISTEN") else await super().fetch(text, values)

    clinic.patch.setattr(postgres_inspect, "Wire", Pooled)
    clinic.patch.setattr(postgres_inspect, "PATIENCE", 0.3)
    return await damaged_postgres(clinic)


@induces("postgres_partitions")
async def _no_partition(clinic: Clinic) -> Result:
    return await damaged_postgres(clinic, f"DROP TABLE mainspring.history_{datetime.now(UTC):%Y_%m}")


@induces("postgres_stray_history")
async def _stray(clinic: Clinic) -> Result:
    return await damaged_postgres(
        clinic,
        "INSERT INTO mainspring.history (id, created, due, token, job_key, failures, crashes, alone, staged, todo,"
        " keep, stray, state, body) VALUES ('00000000-0000-7000-8000-000000000000', 0, 0, 0, 1, 0, 0, false, false,"
        " false, true, false, 'completed', '{}')",
    )


@induces("postgres_long_transaction")
async def _open_transaction(clinic: Clinic) -> Result:
    clinic.patch.setattr(database_checks, "OPEN_FOR", 0.0)
    url = postgres().migrated_database()
    with psycopg.connect(url) as connection:
        connection.execute("SELECT 1")
        return await clinic.examine(url)


# --- MongoDB ----------------------------------------------------------------------------------------------------------


@induces("mongo_standalone")
async def _standalone(clinic: Clinic) -> Result:
    return await clinic.examine(mongo("standalone").url("doctor"))


@induces("mongo_version")
async def _old_mongo(clinic: Clinic) -> Result:
    clinic.patch.setattr(database_checks, "OLDEST_MONGO", (99, 0, 0))
    return await clinic.examine(mongo("standalone").url("doctor"))


@induces("mongo_arbiter")
async def _arbiter(clinic: Clinic) -> Result:
    return clinic.judge(mongo=MongoFacts(version=(7, 0, 0), members=2, arbiters=1))
