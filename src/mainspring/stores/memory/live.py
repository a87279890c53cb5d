"""Rows that have not ended, and the indexes a claim needs: lanes of ready rows, future rows by time, held keys.

A pending row is in `_future` until a claim finds its time has come; then it is in its lane. `_deferred` holds the
staged rows that found their running key taken: only those are due at once when that key is freed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from ...model.changes import Blocked, ClaimRequest
from ...model.execution import Execution, State, lane
from ...model.instants import Micros, seconds_to_micros
from ..shared import Candidate, claimed, deferred, picked


class Lane(NamedTuple):
    queue: str
    handler: str
    alone: bool


class Claimed(NamedTuple):
    rows: list[Execution]
    blocked: list[Blocked]
    more: bool
    alone_waiting: bool


class LiveTable:
    def __init__(self) -> None:
        self._rows: dict[str, Execution] = {}
        self._unique: dict[str, str] = {}
        self._overlap: dict[str, str] = {}
        self._future: list[tuple[Micros, str]] = []
        self._ready: dict[Lane, list[Candidate[str]]] = {}
        self._deferred: set[str] = set()

    def __contains__(self, id: str) -> bool:
        return id in self._rows

    def __iter__(self) -> Iterator[Execution]:
        return iter(self._rows.values())

    def get(self, id: str) -> Execution | None:
        return self._rows.get(id)

    def put(self, row: Execution) -> None:
        """Insert the row, or replace the one of the same id."""
        self.take(row.id)
        self._rows[row.id] = row
        if row.unique_key is not None:
            self._unique[row.unique_key] = row.id
        if row.overlap_key is not None:
            self._overlap[row.overlap_key] = row.id
        if row.state is State.PENDING:
            insort(self._future, (row.due, row.id))

    def take(self, id: str) -> Execution | None:
        """Remove the row from the table and all its indexes."""
        row = self._rows.pop(id, None)
        if row is None:
            return None
        self._deferred.discard(id)
        if row.unique_key is not None:
            del self._unique[row.unique_key]
        if row.overlap_key is not None:
            del self._overlap[row.overlap_key]
        if row.state is State.PENDING and not _removed(self._future, (row.due, id)):
            self._leave_lane(row)
        return row

    def running(self) -> list[Execution]:
        return [row for row in self._rows.values() if row.state is State.RUNNING]

    def unique_holder(self, key: str | None) -> str | None:
        return None if key is None else self._unique.get(key)

    def overlap_holder(self, key: str | None) -> str | None:
        return None if key is None else self._overlap.get(key)

    def free(self, ended: Execution, now: Micros) -> None:
        """Rows that a claim deferred because of a key this one held are due at once."""
        for id in sorted(self._deferred):
            row = self._rows[id]
            if row.due > now and _waits_for(row, ended):
                self.put(replace(row, due=now))

    def promote(self, now: Micros) -> Micros | None:
        """Future rows whose time has come become ready. Returns when the next one will."""
        ripe = bisect_left(self._future, (now + 1, ""))
        for _, id in self._future[:ripe]:
            row = self._rows[id]
            insort(self._ready.setdefault(_lane(row), []), (-row.priority, id))
        del self._future[:ripe]
        return self._future[0][0] if self._future else None

    def claim(self, request: ClaimRequest, now: Micros) -> Claimed:
        limit = min(request.limit, 1) if request.alone else request.limit
        lanes = {lane(key.queue, key.handler): ready[:limit] for key, ready in self._lanes(request, request.alone)}
        rows, blocked = [], []
        for id in list(islice(picked(lanes, request.turn), limit)):
            match self._claim_row(self._rows[id], request, now):
                case Blocked() as refused:
                    blocked.append(refused)
                case row:
                    rows.append(row)
        more = any(self._lanes(request, request.alone))
        return Claimed(rows, blocked, more, any(self._lanes(request, alone=True)))

    def _claim_row(self, row: Execution, request: ClaimRequest, now: Micros) -> Execution | Blocked:
        holder = self._conflict(row) if row.staged else None
        if holder is None:
            taken = claimed(row, request.owner, now + seconds_to_micros(request.lease), now)
            self.put(taken)
            return taken
        later = deferred(row, now)
        self.put(later)
        self._deferred.add(row.id)
        return Blocked(later, holder)

    def _conflict(self, row: Execution) -> str | None:
        holders = (self.unique_holder(row.running_unique_key), self.overlap_holder(row.running_overlap_key))
        return next((holder for holder in holders if holder not in (None, row.id)), None)

    def _lanes(self, request: ClaimRequest, alone: bool) -> Iterable[tuple[Lane, list[Candidate[str]]]]:
        for key, ready in self._ready.items():
            wanted = request.queues is None or key.queue in request.queues
            if wanted and key.alone == alone and key.handler in request.handlers:
                yield key, ready

    def _leave_lane(self, row: Execution) -> None:
        key = _lane(row)
        _removed(self._ready[key], (-row.priority, row.id))
        if not self._ready[key]:
            del self._ready[key]


def _lane(row: Execution) -> Lane:
    return Lane(row.queue, row.handler, row.alone)


def _waits_for(row: Execution, ended: Execution) -> bool:
    unique = row.running_unique_key is not None and row.running_unique_key == ended.unique_key
    return unique or (row.running_overlap_key is not None and row.running_overlap_key == ended.overlap_key)


def _removed(items: list[tuple[int, str]], item: tuple[int, str]) -> bool:
    """Take one item out of a sorted list; False when it is not in it."""
    at = bisect_left(items, item)
    if at == len(items) or items[at] != item:
        return False
    del items[at]
    return True
