"""Many documents in one command."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from .database import collection_name
from .errors import translating

T = TypeVar("T")


def value_by_id(values: Mapping[str, Any], field: str = "$_id") -> dict[str, Any]:
    """An expression for updates of several documents: each document picks the value listed for its own id.

    Values and ids are literals: a text may begin with a dollar sign.
    """
    position = {"$indexOfArray": [{"$literal": list(values)}, field]}
    return {"$arrayElemAt": [{"$literal": list(values.values())}, position]}


def appended(field: str, item: Any) -> dict[str, Any]:
    """The expression for an array field with one more item; a missing array counts as empty."""
    return {"$concatArrays": [{"$ifNull": [f"${field}", []]}, [{"$literal": item}]]}


def rounds(items: Sequence[T], key: Callable[[T], str]) -> list[list[tuple[int, T]]]:
    """The items with their positions, in as few rounds as possible such that no key comes twice in a round and items
    of one key keep their order. There is hardly ever more than one round.

    >>> rounds(["a", "b", "a"], key=str)
    [[(0, 'a'), (1, 'b')], [(2, 'a')]]
    """
    result: list[list[tuple[int, T]]] = []
    seen: dict[str, int] = {}
    for position, item in enumerate(items):
        turn = seen.get(key(item), 0)
        seen[key(item)] = turn + 1
        if turn == len(result):
            result.append([])
        result[turn].append((position, item))
    return result


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


def run_blocking(steps: Steps[R], make: Callable[[CollectionCall], Any], name: str) -> R:
    """`name` is the database, for messages."""
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        with translating(name):
            answer = make(call)


async def run_async(steps: Steps[R], make: Callable[[CollectionCall], Awaitable[Any]], name: str) -> R:
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        with translating(name):
            answer = await make(call)
