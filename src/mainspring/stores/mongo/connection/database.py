"""The collections of one store on one event loop, and what the driver's errors mean to a user.

Writes are acknowledged by a majority of the members, from their journals: what was confirmed is never rolled back.
Claims alone are confirmed by the primary: a claim that an election rolls back is a waiting row again, and the owner in
the fence keeps two claims apart.

The driver itself repeats reads, and on replica sets single writes, once. What must know more than that about an answer
that was lost carries a stamp of its own: see `settling` and `claiming`.
"""

from __future__ import annotations

import asyncio
import random
import re
import time as machine
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from pymongo import AsyncMongoClient, ReadPreference, WriteConcern
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import (
    AutoReconnect,
    ConnectionFailure,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.read_concern import ReadConcern

from ....model.errors import MainspringError, StoreError
from ....model.time.instants import Micros
from .clock import Time

T = TypeVar("T")
Collection = AsyncCollection[dict[str, Any]]

COLLECTIONS = (
    *("executions", "jobs", "incarnations", "logs", "audits", "workers", "locks", "limits", "shelf", "news"),
    *("purges", "meta"),
)
DURABLE = WriteConcern(w="majority", j=True, wtimeout=30_000)
QUICK = WriteConcern(w=1)

TRIES = 4
_TIMEOUTS = re.compile(r" \(configured timeouts: [^)]*\)")
_NOT_AUTHORISED, _AUTHENTICATION_FAILED = 13, 18


class Database:
    def __init__(
        self, client: AsyncMongoClient[dict[str, Any]], database: str, prefix: str, time: Time, name: str
    ) -> None:
        self.client, self.prefix, self.time, self.name = client, prefix, time, name
        self.plain: AsyncDatabase[dict[str, Any]] = client.get_database(
            database,
            write_concern=DURABLE,
            read_preference=ReadPreference.PRIMARY,
            read_concern=ReadConcern("local"),
        )
        self.executions = self._collection("executions")
        self.jobs = self._collection("jobs")
        self.incarnations = self._collection("incarnations")
        self.logs = self._collection("logs")
        self.audits = self._collection("audits")
        self.workers = self._collection("workers")
        self.locks = self._collection("locks")
        self.limits = self._collection("limits")
        self.shelf = self._collection("shelf")
        # change streams read what a majority has, and say so themselves
        self.news = self._collection("news").with_options(write_concern=QUICK, read_concern=ReadConcern())
        self.purges = self._collection("purges")
        self.meta = self._collection("meta")
        self.claims = self.executions.with_options(write_concern=QUICK)
        self._look_at: float | None = None
        self.knows_flow = False  # whether shares or limits were ever used here, as far as is known

    def _collection(self, name: str) -> Collection:
        return self.plain.get_collection(collection_name(self.prefix, name))

    async def now(self) -> Micros:
        return self.time.told(await self.plain.command("hello"))

    def look_at(self, delay: Micros | None) -> None:
        """Parked rows have to be looked at so long from now."""
        self._look_at = None if delay is None else machine.monotonic() + delay / 1_000_000

    def expects_look(self) -> bool:
        """Whether it is time, as far as this process can tell. It need not be right: the next look at all rows is."""
        return self._look_at is not None and self._look_at <= machine.monotonic()

    async def learn_flow(self) -> None:
        """From now on claims look for rows with shares, and for parked ones: what nobody uses costs nothing."""
        if not self.knows_flow:
            await repeated(lambda: self.meta.update_one({"_id": "schema"}, {"$set": {"flow": True}}))
            self.knows_flow = True

    async def close(self) -> None:
        await self.client.close()


def collection_name(prefix: str, name: str) -> str:
    return f"{prefix}.{name}"


def is_lost(error: BaseException) -> bool:
    """Whether the answer got lost, or a primary stepped down: what was asked for may have been done, or not."""
    if isinstance(error, ServerSelectionTimeoutError):
        return False
    return isinstance(error, AutoReconnect) or (
        isinstance(error, PyMongoError) and error.has_error_label("RetryableWriteError")
    )


def is_unreachable(error: BaseException) -> bool:
    """Whether the server could not be asked, or did not answer."""
    return is_lost(error) or isinstance(error, ConnectionFailure)


async def repeated(work: Callable[[], Awaitable[T]]) -> T:
    """Do what may be done twice until an answer comes; for what is idempotent, or knows its own traces again."""
    for tried in range(TRIES):
        try:
            return await work()
        except PyMongoError as error:
            if tried == TRIES - 1 or not is_lost(error):
                raise
            await asyncio.sleep(random.uniform(0.5, 1.0) * 0.05 * 4**tried)
    raise AssertionError("unreachable")


def explained(error: Exception, name: str) -> MainspringError:
    """The driver's error as ours: what went wrong, and what to do about it."""
    if isinstance(error, MainspringError):
        return error
    remedy = _remedy(error)
    told = f"{name}: {_in_short(error)}"
    return StoreError(f"{told}; {remedy}" if remedy else told)


def _in_short(error: Exception) -> str:
    """One line. Who reaches no server lists all that it knows of each, which helps nobody who reads an error."""
    if not str(error):
        return type(error).__name__
    line = str(error).splitlines()[0]
    return _TIMEOUTS.sub("", line.partition(", Timeout: ")[0])[:500]


def _remedy(error: Exception) -> str:
    if isinstance(error, OperationFailure):
        if error.code == _AUTHENTICATION_FAILED:
            return "check user and password in the address"
        if error.code == _NOT_AUTHORISED:
            return "grant the user the role readWrite on this database"
        return ""
    return "check that the server runs and can be reached" if isinstance(error, ConnectionFailure) else ""


def duplicate_index(error: Mapping[str, Any]) -> str:
    """The first field of the unique index that refused a write."""
    return str(next(iter(error.get("keyPattern") or {"_id": 1})))
