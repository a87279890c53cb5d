"""Claiming in two steps: find the rows that come next, then claim them with one update that leaves the stamp of this
claim.

Rows that another process claims in between are passed over, and others are looked for. Rows that take something when
they are claimed, keys (`claim_update`) or slots and tokens (`claim_limited`), are claimed apart. Claiming all rows one
by one with findOneAndUpdate was six to nine times slower (benchmarks/mongo_claim.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby, islice

from ....model.store.messages import ClaimRequest
from ...common.rows import picked
from ..connection.database import Database
from ..limits.parking import bring_forward, recheck_parked
from ..limits.waking import NOTHING, Freed, promote, wake_rows
from .candidates import Candidates, Claimed, Lanes, find_candidates
from .claim_limited import LimitedClaim
from .claim_update import claim_plain, claim_staged

_PROMOTIONS = 10
_ROUNDS = 12


async def claim(db: Database, request: ClaimRequest, freed: Freed) -> Claimed:
    """Rows that wait for what has been freed are claimed, or made ready, in the same way as if they had been ready."""
    limit = min(request.limit, 1) if request.alone else request.limit
    answer = Claimed()
    for tried in range(_ROUNDS):
        before = answer.used_up
        wanted = limit - before
        ahead = 4 if tried else 1  # after losing rows to another process, look further ahead
        found = await ready_candidates(db, request, wanted * ahead + 1, freed)
        lanes = found.of(request)
        chosen = _choose(lanes, request.turn, wanted, skip=tried > 0)
        answer.woken |= await wake_rows(db, [id for id in found.turns if id not in chosen]) > 0
        await _claim_chosen(db, request, chosen, found, answer)
        count, used = sum(map(len, lanes.values())), answer.used_up - before
        _add_answer(answer, request, found, count - len(chosen))
        if used == len(chosen) and (used == wanted or count <= used):
            break
        settled = {row.id for row in answer.rows} | {each.execution.id for each in answer.blocked}
        if settled.issuperset(id for id in chosen if id in found.turns):
            freed = NOTHING
    if answer.passed_on:
        answer.woken = True
        found = await ready_candidates(db, request, 1, NOTHING)
        _add_answer(answer, request, found, sum(map(len, found.of(request).values())))
    db.remember_claims(answer.rows)
    return answer


def _choose(lanes: Lanes, turn: int, wanted: int, *, skip: bool) -> list[str]:
    """The rows to claim; with `skip` a random run of them, so that concurrent claims choose different ones."""
    ids = list(picked(lanes, turn)) if skip else list(islice(picked(lanes, turn), wanted))
    first = random.randrange(len(ids) - wanted + 1) if len(ids) > wanted else 0
    return ids[first : first + wanted]


def _add_answer(answer: Claimed, request: ClaimRequest, found: Candidates, left: int) -> None:
    answer.add_candidates(found)
    answer.more = left > 0
    answer.alone_waiting = left > 0 if request.alone else bool(found.alone)


async def ready_candidates(db: Database, request: ClaimRequest | None, most: int, freed: Freed) -> Candidates:
    """The candidates once rows that are due are ready. Without a request only woken rows are made ready."""
    woken = request is not None and db.is_recheck_expected() and bool(await recheck_parked(db))
    found = await find_candidates(db, request, most, freed)
    for _ in range(_PROMOTIONS if request is not None else 2):
        shared = found.has_shared_turns()
        late = shared or (found.has_late_rows() and (request is not None or woken))
        recheck = found.has_due_recheck() or found.is_recheck_too_far()
        if not late and not recheck:
            break
        if found.is_recheck_too_far():
            await bring_forward(db)
        if recheck:
            woken = bool(await recheck_parked(db)) or woken
        if shared:
            woken, freed = await wake_rows(db, list(found.turns)) > 0 or woken, NOTHING
        if late:
            await promote(db, found.now)
        found = await find_candidates(db, request, most, freed)
    found.woken |= woken
    return found


async def _claim_chosen(
    db: Database, request: ClaimRequest, ids: Sequence[str], found: Candidates, answer: Claimed
) -> None:
    """Claim these rows, in the order of picking."""
    apart = found.staged | found.limited
    before, answer.now = len(answer.rows), found.now
    if plain := [id for id in ids if id not in apart]:
        answer.rows += await claim_plain(db, request, plain)
    kinds = groupby((id for id in ids if id in apart), key=lambda id: (id in found.limited, id in found.staged))
    for (is_limited, is_staged), group in kinds:
        if not is_limited:
            await claim_staged(db, request, list(group), answer)
            continue
        # Staged rows one by one: the outcome of one decides how much capacity those after it have.
        for batch in [[id] for id in group] if is_staged else [list(group)]:
            await LimitedClaim(db, request, found, answer).claim(batch)
    order = {id: n for n, id in enumerate(ids)}
    answer.rows[before:] = sorted(answer.rows[before:], key=lambda row: order[row.id])
