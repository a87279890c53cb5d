"""Rows that have not ended, and the indexes a claim needs: lanes of ready rows, future rows by time, held keys.

A pending row is in `_future` until a claim finds that its time has come; then it is in its lane, unless a limit parks
it (limits.py). `_deferred` holds the staged rows whose running key was held: only those become due when it is freed.
Rows of a lane come by priority, tag and id; the tag of a row without a share is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from ...model.execution import ExecutionRow, State, lane
from ...model.limits import Limit
from ...model.store.messages import Blocked, ClaimRequest, HeldKey, KeyKind, LaneCounts
from ...model.time.instants import Micros, seconds_to_micros
from ..common.limits import next_tag
from ..common.rows import WAITERS_AT_ONCE, claimed, deferred, freed_keys, held_key, picked
from .limits import Limits
from .sorted_queue import SortedQueue
from .wait_lines import QueuePlace

Share: TypeAlias = tuple[str, str, bool, int, str]
"""Queue, handler, whether alone, priority and the name of the share."""


class Lane(NamedTuple):
    queue: str
    handler: str
    alone: bool
    fair: bool  # for rows with shares

    @property
    def name(self) -> str:
        return f"{lane(self.queue, self.handler)}//fair" if self.fair else lane(self.queue, self.handler)


class Claimed(NamedTuple):
    rows: list[ExecutionRow]
    blocked: list[Blocked]
    more: bool
    alone_waiting: bool


class LiveTable:
    def __init__(self) -> None:
        self._rows: dict[str, ExecutionRow] = {}
        self._unique: dict[str, str] = {}
        self._overlap: dict[str, str] = {}
        self._future: SortedQueue[tuple[Micros, str]] = SortedQueue()
        self._ready: dict[Lane, SortedQueue[QueuePlace]] = {}
        self._deferred: set[str] = set()
        self._shares = Shares()
        self.limits = Limits()

    def __contains__(self, id: str) -> bool:
        return id in self._rows

    def __iter__(self) -> Iterator[ExecutionRow]:
        return iter(self._rows.values())

    def get(self, id: str) -> ExecutionRow | None:
        return self._rows.get(id)

    def put(self, row: ExecutionRow) -> None:
        """Insert the row, or replace the one of the same id."""
        if row.id in self._rows:
            self.take(row.id)
        self._rows[row.id] = row
        self._hold_keys(row)
        if row.state is State.PENDING:
            self._future.add((row.due, row.id))
        elif row.state is State.RUNNING and row.limits is not None:
            self.limits.hold(row.limits)

    def take(self, id: str) -> ExecutionRow | None:
        """Remove the row from the table and all its indexes."""
        row = self._rows.pop(id, None)
        if row is None:
            return None
        self._deferred.discard(id)
        self._forget_keys(row)
        if row.state is State.RUNNING and row.limits is not None:
            self.limits.release(row.limits)
        if row.state is State.PENDING:
            waits = self.limits.leave_parking(id) or self._future.remove((row.due, id))
            if not waits:
                self._leave_lane(row)
        self._shares.forget(id)
        return row

    def _hold_keys(self, row: ExecutionRow) -> None:
        if row.unique_key is not None:
            self._unique[row.unique_key] = row.id
        if row.overlap_key is not None:
            self._overlap[row.overlap_key] = row.id

    def _forget_keys(self, row: ExecutionRow) -> None:
        if row.unique_key is not None:
            del self._unique[row.unique_key]
        if row.overlap_key is not None:
            del self._overlap[row.overlap_key]

    def counts(self, now: Micros) -> list[LaneCounts]:
        lanes: dict[tuple[str, str], list[ExecutionRow]] = {}
        for row in self._rows.values():
            if row.state is not State.WAITING:
                lanes.setdefault((row.queue, row.handler), []).append(row)
        return [_counts(*key, rows, now) for key, rows in sorted(lanes.items())]

    def running(self) -> list[ExecutionRow]:
        return [row for row in self._rows.values() if row.state is State.RUNNING]

    def held_keys(self, kind: KeyKind, first: str, limit: int) -> list[HeldKey]:
        holders = self._overlap if kind == "overlap" else self._unique
        keys = sorted(key for key in holders if key >= first)[:limit]
        return [held_key(kind, key, self._rows[holders[key]]) for key in keys]

    def unique_holder(self, key: str | None) -> str | None:
        return None if key is None else self._unique.get(key)

    def overlap_holder(self, key: str | None) -> str | None:
        return None if key is None else self._overlap.get(key)

    def free(self, ended: ExecutionRow, now: Micros) -> None:
        """Make rows due at once that a claim deferred because of the keys of this row: the first of each lane."""
        first = [{_lane(row): row for row in reversed(rows[:WAITERS_AT_ONCE])} for rows in self._waiters(ended, now)]
        for row in {row.id: row for by_lane in first for row in by_lane.values()}.values():
            self._future.remove((row.due, row.id))
            self._rows[row.id] = replace(row, due=now)
            self._future.add((now, row.id))
            self._deferred.discard(row.id)

    def _waiters(self, ended: ExecutionRow, now: Micros) -> Iterator[list[ExecutionRow]]:
        """The rows that a claim deferred because of each freed key, in the order of their turns."""
        rows = [row for row in map(self._rows.__getitem__, self._deferred) if row.due > now]
        deferred = sorted(rows, key=lambda row: (-row.priority, row.id))
        unique, overlap = freed_keys([ended], now)
        for key in unique:
            yield [row for row in deferred if row.running_unique_key == key]
        for key in overlap:
            yield [row for row in deferred if row.running_overlap_key == key]

    def promote(self, now: Micros) -> Micros | None:
        """Make parked rows with room, and future rows whose time has come, ready. Returns the next such instant."""
        woken = list(self.limits.woken(now))
        ripe = self._future.count_below((now + 1, ""))
        ids = [id for _, id in self._future.first(ripe)]
        self._future.drop_first(ripe)
        self._enter_lanes([*woken, *ids])
        return self.next_due()

    def next_due(self) -> Micros | None:
        waiting = (next((due for due, _ in self._future.first(1)), None), self.limits.next_look())
        return min((instant for instant in waiting if instant is not None), default=None)

    def share_out(self, ids: Iterable[str], now: Micros) -> None:
        """New rows that are due and have a share become ready at once, which gives them their tags."""
        rows = [row for id in ids if (row := self._rows.get(id)) is not None and row.share is not None]
        due = [row for row in rows if row.due <= now and self._future.remove((row.due, row.id))]
        self._enter_lanes([row.id for row in due])

    def _enter_lanes(self, ids: list[str]) -> None:
        """In the order of their ids: each tag follows from those before."""
        for id in sorted(ids):
            row = self._rows[id]
            if row.parked is not None:
                row = self._rows[id] = replace(row, parked=None)
            self._enter_lane(row, 0 if row.share is None else self._next_tag(row))

    def _next_tag(self, row: ExecutionRow) -> int:
        ready = self._ready.get(_lane(row))
        first = None if ready is None else ready.first_from((-row.priority,))
        smallest = first[1] if first is not None and first[0] == -row.priority else None
        return next_tag(smallest, self._shares.greatest(row), row.weight)

    def _enter_lane(self, row: ExecutionRow, tag: int) -> None:
        if row.share is not None:
            self._shares.enter(row, tag)
        self._ready.setdefault(_lane(row), SortedQueue()).add((-row.priority, tag, row.id))

    def claim(self, request: ClaimRequest, now: Micros) -> Claimed:
        limit = min(request.limit, 1) if request.alone else request.limit
        lanes = {
            key.name: [(level, id) for level, _, id in ready.first(limit)]
            for key, ready in self._lanes(request, request.alone)
        }
        ids = list(islice(picked(lanes, request.turn), limit))
        picks = [self._rows[id] for id in ids]
        self._leave_lanes(picks)
        until = now + seconds_to_micros(request.lease)
        rows, blocked = [], []
        woken: list[str] = []
        for row in picks:
            full = None if row.limits is None else self.limits.full(row.limits, now)
            if full is not None:
                woken += self._park(row, full, now)
                continue
            holder = self._conflict(row) if row.staged else None
            if holder is None:
                rows.append(self._claim_row(row, request, until, now))
            else:
                blocked.append(Blocked(self._defer(row, now), holder))
                if row.limits is not None:
                    woken += self.limits.pass_on(row.limits, now)
        self._enter_lanes(woken)
        more = any(self._lanes(request, request.alone))
        return Claimed(rows, blocked, more, any(self._lanes(request, alone=True)))

    def _leave_lanes(self, picks: Sequence[ExecutionRow]) -> None:
        """The picked rows of a lane are its first ones."""
        for key, count in Counter(_lane(row) for row in picks).items():
            self._ready[key].drop_first(count)
            if not self._ready[key]:
                del self._ready[key]
        for row in picks:
            if row.share is not None:
                self._shares.leave(row)

    def _park(self, row: ExecutionRow, full: Limit, now: Micros) -> Iterator[str]:
        """Returns the ids of the rows that become ready instead."""
        self._rows[row.id] = replace(row, parked=full.key)
        self._shares.forget(row.id)
        return self.limits.park(row, full, now)

    def _claim_row(self, row: ExecutionRow, request: ClaimRequest, until: Micros, now: Micros) -> ExecutionRow:
        taken = claimed(row, request, until, now)
        if row.staged:
            self._forget_keys(row)
            self._hold_keys(taken)
        if row.limits is not None:
            self.limits.take(row, now)
        self._deferred.discard(row.id)
        self._shares.forget(row.id)
        self._rows[row.id] = taken
        return taken

    def _defer(self, row: ExecutionRow, now: Micros) -> ExecutionRow:
        later = deferred(row, now)
        self._rows[row.id] = later
        self._future.add((later.due, later.id))
        self._shares.forget(row.id)
        self._deferred.add(row.id)
        return later

    def _conflict(self, row: ExecutionRow) -> str | None:
        holders = (self.unique_holder(row.running_unique_key), self.overlap_holder(row.running_overlap_key))
        return next((holder for holder in holders if holder not in (None, row.id)), None)

    def _lanes(self, request: ClaimRequest, alone: bool) -> Iterable[tuple[Lane, SortedQueue[QueuePlace]]]:
        for key, ready in self._ready.items():
            wanted = request.queues is None or key.queue in request.queues
            wanted = wanted and key.queue not in request.without_queues
            if wanted and key.alone == alone and key.handler in request.handlers:
                yield key, ready

    def _leave_lane(self, row: ExecutionRow) -> None:
        key = _lane(row)
        self._ready[key].remove((-row.priority, self._shares.tag(row.id), row.id))
        if row.share is not None:
            self._shares.leave(row)
        if not self._ready[key]:
            del self._ready[key]


def _counts(queue: str, handler: str, rows: Sequence[ExecutionRow], now: Micros) -> LaneCounts:
    pending = [row for row in rows if row.state is State.PENDING]
    open_dues = [row.due for row in pending if row.parked is None]
    ready = [due for due in open_dues if due <= now]
    planned = [due for due in open_dues if due > now]
    return LaneCounts(
        queue=queue,
        handler=handler,
        ready=len(ready),
        planned=len(planned),
        parked=len(pending) - len(open_dues),
        running=len(rows) - len(pending),
        oldest=min(ready, default=None),
        next_due=min(planned, default=None),
    )


def _lane(row: ExecutionRow) -> Lane:
    return Lane(row.queue, row.handler, row.alone, row.share is not None)


class Shares:
    """Tags of ready rows that have a share, and the greatest tag of each share."""

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
        """The row is no longer ready; it keeps its tag until `forget`."""
        share = _share(row)
        self._ready[share].remove((self._tags[row.id], row.id))
        if not self._ready[share]:
            del self._ready[share]

    def forget(self, id: str) -> None:
        self._tags.pop(id, None)


def _share(row: ExecutionRow) -> Share:
    return row.queue, row.handler, row.alone, row.priority, row.share or ""
