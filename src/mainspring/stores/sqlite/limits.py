"""Limits by key: slots in use, token buckets, rows parked for one of them, looks at those.

There is one writer at a time, so what a transaction reads of slots and tokens holds until it commits. A slot in use is
a row of its own, written and deleted in the transaction that changes the phase of the running row: nothing can drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.ports import Topic
from ...model.execution import Execution
from ...model.instants import Micros
from ...model.limits import Limit, decode_limits
from ..flow import (
    Bucket,
    Wait,
    after_taking,
    keys_of,
    level_of,
    limit_of,
    limits_before,
    look_at_slots,
    look_at_tokens,
    tokens_in,
    wait_of,
)
from .transaction import Transaction, as_json

LOOKS_AT_ONCE = 200  # keys per exchange: looks must not hold up a claim either


class Limits:
    """Slots and tokens as one step of a transaction finds and uses them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._slots: dict[str, int] = {}
        self._buckets: dict[str, Bucket | None] = {}
        self._held: list[tuple[str, int]] = []
        self._taken: set[str] = set()
        self._parked: list[tuple[int, str]] = []
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

    def park(self, seq: int, limits: str, full: Limit) -> None:
        """Out of the ready order; the room it had under the limits before goes to the next of those who wait for it."""
        wait = wait_of(full)
        self._parked.append((seq, _text(wait)))
        look = self.next_look(full)
        self._looks[wait] = min(look, self._looks.get(wait, look))
        before = limits_before(limits, full)
        if before:
            self._write_parked()
            self.woken += sum(wake(self._tx, wait_of(limit), 1) for limit in before)

    def next_look(self, limit: Limit, woken: int = 0) -> Micros:
        if limit.concurrency is not None:
            return look_at_slots(self._tx.now)
        return look_at_tokens(self.level(limit) - woken, limit, self._tx.now)

    def save(self) -> None:
        self._write_parked()
        self._tx.bulk("slots_hold", self._held)
        for key in sorted(self._taken):
            bucket = self._buckets[key]
            assert bucket is not None
            self._tx.run("bucket_save", key, *bucket)

    def _write_parked(self) -> None:
        if self._parked:
            self._tx.run("park", as_json(self._parked))
        for wait, look in self._looks.items():
            self._tx.run("wait_begin", _text(wait), look)
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


def hold_slots(tx: Transaction, seq: int, row: Execution) -> None:
    """Of a row that comes running already."""
    if row.limits is not None:
        tx.bulk("slots_hold", [(key, seq) for key in keys_of(row.limits)])


def leave_slots(tx: Transaction, left: Sequence[tuple[int, str]]) -> None:
    """These rows, each given with its limits, run no longer: as many that wait for their slots are woken."""
    slots: dict[str, list[int]] = {}
    for seq, limits in left:
        for key in keys_of(limits):
            slots.setdefault(key, []).append(seq)
    for key, seqs in slots.items():
        tx.run("slots_leave", key, as_json(seqs))
        wake(tx, Wait(key, "slot"), len(seqs))


def look_again(tx: Transaction) -> None:
    """At what rows are parked for, where it is time to; as many are woken as there is room for."""
    for (parked,) in tx.rows("waits_due", tx.now, LOOKS_AT_ONCE):
        kind, _, key = parked.partition(":")
        _look(tx, Wait(key, kind))


def _look(tx: Transaction, wait: Wait) -> None:
    """By the numbers of the first that waits."""
    first = tx.value("parked_first", _text(wait))
    limit = None if first is None else limit_of(first, wait)
    if limit is None:
        end_waits(tx, [wait])
        return
    limits = Limits(tx)
    room = max(0, limits.room(limit))
    tx.run("wait_look", _text(wait), limits.next_look(limit, room))
    wake(tx, wait, room)


def wake(tx: Transaction, wait: Wait, count: int) -> int:
    """The first that wait become ready; how many there were."""
    if count == 0:
        return 0
    woken = tx.run("unpark", _text(wait), count)
    if woken:
        end_waits(tx, [wait])
        tx.topics.add(Topic.WORK)
    return woken


def parked_row_left(tx: Transaction, rows: Iterable[Execution]) -> None:
    """These were parked and are not any longer, for another reason than room."""
    keys = {row.parked for row in rows if row.parked is not None}
    end_waits(tx, [wait for key in sorted(keys) for wait in (Wait(key, "slot"), Wait(key, "token"))])


def end_waits(tx: Transaction, waits: Iterable[Wait]) -> None:
    """Those that nobody waits for."""
    for wait in waits:
        tx.run("wait_end", _text(wait))


def _text(wait: Wait) -> str:
    """As it stands in the column `parked`."""
    return f"{wait.kind}:{wait.key}"
