"""The PostgreSQL store: for any number of machines.

schema/         tables.sql, views.sql and functions/, one file each; migrate.py applies them
sql/            named statements: each calls a function of the schema or reads; statements.py loads both
store.py        the store: every primitive of the port and the function that runs it
database.py     one statement at a time: which failures are repeated, what errors mean to a user
connection/     address, our own pool and its wires, pools of the application, the caller's own transaction
executions/     insert (and batching), exchange, what happens while they run, lists, rows and array literals
jobs/           job rows and templates, ticks, lists
small_tables.py locks, audit records, entries; copying.py whole records out and in
heartbeat.py    heartbeats, from a thread of their own; wakeups.py LISTEN and NOTIFY
maintenance.py  partitions created ahead, the live table vacuumed
"""

from __future__ import annotations

from ...model.errors import ConfigurationError

try:
    import psycopg as _psycopg  # noqa: F401  # asked for here, so that its absence is explained
except ModuleNotFoundError:
    raise ConfigurationError(
        "PostgreSQL needs its driver; install it with: pip install 'mainspring[postgres]'"
    ) from None

from .store import PostgresStore

__all__ = ["PostgresStore"]
