"""Claim: promote what has become due, find the lanes that have ready rows, take the best rows of ours in turns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from ....model.execution import ExecutionRow, State, next_token
from ....model.store.messages import Blocked, Change, ClaimRequest, Exchanged
from ....model.time.instants import Micros, seconds_to_micros
from ...common.limits import next_slot_check
from ...common.rows import claimed, deferred, picked
from ..limits.limits import Limits, recheck_due
from ..limits.waiting_order import give_tags
from ..transaction import Transaction, as_json
from .settle import settle
from .usual_endings import ClaimedRows

NO_JOBS: frozenset[str] = frozenset()
PROMOTED_AT_ONCE = 1_000  # rows per exchange: a million rows due at the same instant must not hold up a claim

_names = msgspec.json.Decoder(list[str]).decode
_ready = msgspec.json.Decoder(list[list[tuple[int, int]]]).decode


def exchange(tx: Transaction, changes: Sequence[Change], request: ClaimRequest | None, ours: ClaimedRows) -> Exchanged:
    applied = settle(tx, changes, ours)
    next_due = promote(tx)
    if request is None:
        return Exchanged(applied=applied, next_due=next_due, now=tx.now)
    claim = _Claim(tx, request)
    claim.take()
    tx.after_commit.append(lambda: ours.remember(claim.taken))
    return Exchanged(
        applied=applied,
        claimed=tuple([row for _, row in claim.taken]),
        blocked=tuple(claim.blocked),
        stopped=_stopped(tx, claim.taken) if claim.taken else NO_JOBS,
        alone_waiting=claim.alone_waiting(),
        more=claim.more(),
        next_due=_next_due(tx) if claim.put_off else next_due,
        now=tx.now,
    )


def _stopped(tx: Transaction, taken: list[tuple[int, ExecutionRow]]) -> frozenset[str]:
    names = list({row.job for _, row in taken})
    found = tx.rows("jobs_stopped", as_json(names))
    return frozenset(id for (id,) in found) & {row.job_id for _, row in taken} if found else NO_JOBS


def promote(tx: Transaction) -> Micros | None:
    """Make future rows whose time has come ready, and parked rows that have room. Returns the next such instant."""
    next_due = _next_due(tx)
    if next_due is not None and next_due <= tx.now:
        recheck_due(tx)
        shared = tx.rows("promoted_shares", tx.now, PROMOTED_AT_ONCE)
        tx.run("promote", tx.now, PROMOTED_AT_ONCE)
        give_tags(tx, shared)
        next_due = _next_due(tx)
    return next_due


def _next_due(tx: Transaction) -> Micros | None:
    due: Micros | None = tx.value("next_due", next_slot_check(tx.now))
    return due


class _Terms(msgspec.Struct, frozen=True):
    """The fields that a claim sets in a new row."""

    state: State
    token: int
    owner: str
    lease: Micros
    claimed: Micros
    started: Micros


class _Claim:
    def __init__(self, tx: Transaction, request: ClaimRequest) -> None:
        self._tx = tx
        self._request = request
        self._lease = tx.now + seconds_to_micros(request.lease)
        self._limit = min(request.limit, 1) if request.alone else request.limit
        self._lanes, self._alone_lanes = self._find_lanes()
        self._left = False
        self.taken: list[tuple[int, ExecutionRow]] = []
        self.blocked: list[Blocked] = []
        self.put_off = False  # rows were deferred or parked

    def take(self) -> None:
        found = self._pick()
        if [row for _, row in found if row.limits is not None]:
            self._take_limited(found)
            return
        plain = [seq for seq, row in found if not row.staged]
        if plain:
            self._tx.run("claim", *self._terms(), as_json(plain))
        for seq, row in found:
            if row.staged:
                self._take_staged(seq, row)
            else:  # new rows are read with the fields of the claim
                self.taken.append((seq, row if row.state is State.RUNNING else self._claimed(row)))

    def _take_limited(self, found: list[tuple[int, ExecutionRow]]) -> None:
        """One by one: whether a row has room depends on those before it."""
        limits = Limits(self._tx)
        plain: list[int] = []
        for seq, row in found:
            full = None if row.limits is None else limits.full(row.limits)
            if full is not None:
                limits.park(seq, row, full)
                self.put_off = True
                continue
            if not row.staged:
                plain.append(seq)
                self.taken.append((seq, row if row.state is State.RUNNING else self._claimed(row)))
            elif not self._take_staged(seq, row):
                if row.limits is not None:
                    limits.pass_on(row.limits)
                continue
            if row.limits is not None:
                limits.take(seq, row.limits)
        if plain:
            self._tx.run("claim", *self._terms(), as_json(plain))
        limits.save()
        if limits.woken:
            give_tags(self._tx, self._tx.rows("promoted_shares", self._tx.now, PROMOTED_AT_ONCE))
            self._lanes, self._alone_lanes = self._find_lanes()
            self._left = bool(self._alone_lanes if self._request.alone else self._lanes)

    def more(self) -> bool:
        return self._left

    def alone_waiting(self) -> bool:
        return self._left if self._request.alone else bool(self._alone_lanes)

    def _find_lanes(self) -> tuple[list[str], list[str]]:
        """The lanes of this request that have ready rows: the shared ones, and those of exclusive rows."""
        shared: list[str] = []
        alone: list[str] = []
        for name in _names(self._tx.value("lanes")):
            queue, handler, *mark = name.split("/")
            wanted = self._request.queues is None or queue in self._request.queues
            wanted = wanted and queue not in self._request.without_queues
            if wanted and handler in self._request.handlers:
                (alone if "alone" in mark else shared).append(name)
        return shared, alone

    def _pick(self) -> list[tuple[int, ExecutionRow]]:
        names = self._alone_lanes if self._request.alone else self._lanes
        seqs = self._pick_seqs(names) if names else []
        if not seqs:
            return []
        now, token = self._tx.now, next_token(0, self._request.stamp)
        terms = as_json(_Terms(State.RUNNING, token, self._request.owner, self._lease, now, now))
        rows = self._tx.executions("live_rows", as_json(seqs), f"{terms[:-1]},")
        return list(zip(seqs, rows, strict=True))

    def _pick_seqs(self, names: list[str]) -> list[int]:
        """List an equal part of each lane and one row more; list deeper only if a lane's list was used up."""
        depth = -(-self._limit // len(names)) + 1
        while True:
            ready = _ready(self._tx.value("candidates", as_json(names), depth))
            lanes = dict(zip(names, ready, strict=True))
            seqs = list(islice(picked(lanes, self._request.turn), self._limit))
            self._left = sum(map(len, ready)) > len(seqs)
            if depth > self._limit or not _used_up(ready, frozenset(seqs), depth):
                return seqs
            depth = min(depth * 4, self._limit + 1)

    def _take_staged(self, seq: int, row: ExecutionRow) -> bool:
        if self._tx.run("claim_staged", *self._terms(), seq) == 1:
            self.taken.append((seq, self._claimed(row)))
            return True
        later = deferred(row, self._tx.now)
        holder = self._tx.value("running_key_holder", row.running_unique_key, row.running_overlap_key, row.id)
        self._tx.run("defer", seq, later.due)
        self.blocked.append(Blocked(later, holder))
        self.put_off = True
        return False

    def _claimed(self, row: ExecutionRow) -> ExecutionRow:
        return claimed(row, self._request, self._lease, self._tx.now)

    def _terms(self) -> tuple[str, int, Micros, Micros]:
        return (self._request.owner, self._request.stamp, self._lease, self._tx.now)


def _used_up(ready: Sequence[Sequence[tuple[int, int]]], seqs: frozenset[int], depth: int) -> bool:
    """Whether all listed rows of a lane were picked although it may have more."""
    return any(len(listed) == depth and listed[-1][1] in seqs for listed in ready)
