"""A sorted list that is used up from its beginning, without moving the rest each time."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Generic, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])

_COMPACTED_AFTER = 1_000  # used items, at least, so that each item is moved once or twice at most


class SortedQueue(Generic[T]):
    def __init__(self) -> None:
        self._items: list[T] = []
        self._start = 0  # items before this have been used up

    def __len__(self) -> int:
        return len(self._items) - self._start

    def add(self, item: T) -> None:
        if not self._items or item > self._items[-1]:
            self._items.append(item)
        else:
            insort(self._items, item, lo=self._start)

    def first(self, count: int) -> list[T]:
        return self._items[self._start : self._start + count]

    def last(self) -> T:
        return self._items[-1]

    def first_from(self, item: Any) -> T | None:
        """The first item that is not less than this."""
        at = bisect_left(self._items, item, lo=self._start)
        return self._items[at] if at < len(self._items) else None

    def count_below(self, item: Any) -> int:
        return bisect_left(self._items, item, lo=self._start) - self._start

    def drop_first(self, count: int) -> None:
        self._start += count
        if self._start > max(_COMPACTED_AFTER, len(self._items) // 2):
            del self._items[: self._start]
            self._start = 0

    def remove(self, item: T) -> bool:
        """False when it is not there."""
        at = bisect_left(self._items, item, lo=self._start)
        if at == len(self._items) or self._items[at] != item:
            return False
        if at == self._start:
            self.drop_first(1)
        else:
            del self._items[at]
        return True
