"""Many documents in one command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from .collection import Collection

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


def lookup(collection: Collection, local: str, foreign: str, *pipeline: dict[str, Any]) -> dict[str, Any]:
    """The stage that adds the documents of another collection that belong to this one, as `rows`."""
    fields = {"from": collection.name, "localField": local, "foreignField": foreign}
    return {"$lookup": {**fields, "pipeline": list(pipeline), "as": "rows"}}


def union(collection: Collection, *pipeline: dict[str, Any]) -> dict[str, Any]:
    return {"$unionWith": {"coll": collection.name, "pipeline": list(pipeline)}}


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
