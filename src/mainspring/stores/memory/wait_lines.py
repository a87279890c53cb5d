"""The wait lines of parked rows: one for each key, kind of limit, numbers of the limit and lane."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from ...model.execution import ExecutionRow
from ...model.limits import Limit
from ..common.limits import Wait, limit_with, next_tag, numbers_in, wait_of
from .sorted_queue import SortedQueue

QueuePlace: TypeAlias = tuple[int, int, str]
"""Negated priority, place (or tag) and id of a row: plain sorting gives the order of the line (or lane)."""


class WaitLine(NamedTuple):
    wait: Wait
    numbers: str
    queue: str
    handler: str
    alone: bool
    fair: bool


class _Standing(NamedTuple):
    """Where a row is parked, or was until it was woken."""

    line: WaitLine
    place: QueuePlace
    share: str


class WaitLines:
    def __init__(self) -> None:
        self._lines: dict[Wait, dict[WaitLine, SortedQueue[QueuePlace]]] = {}
        self._shares: dict[tuple[WaitLine, int, str], SortedQueue[tuple[int, str]]] = {}
        self._parked: dict[str, _Standing] = {}
        self._woken: dict[str, _Standing] = {}

    def of(self, wait: Wait) -> dict[WaitLine, Limit]:
        """The lines of this key, each with the limit that its rows wait for."""
        return {line: limit_with(wait, line.numbers) for line in self._lines.get(wait, ())}

    def first(self, line: WaitLine, count: int) -> list[str]:
        return [id for _, _, id in self._lines[line.wait][line].first(count)]

    def waited(self, id: str) -> Wait | None:
        """The key that the row waits for, or was woken for."""
        standing = self._parked.get(id) or self._woken.get(id)
        return None if standing is None else standing.line.wait

    def enter(self, row: ExecutionRow, full: Limit) -> None:
        line = WaitLine(wait_of(full), numbers_in(full), row.queue, row.handler, row.alone, row.share is not None)
        before = self._woken.pop(row.id, None)
        if before is not None and before.line == line:
            standing = before
        else:
            standing = _Standing(line, (-row.priority, self._next_place(line, row), row.id), row.share or "")
        self._parked[row.id] = standing
        self._lines.setdefault(line.wait, {}).setdefault(line, SortedQueue()).add(standing.place)
        self._shares.setdefault(_share(standing), SortedQueue()).add(standing.place[1:])

    def leave(self, id: str) -> Wait | None:
        """Take the row out of its line; it keeps its place in case it comes back. Returns the key it waited for, or
        None if it was not parked."""
        standing = self._parked.pop(id, None)
        if standing is None:
            return None
        self._woken[id] = standing
        line, share = standing.line, _share(standing)
        lines = self._lines[line.wait]
        lines[line].remove(standing.place)
        self._shares[share].remove(standing.place[1:])
        if not self._shares[share]:
            del self._shares[share]
        if not lines[line]:
            del lines[line]
        if not lines:
            del self._lines[line.wait]
        return line.wait

    def forget(self, id: str) -> None:
        self._woken.pop(id, None)

    def _next_place(self, line: WaitLine, row: ExecutionRow) -> int:
        if row.share is None:
            return 0
        queue = self._lines.get(line.wait, {}).get(line)
        first = None if queue is None else queue.first_from((-row.priority,))
        smallest = first[1] if first is not None and first[0] == -row.priority else None
        share = self._shares.get((line, -row.priority, row.share))
        return next_tag(smallest, None if share is None else share.last()[0], row.weight)


def _share(standing: _Standing) -> tuple[WaitLine, int, str]:
    return standing.line, standing.place[0], standing.share
