"""The driver's errors as the store's own, and the one way in which calls are repeated.

A call ends in one of four ways: with an answer, `Refused` by a unique index, `StoreUnavailable` (nothing was sent), or
`Unsure`: the answer got lost, the primary stepped down, or a majority did not confirm in time, so that the write may or
may not have happened, and may even be rolled back. Work that is `Unsure` is sent again, always in a form that takes
effect once: either it is idempotent, or it leaves a stamp in the documents it changes, and the caller looks for the
stamp (`sent`). An answer to the second try confirms what the first one did too: the server waits for a majority even
when it finds nothing left to do.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from bson.errors import BSONError
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConnectionFailure,
    DuplicateKeyError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)

from ....model.errors import StoreError, StoreUnavailable

T = TypeVar("T")

DRIVER_ERRORS = (PyMongoError, BSONError)

_TRIES = 4
_REPEATED_FOR = 10.0  # seconds: calls that take long to fail are not repeated as often
_DUPLICATE_KEY = 11000
_NOT_AUTHORISED, _AUTHENTICATION_FAILED = 13, 18
_INTERRUPTED = frozenset(
    {
        *(6, 7, 89, 9001),  # the network between members
        *(91, 189, 10058, 10107, 11600, 11602, 13435, 13436),  # shutdowns, elections
        *(43, 50, 134, 237, 262, 11601),  # cursors and operations that were ended
    }
)
_TIMEOUTS = re.compile(r" \(configured timeouts: [^)]*\)")


class Unsure(StoreUnavailable):
    """The write may or may not have happened."""


class Refused(StoreError):
    """Unique indexes refused some of the writes, and all others were done. `fields` has the refused ones: position to
    the first field of the index."""

    fields: Mapping[int, str] = {}


# --- translation ----------------------------------------------------------------------------------------------------


@contextmanager
def translating(name: str) -> Iterator[None]:
    """Raises the driver's errors as ours. `name` is the database, for messages."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translated(error, name) from error


async def answered(name: str, call: Awaitable[T]) -> T:
    """The answer to a call of the driver."""
    with translating(name):
        return await call


def translated(error: Exception, name: str) -> Exception:
    """The driver's error as one of ours: what went wrong, and what to do about it. Inside the transaction of a caller,
    errors that make the driver run it again stay as they are."""
    if _repeats_transaction(error):
        return error
    remedy = _remedy(error)
    problem = f"{name}: {_first_line(error)}"
    text = f"{problem}; {remedy}" if remedy else problem
    if refused := _refused(error):
        refusal = Refused(text)
        refusal.fields = refused
        return refusal
    if _is_unsure(error):
        return Unsure(text)
    return StoreUnavailable(text) if isinstance(error, ConnectionFailure) else StoreError(text)


def _repeats_transaction(error: Exception) -> bool:
    return isinstance(error, PyMongoError) and error.has_error_label("TransientTransactionError")


def _is_unsure(error: Exception) -> bool:
    """Server selection fails before anything is sent: if it fails when the driver repeats a call, the driver raises the
    first error instead."""
    if isinstance(error, BulkWriteError):
        parts = error.details.get("writeConcernErrors") or error.details["writeErrors"]
        return bool(error.details.get("writeConcernErrors")) or any(one["code"] in _INTERRUPTED for one in parts)
    if isinstance(error, OperationFailure) and error.code in _INTERRUPTED:
        return True
    if isinstance(error, ServerSelectionTimeoutError):
        return False
    labelled = isinstance(error, PyMongoError) and error.has_error_label("RetryableWriteError")
    return labelled or isinstance(error, AutoReconnect | WriteConcernError)


def _refused(error: Exception) -> dict[int, str]:
    if isinstance(error, BulkWriteError):
        failed = error.details["writeErrors"]
        if error.details.get("writeConcernErrors") or any(one["code"] != _DUPLICATE_KEY for one in failed):
            return {}
        return {one["index"]: _first_field(one) for one in failed}
    return {0: _first_field(error.details or {})} if isinstance(error, DuplicateKeyError) else {}


def _first_field(error: Mapping[str, Any]) -> str:
    return str(next(iter(error.get("keyPattern") or {"_id": 1})))


def _first_line(error: Exception) -> str:
    """One line, without the driver's description of every server it knows of."""
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


# --- repetition -----------------------------------------------------------------------------------------------------


async def sent(work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
    """Send work that takes effect once, until an answer comes. Returns the answer, and whether an earlier one got lost:
    then the work may have been done before, and this answer is about nothing."""
    began = time.monotonic()
    for tried in range(_TRIES):
        try:
            return await work(), tried > 0
        except Unsure:
            if tried == _TRIES - 1 or time.monotonic() - began > _REPEATED_FOR:
                raise
            await asyncio.sleep(random.uniform(0.5, 1.0) * 0.05 * 4**tried)
    raise AssertionError("unreachable")


async def repeated(work: Callable[[], Awaitable[T]]) -> T:
    """The answer to idempotent work."""
    return (await sent(work))[0]
