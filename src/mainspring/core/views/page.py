"""A page of a list, as users hold it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

T = TypeVar("T")


class Page(list[T]):
    """One page of a list.

    `next` is where the next page begins, if there may be more. `searched_until` is set if the page ended early because
    it has checked as many executions as one page may: it is the time of the last of them. `total` is the number of
    items on all pages, if it is known.
    """

    def __init__(
        self,
        items: Iterable[T] = (),
        *,
        next: str | None = None,
        searched_until: datetime | None = None,
        total: int | str | None = None,
    ) -> None:
        super().__init__(items)
        self.next, self.searched_until, self.total = next, searched_until, total
