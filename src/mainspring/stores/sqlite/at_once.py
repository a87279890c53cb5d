"""The usual exchange, in one step of SQLite: what completed is settled, what is ready in one lane is claimed.

A thread that leaves SQLite needs the lock of the interpreter, and an event loop that is busy hardly lets go of it:
statement by statement, the writer would go on only when the loop has nothing left to do. So the usual exchange is one
statement (sql/part_exchange_objects.sql), which commits too, and handlers run beside it. Exchanges that wait together
are carried out together. Whatever is not usual (a key that somebody waits for, limits, rows that run alone, several
lanes, work that has just become due) makes that statement fail before anything is done, and goes the long way.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ...core.ports import Clock, Topic
from ...model.changes import Change, ClaimRequest, Exchanged
from ...model.instants import Micros, seconds_to_micros
from ..flow import look_at_slots
from .calls import Call
from .claimed import ClaimedRows, Ending
from .claiming import claim_terms, exchange, is_alone, is_wanted
from .moving import completed_delta, grouped
from .rows import ending_tail, executions
from .schema import split
from .statements import sql, sql_for_rows
from .transaction import Transaction, as_json, totals_row
from .turns import Turns

FEWEST = 20
"""Endings. With fewer the event loop has little to do meanwhile."""
LONG_WAY = 10
"""How many batches go the long way after one that was refused: what is unusual mostly stays so for a while."""
MOST = 1_000
"""Endings that one statement takes, and rows that it claims."""
_ROWS_STEP = 16  # few sizes of the statement, so that each is prepared once

_names = msgspec.json.Decoder(list[str]).decode
_seqs = msgspec.json.Decoder(list[int]).decode
_lines = msgspec.json.Encoder().encode_lines


def prepare(connection: sqlite3.Connection) -> None:
    """What the statement needs: temporary objects, which are this connection's own and on no disk."""
    for statement in split(sql("part_exchange_objects")):
        connection.execute(statement)


class Exchange:
    """One call of the store's `exchange`."""

    def __init__(self, changes: Sequence[Change], claim: ClaimRequest | None, ours: ClaimedRows) -> None:
        self.changes, self.claim, self.ours = changes, claim, ours

    def __call__(self, tx: Transaction) -> Exchanged:
        return exchange(tx, self.changes, self.claim, self.ours)


class _Asked(NamedTuple):
    """What several exchanges of one owner ask for together."""

    works: list[Exchange]
    endings: list[Ending]
    todo: bool
    keep: bool
    owner: str | None
    request: ClaimRequest | None
    most: int


