"""Checks of the database and its schema: reachable, ours, up to date, and set up so that nothing is lost or slow."""

from __future__ import annotations

from collections.abc import Iterator

from ...model.store.inspection import MongoFacts, PostgresFacts, SqliteFacts
from ..rules.problems import LEAST_FREE, LEAST_FREE_SHARE, span_text
from .examination import Check, Found
from .facts import DatabaseFacts, LiveFacts, ObjectFacts, SchemaFacts

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "ceph", "glusterfs", "virtiofs"}
)
OLDEST_SQLITE, OLDEST_POSTGRES, OLDEST_MONGO = (3, 35, 0), 150_000, (6, 0, 0)
OWN_CONNECTIONS = 2
"""Of each process, beside its pool: for heartbeats and for LISTEN."""
SHORTEST_TIMEOUTS = {
    "lock_timeout": 1.0,
    "idle_in_transaction_session_timeout": 5.0,
    "idle_session_timeout": 30.0,
    "transaction_timeout": 60.0,
}
"""Seconds below which a timeout of PostgreSQL breaks ordinary work: claims wait for locks, the connection for LISTEN is
idle for seconds, migrations and pruning take a while."""
OPEN_FOR = 3_600.0
UNUSED_SHARE, LEAST_UNUSED = 0.5, 64 * 1024 * 1024


# --- reaching it ------------------------------------------------------------------------------------------------------


def unreachable(database: DatabaseFacts) -> Iterator[Found]:
    if database.problem == "unreachable":
        yield Found(database.error)


def refused(database: DatabaseFacts) -> Iterator[Found]:
    if database.problem == "refused":
        yield Found(database.error)


def absent(database: DatabaseFacts) -> Iterator[Found]:
    if database.problem == "absent":
        yield Found(database.error)


def process_only(database: DatabaseFacts) -> Iterator[Found]:
    if database.problem == "process_only":
        yield Found(f"{database.name} is the memory of one process: jobs and runs are gone when it ends")


# --- the schema -------------------------------------------------------------------------------------------------------


def foreign(schema: SchemaFacts, database: DatabaseFacts) -> Iterator[Found]:
    if schema.required == 0:
        yield Found(f"{database.name} has no tables of Mainspring")


def newer(schema: SchemaFacts) -> Iterator[Found]:
    if schema.required > schema.newest:
        yield Found(f"the schema requires step {schema.required}, this release knows {schema.newest}")


def older(schema: SchemaFacts) -> Iterator[Found]:
    if schema.required and schema.pending and schema.required <= schema.newest:
        yield Found(f"the schema lacks step {', '.join(map(str, schema.pending))} of {schema.newest}")


def outdated(schema: SchemaFacts) -> Iterator[Found]:
    if schema.outdated and not schema.pending:
        many = len(schema.outdated)
        yield Found(f"{many} functions or views are those of another release: {', '.join(schema.outdated[:5])}")


def damaged(objects: ObjectFacts) -> Iterator[Found]:
    yield from (Found(each.words) for each in objects.differences if each.what != "extra")


def unexpected(objects: ObjectFacts) -> Iterator[Found]:
    yield from (Found(each.words) for each in objects.differences if each.what == "extra")


# --- SQLite -----------------------------------------------------------------------------------------------------------


def network_file(sqlite: SqliteFacts) -> Iterator[Found]:
    if sqlite.filesystem in NETWORK:
        yield Found(f"{sqlite.path} is on a network file system ({sqlite.filesystem}), whose locks fail silently")


def without_wal(sqlite: SqliteFacts) -> Iterator[Found]:
    if sqlite.journal_mode != "wal":
        yield Found(f"{sqlite.path} is in journal mode {sqlite.journal_mode}: readers and writers block each other")


def not_writable(sqlite: SqliteFacts) -> Iterator[Found]:
    if not sqlite.file_writable:
        yield Found(f"this user may not write {sqlite.path}")
    elif not sqlite.folder_writable:
        yield Found(f"this user may not write the folder of {sqlite.path}, where SQLite keeps its log")


def readable_by_all(sqlite: SqliteFacts) -> Iterator[Found]:
    if sqlite.mode & 0o007:
        yield Found(f"every user of this machine can open {sqlite.path} (mode {sqlite.mode:o})")


