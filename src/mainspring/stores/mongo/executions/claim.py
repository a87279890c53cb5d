"""Claiming in two steps: look which rows come next, then take them with one update that leaves the stamp of this claim.

Rows that somebody else took in between are passed over, and others are looked for. Staged rows, which trade their keys
when they are first claimed, are taken one by one: when a running key is held, the unique index refuses that row alone.
Rows with limits are taken apart too (`limiting`). Taking all rows one by one with findOneAndUpdate was six to nine
times slower (benchmarks/mongo_claim.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

import msgspec

from ....model.execution import ExecutionRow
from ....model.store.messages import Blocked, Change, ClaimRequest
from ....model.time.instants import Micros
from ...common.rows import picked
from ..connection.database import Database
from ..limits.claim import take_limited
from ..limits.parking import bring_forward, look_at_parked
from ..limits.waking import may_wait, promote, wake_freed
from .candidates import Outlook, look
from .claim_update import take_plain
from .staged import take_staged

_PROMOTIONS = 10
_ROUNDS = 12


class Claimed(msgspec.Struct):
    """`parked` rows were left for want of room under a limit; the first of them is looked at again at `look`.
    `cancelled`: there are cancelled jobs, perhaps among those of the rows."""

    rows: list[ExecutionRow] = []
    blocked: list[Blocked] = []
    parked: int = 0
    look: Micros | None = None
    more: bool = False
    alone_waiting: bool = False
    next_due: Micros | None = None
    now: Micros = 0
    woken: bool = False
    passed_on: bool = False
    cancelled: bool = False

    @property
    def used_up(self) -> int:
        """How much of the limit of the request."""
        return len(self.rows) + len(self.blocked) + self.parked


async def claim(db: Database, request: ClaimRequest, left: Sequence[Change]) -> Claimed:
    """`left` are the changes just applied that free something: whoever waits for it is due at once."""
    limit = min(request.limit, 1) if request.alone else request.limit
    answer = Claimed()
    for tried in range(_ROUNDS):
        before = answer.used_up
        room = limit - before
        spread = 4 if tried else 1  # who was late once looks further ahead, where nobody else is
        outlook = await _look(db, request, room * spread + 1, left if tried == 0 else ())
        answer.woken, answer.cancelled = answer.woken or outlook.woken, answer.cancelled or outlook.cancelled
        candidates = outlook.wanted(request)
        chosen = _chosen(candidates, request.turn, room, skip=tried > 0)
        await _take(db, request, chosen, outlook, answer)
        count, taken = sum(map(len, candidates.values())), answer.used_up - before
        _learn(answer, request, outlook, count - len(chosen))
        if taken == len(chosen) and (taken == room or count <= taken):
            break
    if answer.passed_on:  # others have become ready instead
        outlook = await _look(db, request, 1, ())
        _learn(answer, request, outlook, sum(map(len, outlook.wanted(request).values())))
    return answer


def _chosen(candidates: dict[str, Any], turn: int, room: int, *, skip: bool) -> list[str]:
    ids = list(picked(candidates, turn)) if skip else list(islice(picked(candidates, turn), room))
    first = random.randrange(len(ids) - room + 1) if len(ids) > room else 0
    return ids[first : first + room]


def _learn(answer: Claimed, request: ClaimRequest, outlook: Outlook, left: int) -> None:
    answer.more = left > 0
    answer.alone_waiting = left > 0 if request.alone else bool(outlook.alone)
    answer.now = outlook.now
    known = [outlook.next_due, outlook.next_look, answer.look, *(blocked.execution.due for blocked in answer.blocked)]
    answer.next_due = min((due for due in known if due is not None), default=None)


async def _look(db: Database, request: ClaimRequest, most: int, left: Sequence[Change]) -> Outlook:
    """What there is once those that waited for what was freed are woken, if there were any, and rows whose time has
    come are ready."""
    woken = db.expects_look() and bool(await look_at_parked(db))
    outlook = await look(db, request, most, waiters=bool(left))
    if (outlook.waiters or may_wait(db, left)) and (freed := await wake_freed(db, left)):
        woken = True
        if freed.fair and not freed.disturbed and not outlook.is_due(outlook.next_look):
            await promote(db, outlook.now)  # they get their tags now: it would be found out only by another look
        outlook = await look(db, request, most, waiters=False)
    for _ in range(_PROMOTIONS):
        late, looks = outlook.is_due(outlook.next_due), outlook.is_due(outlook.next_look) or outlook.is_ahead()
        if not late and not looks:
            break
        if outlook.is_ahead():
            await bring_forward(db)
        if looks:
            woken = bool(await look_at_parked(db)) or woken
        if late:
            await promote(db, outlook.now)
        outlook = await look(db, request, most, waiters=False)
    outlook.woken = woken
    return outlook


# --- taking ---------------------------------------------------------------------------------------------------------


async def _take(db: Database, request: ClaimRequest, ids: Sequence[str], outlook: Outlook, answer: Claimed) -> None:
    """In the order of picking; what somebody else has taken meanwhile is left out."""
    apart = outlook.staged | outlook.limited
    plain = [id for id in ids if id not in apart]
    rows = {row.id: row for row in (await take_plain(db, request, plain) if plain else [])}
    for limited, some in groupby([id for id in ids if id in apart], outlook.limited.__contains__):
        if limited:
            for batch in _batches(some, outlook.staged):
                rows |= await _take_limited(db, request, batch, outlook, answer)
            continue
        for id in some:
            match await take_staged(db, request, id):
                case Blocked() as refused:
                    answer.blocked.append(refused)
                case ExecutionRow() as row:
                    rows[id] = row
                case None:
                    pass
    answer.rows += [rows[id] for id in ids if id in rows]


async def _take_limited(
    db: Database, request: ClaimRequest, ids: Sequence[str], outlook: Outlook, answer: Claimed
) -> dict[str, ExecutionRow]:
    outcome = await take_limited(db, request, ids, outlook.now)
    answer.blocked += outcome.blocked
    answer.parked += outcome.parked
    answer.woken = answer.woken or outcome.woken
    answer.passed_on = answer.passed_on or outcome.woken
    answer.look = min((look for look in (answer.look, outcome.look) if look is not None), default=None)
    return {row.id: row for row in outcome.rows}


def _batches(ids: Iterable[str], staged: set[str]) -> Iterator[list[str]]:
    """Staged ones each on its own: what becomes of it tells how much room those after it have."""
    for is_staged, alike in groupby(ids, staged.__contains__):
        some = list(alike)
        yield from ([id] for id in some) if is_staged else [some]