class AtOnce:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lanes: str | None = None  # all that have ready rows, as last seen
        self._long_way = 0
        self._prompt = False  # the last batch went this way, so the next one probably will
        self._turns = Turns()

    def make_way(self, work: Exchange) -> None:
        """On the event loop, for an exchange that was handed over just now."""
        if self._prompt and len(work.changes) >= FEWEST:
            self._turns.make_way()

    def nothing_left(self) -> None:
        self._turns.goes()

    def serve(self, connection: sqlite3.Connection, calls: Sequence[Call[Any]]) -> set[Topic] | None:
        """None: these calls, or the rows they meet, are not the usual ones, and nothing was done."""
        self._turns.came()
        self._prompt = False
        if self._rests():
            return None
        try:
            asked = _asked(calls)
            now = None if asked is None else self._write(connection, asked)
        except Exception:  # refused by the statement itself, or by SQLite, which says why when it is asked again
            self._lanes, self._long_way = None, LONG_WAY
            return None
        if asked is None or now is None:
            return None
        try:
            self._answer(connection, asked, calls, now)
        except Exception as error:  # it is committed; what was claimed comes back when its lease has run out
            for call in calls:
                call.error = error
        self._prompt = True
        return {Topic.ENDED}

    def _rests(self) -> bool:
        self._long_way = max(0, self._long_way - 1)
        return self._long_way > 0

    def _write(self, connection: sqlite3.Connection, asked: _Asked) -> Micros | None:
        """When. None: there is more than one lane to claim from, or one of rows that run alone."""
        if self._lanes is None:
            [(self._lanes,)] = connection.execute(sql("lanes")).fetchall()
        lanes = _wanted(self._lanes, asked.request)
        if len(lanes) > 1 or any(map(is_alone, lanes)):
            return None
        now = self._clock.now()
        freed = any(row.unique_key is not None or row.overlap_key is not None for _, row, _ in asked.endings)
        settle = (len(asked.endings), asked.todo, asked.keep, asked.owner, freed, *_counts(asked.endings))
        claim = (self._lanes, lanes[0] if lanes else None, asked.most, now, _lease(asked, now), look_at_slots(now))
        values = _ended_values(asked.endings)
        statement = sql_for_rows("exchange", len(values) // 4)
        values.append(as_json((*settle, *claim)))
        self._turns.steps_in(len(asked.endings) + asked.most)
        try:
            connection.execute(statement, values)
        finally:
            self._turns.stepped_out()
        return now

    def _answer(self, connection: sqlite3.Connection, asked: _Asked, calls: Sequence[Call[Any]], now: Micros) -> None:
        """After the commit: what was claimed, shared out in the order of the calls."""
        terms = claim_terms(asked.owner or "", _lease(asked, now), now)
        read = connection.execute(sql("exchange_claimed"), (look_at_slots(now), terms)).fetchall()
        [(text, numbers, self._lanes, next_due)] = read
        claimed = executions(text)
        ours = asked.works[0].ours
        ours.forget(asked.endings)
        ours.remember(zip(_seqs(numbers), claimed, strict=True))
        alone = [is_alone(lane) for lane in _wanted(self._lanes, asked.request)]
        first = 0
        for call, work in zip(calls, asked.works, strict=True):
            last = first + _limit(work)
            call.result = Exchanged(
                applied=(True,) * len(work.changes),
                claimed=tuple(claimed[first:last]),
                alone_waiting=work.claim is not None and any(alone),
                more=work.claim is not None and not all(alone),
                next_due=next_due,
                now=now,
            )
            first = last


def _asked(calls: Sequence[Call[Any]]) -> _Asked | None:
    """None if one of them is not a usual exchange, or if they differ in their terms."""
    works = [call.work for call in calls if isinstance(call.work, Exchange)]
    changes = [change for work in works for change in work.changes]
    if not FEWEST <= len(changes) <= MOST:
        return None
    requests = {_terms(work.claim) for work in works if work.claim is not None}
    terms = {(change.todo, change.keep, change.owner) for change in changes}
    if len(requests) > 1 or len(terms) > 1:
        return None
    [(todo, keep, owner)] = terms
    request = next((work.claim for work in works if work.claim is not None), None)
    if request is not None and (request.alone or request.owner != owner):
        return None
    most = sum(map(_limit, works))
    endings = works[0].ours.usual(changes) if most <= MOST else None
    if endings is None or any(row.limits is not None for _, row, _ in endings):
        return None
    return _Asked(works, endings, todo, keep, owner, request, most)


def _terms(request: ClaimRequest) -> tuple[object, ...]:
    return (request.owner, request.handlers, request.queues, request.lease, request.alone)


def _limit(work: Exchange) -> int:
    return 0 if work.claim is None else max(work.claim.limit, 0)


def _lease(asked: _Asked, now: Micros) -> Micros | None:
    return None if asked.request is None else now + seconds_to_micros(asked.request.lease)


def _wanted(lanes: str, request: ClaimRequest | None) -> list[str]:
    """Those of these lanes that may be claimed from."""
    return [] if request is None else [name for name in _names(lanes) if is_wanted(name, request)]


def _ended_values(endings: Sequence[Ending]) -> list[Any]:
    """Four for each row. The texts of attempts are made in one go: none of them contains a line break."""
    attempts = _lines([[change.attempt] for _, _, change in endings]).decode().rstrip("\n").split("\n")
    values: list[Any] = []
    for (seq, _, change), text in zip(endings, attempts, strict=True):
        values += (seq, change.at, text, ending_tail(change))
    for filler in range(-len(endings) % _ROWS_STEP):
        values += (-1 - filler, None, None, None)
    return values


def _counts(endings: Sequence[Ending]) -> tuple[list[Any], list[Any], list[Any]]:
    """For the statistics of each job: totals, endings by trigger, how many are live no longer."""
    deltas = [completed_delta(id, ended) for id, ended in grouped(endings, lambda ending: ending[1].job_id).items()]
    by_trigger = [(delta.job_id, ending, count) for delta in deltas for ending, count in delta.by_trigger.items()]
    ended = [(delta.job_id, delta.completed) for delta in deltas]
    return [totals_row(delta) for delta in deltas], by_trigger, ended
