"""The MongoDB store: for any number of machines, on a replica set or a single server.

address.py      what an address may say; opened.py what a store has while it is open
database.py     the collections, how safely they are written, what errors mean; clock.py the server's time
schema.py       indexes and their version: applied, checked, refused
documents.py    how an execution lies in its collection
adding.py settling.py looking.py claiming.py exchanging.py    the life of an execution
jobs.py writing.py outbox.py embryos.py    a write to a job and what follows from it, once, whoever dies in between
incarnations.py statistics.py   numbers and totals by job, exact at any time
finding.py pruning.py running.py locking.py auditing.py       the other primitives, by subject
beating.py      heartbeats: a client of their own, used from their own thread
wakeups.py      change streams, or a look once a second
caller.py       enqueue inside the caller's own transaction
store.py        the Store itself
"""

from __future__ import annotations

from ...model.errors import ConfigurationError

try:
    import pymongo as _pymongo  # noqa: F401  # asked for here, so that its absence is explained
except ModuleNotFoundError:
    raise ConfigurationError("MongoDB needs its driver; install it with: pip install 'mainspring[mongo]'") from None

from .store import MongoStore

__all__ = ["MongoStore"]
