"""The SQLite store: one file; per process one thread that writes and two that read.

statements.py   the SQL: named files under sql/, numbered migrations under migrations/
connect.py schema.py forks.py      connections, their errors, the schema, what happens at a fork
calls.py connection_thread.py threads.py listeners.py
                how a call reaches its thread and the answer its event loop
transaction.py  one open transaction: statements, time, what is written once at its end
rows.py         how an execution lies in the tables
adding.py settling.py admin/copy.py claiming.py claimed.py working.py jobs.py locking.py finding.py pruning.py
                the primitives, by subject
shares.py limits.py                turns between shares; slots, tokens and what is parked for them
caller.py       enqueue inside the caller's own transaction
store.py        the Store itself
"""

from __future__ import annotations

from .store import SqliteStore

__all__ = ["SqliteStore"]
