"""The walk to the newest runs of one job, along the index that has its executions by id.

A fan-out adds a row for each tenant, maybe thousands. Their ids lie within one millisecond, right before that of their
parent (`model.values.ids.tenant_id`): so a walk that meets one of them can pass over all of them. PostgreSQL does the
same in one statement (`newest_runs.sql`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model.store.messages import RunSummary
from ...model.time.instants import Micros

FURTHER = 8
"""Rows of each page after the first: one run and some children, or a few runs that have few children."""


def below_children(id: str) -> str:
    """The end of the ids with which to go on after this child: smaller than those of its siblings. A run of the same
    job with a derived id of the same millisecond is passed over as well.

    >>> below_children("019b7000-0000-8012-8034-0123456789ab")
    '019b7000-0000-8000-0000-000000000000'
    """
    return min(id, f"{id[:14]}8000-0000-000000000000")


class RunWalk:
    """`wanted` is the size of the next page, which has ids smaller than `before`."""

    def __init__(self, limit: int, since: Micros | None) -> None:
        self._limit, self._since, self._pages = limit, since or 0, 0
        self._found: list[RunSummary] = []
        self.wanted = limit
        self.before: str | None = None

    def add(self, page: Sequence[tuple[RunSummary, bool]]) -> bool:
        """Add a page of rows, newest first, each with whether it is a child. Returns whether another page is needed."""
        self._found += [run for run, is_child in page if not is_child and run.created >= self._since]
        self._pages += 1
        if len(page) < self.wanted or len(self._found) >= self._limit or self._pages > self._limit:
            return False
        last, is_child = page[-1]
        self.before = below_children(last.id) if is_child else last.id
        self.wanted = FURTHER
        return True

    @property
    def runs(self) -> list[RunSummary]:
        return self._found[: self._limit]