def broken_file(sqlite: SqliteFacts) -> Iterator[Found]:
    if sqlite.damage:
        yield Found(f"{sqlite.path} is damaged: {sqlite.damage}")


def old_sqlite(sqlite: SqliteFacts) -> Iterator[Found]:
    if sqlite.version < OLDEST_SQLITE:
        yield Found(f"this Python has SQLite {'.'.join(map(str, sqlite.version))}")


def unused_pages(sqlite: SqliteFacts) -> Iterator[Found]:
    if sqlite.unused > max(LEAST_UNUSED, UNUSED_SHARE * sqlite.size):
        yield Found(f"{sqlite.unused / 1e6:,.0f} of {sqlite.size / 1e6:,.0f} MB of {sqlite.path} are unused")


def full_disk(live: LiveFacts) -> Iterator[Found]:
    free, disk = live.size.free, live.size.disk
    if free is not None and disk is not None and (free < LEAST_FREE or free < LEAST_FREE_SHARE * disk):
        yield Found(f"the disk of the database has {free / 1e9:,.1f} GB left, {free / max(1, disk):.0%} of it")


def several_hosts(live: LiveFacts, sqlite: SqliteFacts) -> Iterator[Found]:
    hosts = sorted({worker.host for worker in live.problems.living})
    if len(hosts) > 1:
        yield Found(f"processes on {len(hosts)} machines share the file {sqlite.path}: {', '.join(hosts[:5])}")


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def old_postgres(postgres: PostgresFacts) -> Iterator[Found]:
    if postgres.version < OLDEST_POSTGRES:
        yield Found(f"the server is PostgreSQL {postgres.version // 10_000}; Mainspring needs 15 or newer")


def few_connections(postgres: PostgresFacts, live: LiveFacts) -> Iterator[Found]:
    processes = max(1, len(live.problems.living))
    each = postgres.pool_size + OWN_CONNECTIONS
    if processes * each > postgres.max_connections:
        many = f"{processes} process{'es' * (processes > 1)}"
        yield Found(f"{many} may open {processes * each} connections; the server has {postgres.max_connections}")


def no_connection_left(postgres: PostgresFacts) -> Iterator[Found]:
    if postgres.max_connections - postgres.used_connections < OWN_CONNECTIONS + 1:
        yield Found(f"{postgres.used_connections} of {postgres.max_connections} connections are in use")


def short_timeouts(postgres: PostgresFacts) -> Iterator[Found]:
    for name, least in SHORTEST_TIMEOUTS.items():
        value = postgres.timeouts.get(name, 0.0)
        if 0 < value < least:
            yield Found(
                f"the server sets {name} to {value:g} s for this role",
                f"ALTER ROLE ... SET {name} = '{least:g}s', or 0",
            )


def no_autovacuum(postgres: PostgresFacts) -> Iterator[Found]:
    if postgres.settings.get("autovacuum") == "off":
        yield Found("autovacuum is off: tables and indexes grow, and claims get slower every day")


def unsafe_writes(postgres: PostgresFacts) -> Iterator[Found]:
    for name in ("fsync", "full_page_writes"):
        if postgres.settings.get(name) == "off":
            yield Found(f"{name} is off: a crash of the machine may destroy the database")


def other_encoding(postgres: PostgresFacts) -> Iterator[Found]:
    if postgres.encoding != "UTF8":
        yield Found(f"the database has the encoding {postgres.encoding}: some parameters cannot be stored")


def read_only(postgres: PostgresFacts) -> Iterator[Found]:
    if postgres.read_only:
        yield Found("the server is a standby, or read-only for this role: nothing can be claimed or stored")


def deaf(postgres: PostgresFacts) -> Iterator[Found]:
    if not postgres.hears:
        yield Found(
            "LISTEN does not work on this address, as behind a pooler in transaction mode: work waits for polls"
        )


def no_partition(postgres: PostgresFacts) -> Iterator[Found]:
    if postgres.missing_months:
        yield Found(f"the history has no partition for {', '.join(postgres.missing_months)}")


def stray_rows(postgres: PostgresFacts) -> Iterator[Found]:
    if postgres.stray_rows and not postgres.missing_months:
        yield Found("the default partition of the history holds rows, which pruning cannot drop by the month")


