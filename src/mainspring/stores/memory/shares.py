"""Tags of ready rows that have a share, and the greatest tag of each share."""

from __future__ import annotations

from typing import TypeAlias

from ...model.execution import ExecutionRow
from .sorted_queue import SortedQueue

Share: TypeAlias = tuple[str, str, bool, int, str]
"""Queue, handler, whether alone, priority and the name of the share."""


class Shares:
    def __init__(self) -> None:
        self._tags: dict[str, int] = {}
        self._ready: dict[Share, SortedQueue[tuple[int, str]]] = {}

    def tag(self, id: str) -> int:
        return self._tags.get(id, 0)

    def greatest(self, row: ExecutionRow) -> int | None:
        """Among the ready rows of the same lane, priority and share."""
        ready = self._ready.get(_share(row))
        return None if ready is None else ready.last()[0]

    def enter(self, row: ExecutionRow, tag: int) -> None:
        """The row is ready, under this tag."""
        self._tags[row.id] = tag
        self._ready.setdefault(_share(row), SortedQueue()).add((tag, row.id))

    def leave(self, row: ExecutionRow) -> None:
        """It is ready no longer; its tag stays with it until it is forgotten."""
        share = _share(row)
        self._ready[share].remove((self._tags[row.id], row.id))
        if not self._ready[share]:
            del self._ready[share]

    def forget(self, id: str) -> None:
        self._tags.pop(id, None)


def _share(row: ExecutionRow) -> Share:
    return row.queue, row.handler, row.alone, row.priority, row.share or ""
