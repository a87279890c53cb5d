"""Pages of lists that are read along an index and filtered on the way: the audit, the ledger of missed runs.

The number of records read for one page is bounded. Rare matches give short or empty pages, which continue from their
cursor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
Read = Callable[[str | None, int], Awaitable[Sequence[T]]]
"""Reads the next records after this key, in the order of the list."""


class Bounds(NamedTuple):
    """Which part of the list is wanted. `size` is how many records are read at once, if many are passed over;
    `look_at` how many a page looks at."""

    limit: int
    offset: int
    size: int
    look_at: int


async def page_of(
    read: Read[T],
    bounds: Bounds,
    cursor: str | None,
    *,
    key: Callable[[T], str],
    admits: Callable[[T], bool],
    over: Callable[[T], bool] = lambda record: False,
    narrow: bool,
) -> tuple[list[T], str | None]:
    """The records of one page, and where to go on: None when all that there is has been looked at.

    `narrow` says that filters pass records over; `over` that none after this one can be wanted.
    """
    found: list[Any] = []
    looked_at, wanted = 0, bounds.offset + bounds.limit
    while True:  # one more than the page shows whether there is a next page
        size = bounds.size if narrow else min(bounds.size, wanted + 1 - len(found))
        records = await read(cursor, size)
        found += [record for record in records if admits(record)]
        looked_at += len(records)
        if len(found) > wanted:
            return found[bounds.offset : wanted], key(found[wanted - 1])
        if len(records) < size or over(records[-1]):
            return found[bounds.offset :], None
        cursor = key(records[-1])
        enough = len(found) >= bounds.offset or looked_at >= 10 * bounds.look_at
        if looked_at >= bounds.look_at and enough:
            return found[bounds.offset :], cursor
