"""The SQLite store: one file; in each process one thread that writes and two that read.

store.py            the Store: which thread runs which function
threads/            connections, their threads, how calls get there and answers back, forks
migrate.py schema/  the schema: tables and views, numbered versions
statements.py sql/  the SQL, one statement per file
transaction.py      one open transaction, which every function gets first
jobs.py job_lists.py small_tables.py copying.py   the primitives by subject
executions/         rows (how they are stored and decoded), insert, claim, settle, usual_endings, live, history, lists
limits/             slots, tokens, and the order in which rows wait for them
caller_transaction.py   enqueue inside the caller's own transaction
"""

from __future__ import annotations

from .store import SqliteStore

__all__ = ["SqliteStore"]
