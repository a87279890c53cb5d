"""The driver's errors: which of them leave the outcome open, which may be repeated, and what they mean to a user.

The driver repeats reads itself, and on replica sets single writes, once. A write that needs more than that to learn its
own outcome puts a stamp into the documents it changes and looks for the stamp afterwards: see `executions.settle` and
`executions.claim`.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ConnectionFailure,
    DuplicateKeyError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from ....model.errors import MainspringError, StoreError, StoreUnavailable

T = TypeVar("T")

_TRIES = 4
_UPSERT_TRIES = 5
_DUPLICATE_KEY = 11000
_NOT_AUTHORISED, _AUTHENTICATION_FAILED = 13, 18
_TIMEOUTS = re.compile(r" \(configured timeouts: [^)]*\)")


# --- lost answers and repeated calls --------------------------------------------------------------------------------


def is_lost(error: BaseException) -> bool:
    """Whether the answer got lost or the primary stepped down, so that the write may or may not have happened."""
    if isinstance(error, ServerSelectionTimeoutError):
        return False
    return isinstance(error, AutoReconnect) or (
        isinstance(error, PyMongoError) and error.has_error_label("RetryableWriteError")
    )


def is_unreachable(error: BaseException) -> bool:
    """Whether the server could not be asked, or did not answer."""
    return is_lost(error) or isinstance(error, ConnectionFailure)


async def repeated(work: Callable[[], Awaitable[T]]) -> T:
    """Repeat idempotent work until an answer comes."""
    for tried in range(_TRIES):
        try:
            return await work()
        except PyMongoError as error:
            if tried == _TRIES - 1 or not is_lost(error):
                raise
            await asyncio.sleep(random.uniform(0.5, 1.0) * 0.05 * 4**tried)
    raise AssertionError("unreachable")


async def upserted(work: Callable[[], Awaitable[T]]) -> T:
    """Repeat an upsert that raced with another one for the same new document: the document exists now."""
    for tried in range(_UPSERT_TRIES):
        try:
            return await work()
        except DuplicateKeyError:
            if tried == _UPSERT_TRIES - 1:
                raise
    raise AssertionError("unreachable")


# --- unique indexes -------------------------------------------------------------------------------------------------


def refused_writes(error: BulkWriteError) -> dict[int, str]:
    """The writes of a bulk that a unique index refused, by position, each with the first field of that index.

    Raises the error itself if anything else went wrong.
    """
    failed = error.details["writeErrors"]
    if error.details.get("writeConcernErrors") or any(one["code"] != _DUPLICATE_KEY for one in failed):
        raise error
    return {one["index"]: duplicate_index(one) for one in failed}


def duplicate_index(error: Mapping[str, Any]) -> str:
    """The first field of the unique index that refused a write."""
    return str(next(iter(error.get("keyPattern") or {"_id": 1})))


# --- errors as users see them ---------------------------------------------------------------------------------------


def explains_driver_errors(store: type[T]) -> type[T]:
    """Class decorator: every public coroutine raises the driver's errors as `explained` ones.

    The store has an attribute `name`, which the messages begin with."""
    for name in dir(store):
        method = getattr(store, name)
        if not name.startswith("_") and inspect.iscoroutinefunction(method):
            setattr(store, name, _explaining(method))
    return store


def _explaining(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(method)
    async def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return await method(self, *args, **kwargs)
        except PyMongoError as error:
            raise explained(error, self.name) from error

    return call


def explained(error: Exception, name: str) -> MainspringError:
    """The driver's error as one of ours: what went wrong, and what to do about it."""
    if isinstance(error, MainspringError):
        return error
    remedy = _remedy(error)
    problem = f"{name}: {_first_line(error)}"
    kind = StoreUnavailable if is_unreachable(error) else StoreError
    return kind(f"{problem}; {remedy}" if remedy else problem)


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
