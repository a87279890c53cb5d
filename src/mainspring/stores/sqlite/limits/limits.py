"""Limits by key: slots in use, token buckets, checks of wait lines.

There is one writer at a time, so the slots and tokens that a transaction reads stay the same until it commits. Each
slot in use is a row, written and deleted in the transaction that changes the phase of the running row: it cannot drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....core.ports import Topic
from ....model.execution import ExecutionRow
from ....model.limits import Limit, decode_limits
from ....model.time.instants import Micros
from ...common.limits import (
    Bucket,
    Wait,
    WaitKind,
    after_taking,
    anchored,
    keys_of,
    level_of,
    limits_before,
    next_slot_check,
    next_token_check,
    tokens_in,
    wait_of,
)
from ..transaction import Transaction, as_json
from .waiting_order import lines_of, park, wait_text

LOOKS_AT_ONCE = 200  # keys checked per exchange, so that checks do not hold up a claim
_KINDS: tuple[WaitKind, ...] = ("slot", "token")


class Limits:
    """Slots and tokens as one step of a transaction finds and uses them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._slots: dict[str, int] = {}
        self._buckets: dict[str, Bucket | None] = {}
        self._held: list[tuple[str, int]] = []
        self._taken: set[str] = set()
        self._parked: list[tuple[int, ExecutionRow, Limit]] = []
        self._looks: dict[Wait, Micros] = {}
        self.woken = 0

    def full(self, limits: str) -> Limit | None:
        """The first limit that has no room."""
        return next((limit for limit in decode_limits(limits) if self.room(limit) < 1), None)

    def room(self, limit: Limit) -> int:
        if limit.concurrency is not None:
            return limit.concurrency - self._in_use(limit.key)
        return tokens_in(self.level(limit))

    def level(self, limit: Limit) -> float:
        return level_of(self._bucket(limit.key), limit, self._tx.now)

    def take(self, seq: int, limits: str) -> None:
        """A slot of each key, a token of each rate."""
        for key in keys_of(limits):
            self._held.append((key, seq))
            self._slots[key] = self._in_use(key) + 1
        for limit in decode_limits(limits):
            if limit.concurrency is None:
                self._buckets[limit.key] = after_taking(self._bucket(limit.key), limit, self._tx.now)
                self._taken.add(limit.key)

    def park(self, seq: int, row: ExecutionRow, full: Limit) -> None:
        """Take the row out of the ready order, and give its room under the limits before to rows that wait for it."""
        assert row.limits is not None
        self._parked.append((seq, row, full))
        look, wait = self.next_look(full), wait_of(full)
        self._looks[wait] = min(look, self._looks.get(wait, look))
        self._pass_on(limits_before(row.limits, full))

    def pass_on(self, limits: str) -> None:
        """Give the room that a row has under all its limits, but cannot use, to rows that wait for it."""
        self._pass_on(decode_limits(limits))

    def _pass_on(self, limits: Sequence[Limit]) -> None:
        if limits:
            self._write_parked()
        for limit in limits:
            self.wake(wait_of(limit), 1)

    def wake(self, wait: Wait, count: int | None = None) -> None:
        """Make the first `count` rows of each line ready, as far as there is room; by default as many as fit."""
        woken = 0
        for line, limit in lines_of(self._tx, wait).items():
            room = max(0, self.room(limit))
            wanted = room if count is None else min(count, room)
            woken += self._tx.run("unpark", wait_text(wait), line, wanted, self._tx.now) if wanted else 0
        if woken:
            self._tx.run("wait_end", wait_text(wait))
            self._tx.topics.add(Topic.WORK)
            self.woken += woken

    def look(self, wait: Wait) -> None:
        """Check a key: wake as many rows as fit, and plan the next check."""
        bucket = self._bucket(wait.key) if wait.kind == "token" else None
        if bucket is not None and bucket.since > self._tx.now:
            self._buckets[wait.key] = anchored(bucket, self._tx.now)
            self._taken.add(wait.key)
        self.wake(wait)
        lines = lines_of(self._tx, wait).values()
        if lines:
            look = min(self.next_look(limit, max(0, self.room(limit))) for limit in lines)
            self._tx.run("wait_look", wait_text(wait), look)
        else:
            self._tx.run("wait_end", wait_text(wait))

    def next_look(self, limit: Limit, woken: int = 0) -> Micros:
        if limit.concurrency is not None:
            return next_slot_check(self._tx.now)
        return next_token_check(self.level(limit) - woken, limit, self._tx.now)

    def save(self) -> None:
        self._write_parked()
        self._tx.bulk("slots_hold", self._held)
        for key in sorted(self._taken):
            bucket = self._buckets[key]
            assert bucket is not None
            self._tx.run("bucket_save", key, *bucket)

    def _write_parked(self) -> None:
        if self._parked:
            park(self._tx, self._parked)
        for wait, look in self._looks.items():
            self._tx.run("wait_begin", wait_text(wait), look)
        self._parked, self._looks = [], {}

    def _in_use(self, key: str) -> int:
        if key not in self._slots:
            self._slots[key] = self._tx.value("slots_held", key)
        return self._slots[key]

    def _bucket(self, key: str) -> Bucket | None:
        if key not in self._buckets:
            found = self._tx.rows("bucket", key)
            self._buckets[key] = Bucket(*found[0]) if found else None
        return self._buckets[key]


def hold_slots(tx: Transaction, seq: int, row: ExecutionRow) -> None:
    """The slots of a row that arrives running."""
    if row.limits is not None:
        tx.bulk("slots_hold", [(key, seq) for key in keys_of(row.limits)])


def leave_slots(tx: Transaction, left: Sequence[tuple[int, str]]) -> None:
    """These rows, each given with its limits, stopped running: wake as many rows that wait for their slots."""
    slots: dict[str, list[int]] = {}
    for seq, limits in left:
        for key in keys_of(limits):
            slots.setdefault(key, []).append(seq)
    for key, seqs in slots.items():
        tx.run("slots_leave", key, as_json(seqs))
    room = Limits(tx)
    for key, seqs in slots.items():
        room.wake(Wait(key, "slot"), len(seqs))


def recheck_due(tx: Transaction) -> None:
    """Check the keys whose time has come."""
    limits = Limits(tx)
    for (parked,) in tx.rows("waits_due", tx.now, LOOKS_AT_ONCE, next_slot_check(tx.now)):
        kind, _, key = parked.partition(":")
        limits.look(Wait(key, kind))
    limits.save()


def recheck_soon(tx: Transaction, seqs: Iterable[int]) -> None:
    """Called before a change is applied to these pending rows. A parked one leaves its line, a woken one the room it
    was woken for, so their keys are checked in this transaction."""
    for parked in sorted({parked for _, parked, *_ in tx.rows("standing", as_json(list(seqs)))}):
        for kind in _KINDS:
            tx.run("wait_look", wait_text(Wait(parked.partition(":")[2], kind)), tx.now)