def long_transaction(postgres: PostgresFacts) -> Iterator[Found]:
    if postgres.oldest_transaction > OPEN_FOR:
        age = span_text(postgres.oldest_transaction)
        yield Found(f"a transaction has been open for {age}: dead rows cannot be removed meanwhile")


# --- MongoDB ----------------------------------------------------------------------------------------------------------


def standalone(mongo: MongoFacts) -> Iterator[Found]:
    if not mongo.members:
        yield Found("MongoDB runs without a replica set: no change streams, so work is found by polling")


def old_mongo(mongo: MongoFacts) -> Iterator[Found]:
    if mongo.version < OLDEST_MONGO:
        yield Found(f"the server is MongoDB {'.'.join(map(str, mongo.version))}; Mainspring needs 6.0 or newer")


def arbiters(mongo: MongoFacts) -> Iterator[Found]:
    if mongo.arbiters and mongo.members < 3:
        yield Found(f"the replica set has {mongo.members} members with data and an arbiter: if one fails, writes wait")


CHECKS = (
    Check(
        "database_unreachable",
        "database",
        "whether the database answers",
        "error",
        "Start the server, or correct database_url; then run this again",
        ("database",),
        unreachable,
    ),
    Check(
        "database_refused",
        "database",
        "whether the database accepts the connection: user, password, name, a file that is a database",
        "error",
        "Correct the address: --database-url, MAINSPRING_DATABASE_URL or mainspring.toml",
        ("database",),
        refused,
    ),
    Check(
        "database_absent",
        "database",
        "whether the file of an SQLite database exists",
        "error",
        "Give the path of the file with --database-url, or run `mainspring db migrate`",
        ("database",),
        absent,
    ),
    Check(
        "memory_database",
        "database",
        "a database in memory",
        "warning",
        "Outside of tests, set database_url to sqlite:///jobs.db or a server",
        ("database",),
        process_only,
    ),
    Check(
        "not_mainspring",
        "schema",
        "whether the database has Mainspring's tables",
        "error",
        "Run `mainspring db migrate`, or start an application on it; or correct the address",
        ("schema", "database"),
        foreign,
    ),
    Check(
        "schema_newer",
        "schema",
        "a schema that a newer release has changed",
        "error",
        "Update Mainspring here, or give this application its own schema, prefix or file",
        ("schema",),
        newer,
    ),
    Check(
        "schema_older",
        "schema",
        "steps of the schema that are missing",
        "error",
        "Run `mainspring db migrate`",
        ("schema",),
        older,
    ),
    Check(
        "functions_outdated",
        "schema",
        "functions and views of another release (PostgreSQL)",
        "error",
        "Run `mainspring db migrate`",
        ("schema",),
        outdated,
    ),
    Check(
        "schema_damaged",
        "schema",
        "objects that are missing or differ: tables, columns, constraints, indexes, functions, views, triggers",
        "error",
        "Apply the printed statements (`mainspring doctor --sql`)",
        ("objects",),
        damaged,
    ),
    Check(
        "schema_extra",
        "schema",
        "objects among Mainspring's own that this release does not know",
        "warning",
        "Drop it, unless you added it on purpose (`mainspring doctor --sql`)",
        ("objects",),
        unexpected,
    ),
    Check(
        "sqlite_network_file",
        "database",
        "an SQLite file on a network file system",
        "error",
        "Move the file to a local disk, or use PostgreSQL for several machines",
        ("sqlite",),
        network_file,
    ),
    Check(
        "sqlite_several_machines",
        "database",
        "processes on several machines that share one SQLite file",
        "error",
        "Use PostgreSQL or MongoDB: `mainspring db copy` moves everything",
        ("live", "sqlite"),
        several_hosts,
    ),
    Check(
        "sqlite_journal_mode",
        "database",
        "SQLite without write-ahead log",
        "warning",
        "Start an application on it, or run: PRAGMA journal_mode = WAL",
        ("sqlite",),
        without_wal,
    ),
    Check(
        "sqlite_not_writable",
        "database",
        "an SQLite file or folder that this user may not write to",
        "error",
        "Change the owner or the mode of the file and its folder",
        ("sqlite",),
        not_writable,
    ),
    Check(
        "sqlite_file_mode",
        "database",
        "an SQLite file that everybody on the machine may open",
        "warning",
        "Protect the parameters and results in it: chmod 600, or 660 for a group",
        ("sqlite",),
        readable_by_all,
    ),
    Check(
        "sqlite_damaged",
        "database",
        "SQLite's own check of the file",
        "error",
        "Stop all processes and restore a backup, or save what is left: sqlite3 FILE .recover",
        ("sqlite",),
        broken_file,
    ),
    Check(
        "sqlite_version",
        "database",
        "the release of SQLite",
        "error",
        "Use a Python with SQLite 3.35 or newer",
        ("sqlite",),
        old_sqlite,
    ),
    Check(
        "sqlite_unused_space",
        "database",
        "an SQLite file that is mostly empty",
        "note",
        "Stop all processes and run: VACUUM",
        ("sqlite",),
        unused_pages,
    ),
    Check(
        "disk_space",
        "database",
        "free space on the disk of an SQLite file",
        "error",
        "Free some space, or shorten the retention of jobs",
        ("live",),
        full_disk,
    ),
    Check(
        "postgres_version",
        "database",
        "the release of PostgreSQL",
        "error",
        "Update the server",
        ("postgres",),
        old_postgres,
    ),
    Check(
        "postgres_connections",
        "database",
        "whether max_connections is enough for the pools of all processes",
        "warning",
        "Raise max_connections, or lower pool_size in the address",
        ("postgres", "live"),
        few_connections,
    ),
    Check(
        "postgres_connections_used",
        "database",
        "whether the server has connections left",
        "error",
        "Close idle connections of others, or raise max_connections",
        ("postgres",),
        no_connection_left,
    ),
    Check(
        "postgres_timeouts",
        "database",
        "timeouts of the server that are too short: lock, idle, transaction",
        "warning",
        "ALTER ROLE ... SET the timeout to 0",
        ("postgres",),
        short_timeouts,
    ),
    Check(
        "postgres_autovacuum",
        "database",
        "autovacuum switched off",
        "error",
        "Set autovacuum = on in postgresql.conf and reload",
        ("postgres",),
        no_autovacuum,
    ),
    Check(
        "postgres_unsafe",
        "database",
        "fsync or full_page_writes switched off",
        "error",
        "Set it to on in postgresql.conf and reload",
        ("postgres",),
        unsafe_writes,
    ),
    Check(
        "postgres_encoding",
        "database",
        "the encoding of the database",
        "error",
        "Create the database with ENCODING 'UTF8' and copy it: `mainspring db copy`",
        ("postgres",),
        other_encoding,
    ),
    Check(
        "postgres_read_only",
        "database",
        "a standby, or a role that may only read",
        "error",
        "Name the primary in the address (target_session_attrs=read-write)",
        ("postgres",),
        read_only,
    ),
    Check(
        "postgres_listen",
        "database",
        "whether a notification comes back: a pooler in transaction mode loses it",
        "warning",
        "Add listen_url=... to the address: a direct address that bypasses the pooler",
        ("postgres",),
        deaf,
    ),
    Check(
        "postgres_partitions",
        "database",
        "partitions of the history for this month and the next",
        "warning",
        "Run `mainspring db migrate` as a role that may create tables",
        ("postgres",),
        no_partition,
    ),
    Check(
        "postgres_stray_history",
        "database",
        "rows in the default partition of the history",
        "note",
        "SELECT mainspring.make_partition('YYYY-MM-01') for the months of those rows",
        ("postgres",),
        stray_rows,
    ),
    Check(
        "postgres_long_transaction",
        "database",
        "transactions that are open for more than an hour",
        "warning",
        "Find it in pg_stat_activity (xact_start) and end it",
        ("postgres",),
        long_transaction,
    ),
    Check(
        "mongo_standalone",
        "database",
        "MongoDB without a replica set",
        "warning",
        "Start it as a replica set of one member: --replSet rs0, then rs.initiate()",
        ("mongo",),
        standalone,
    ),
    Check("mongo_version", "database", "the release of MongoDB", "error", "Update the server", ("mongo",), old_mongo),
    Check(
        "mongo_arbiter",
        "database",
        "replica sets with an arbiter and too few members",
        "warning",
        "Replace the arbiter with a member that holds data",
        ("mongo",),
        arbiters,
    ),
)
