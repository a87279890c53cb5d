"""Calls of collections as a generator: an algorithm that blocking and async clients both need is written once.

The generator yields a `CollectionCall` and is sent the answer to it; what it returns is the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar

import msgspec

from .database import collection_name

R = TypeVar("R")


class CollectionCall(msgspec.Struct, frozen=True):
    """One call of a collection. `inside` says whether it belongs into the caller's transaction, where there is one."""

    collection: str
    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any] = {}
    inside: bool = True


Steps: TypeAlias = Generator[CollectionCall, Any, R]


def made(call: CollectionCall, database: Any, prefix: str, **options: Any) -> Any:
    """The answer of a blocking database, or the awaitable answer of an async one. Cursors are read to their end."""
    collection = database[collection_name(prefix, call.collection)]
    answer = getattr(collection, call.method)(*call.arguments, **call.options, **options)
    return answer.to_list() if call.method == "find" else answer


def run_blocking(steps: Steps[R], make: Callable[[CollectionCall], Any]) -> R:
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = make(call)


async def run_async(steps: Steps[R], make: Callable[[CollectionCall], Awaitable[Any]]) -> R:
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        answer = await make(call)
