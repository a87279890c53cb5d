"""The MongoDB store: for any number of machines, on a replica set or a single server.

store.py        MongoStore: the parts below together, and what it holds while it is open
schema.py       indexes and their version
documents.py    rows as documents, and documents as rows
connection/     address, client, collections, driver errors, many documents in one command
executions/     inserting, claiming, settling, listing, pruning
limits/         capacity of limits, wait lines of parked rows, turns of shares
jobs/           writing jobs with the executions of their ticks, listing them, statistics
and one module each for audit records, entries, locks, workers with their heartbeats, wake-ups, copying
"""

from __future__ import annotations

from ...model.errors import ConfigurationError

try:
    import pymongo as _pymongo  # noqa: F401  # imported here to explain its absence
except ModuleNotFoundError:
    raise ConfigurationError("MongoDB needs its driver; install it with: pip install 'mainspring[mongo]'") from None

from .store import MongoStore

__all__ = ["MongoStore"]
