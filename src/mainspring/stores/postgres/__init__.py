"""The PostgreSQL store: for any number of machines.

migrations/     the schema: tables, functions, views; numbered, applied in order
sql/            named statements: each calls a function of the schema or reads; statements.py loads both
address.py      what an address may say; schema.py applies migrations, and says where a database stands
connections.py  our own connections; lines.py one of them; handed.py those of a pool or engine the application owns
database.py     one statement at a time: retries, what errors mean
rows.py         how an execution lies in the tables; arrays.py how a batch of changes travels, endings.py the usual one
adding.py exchanging.py jobs.py finding.py running.py locking.py    the primitives, by subject
loops.py        what belongs to one event loop
beating.py      heartbeats: a connection of their own, used from their own thread
wakeups.py      LISTEN and NOTIFY; gathering.py concurrent enqueues in one statement
tidying.py      partitions made ahead, the live table vacuumed
caller.py       enqueue inside the caller's own transaction, whatever the driver
store.py        the Store itself
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
