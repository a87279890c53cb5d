"""Settle, then claim: one statement, one round trip, one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from ....core.ports import Topic
from ....model.execution import ExecutionRow
from ....model.store.messages import Blocked, Change, ClaimRequest, Exchanged
from ....model.time.instants import seconds_to_micros
from ..database import Database
from .literals import Literals, changes_literals, texts
from .rows import executions, is_id
from .usual_endings import endings_literals

T = TypeVar("T")

_NO_CLAIM = (None,) * 7
_NOBODY: frozenset[str] = frozenset()
_decode_ids = msgspec.json.Decoder(frozenset[str]).decode
_decode_blocked = msgspec.json.Decoder(list[tuple[ExecutionRow, str | None]]).decode


async def exchange(db: Database, changes: Sequence[Change], claim: ClaimRequest | None) -> tuple[Exchanged, set[Topic]]:
    """The answer, and what others should be told."""
    usual = endings_literals(changes) if changes else ()
    if usual is not None:
        answer, done, freed = await _exchange(db, "exchange_usual" if usual else "exchange_claim", usual, claim)
        applied = _applied(len(changes), done)
        topics = {Topic.ENDED} if True in applied else set()
    else:
        answer, applied, freed = await _in_rounds(db, changes, claim)
        topics = _topics(changes, applied)
    return msgspec.structs.replace(answer, applied=tuple(applied)), topics | {Topic.WORK} if freed else topics


async def _in_rounds(
    db: Database, changes: Sequence[Change], claim: ClaimRequest | None
) -> tuple[Exchanged, list[bool], bool]:
    applied, freed, answer = [False] * len(changes), False, Exchanged()
    batches = rounds(changes)
    for number, batch in enumerate(batches, 1):
        settled = changes_literals([change for _, change in batch]) if batch else ()
        terms = claim if number == len(batches) else None
        answer, done, freed_now = await _exchange(db, "exchange" if batch else "exchange_claim", settled, terms)
        freed = freed or freed_now
        for (position, _), did in zip(batch, _applied(len(batch), done), strict=True):
            applied[position] = did
    return answer, applied, freed


def rounds(changes: Sequence[Change]) -> list[list[tuple[int, Change]]]:
    """Numbered changes in the order of their ids, no id twice. Hardly ever more than one round."""
    numbered = [(number, change) for number, change in enumerate(changes) if is_id(change.id)]
    result: list[list[tuple[int, Change]]] = []
    while numbered:
        batch = {change.id: (number, change) for number, change in reversed(numbered)}
        result.append([batch[id] for id in sorted(batch)])
        taken = {number for number, _ in batch.values()}
        numbered = [item for item in numbered if item[0] not in taken]
    return result or [[]]


async def _exchange(
    db: Database, statement: str, settled: Literals, claim: ClaimRequest | None
) -> tuple[Exchanged, str | None, bool]:
    row = await db.row(statement, *settled, *_terms(claim))
    done, freed, taken, blocked, count, alone, next_due, now, stopped = row
    claimed = tuple(executions(taken))
    answer = Exchanged(
        claimed=claimed,
        blocked=tuple(Blocked(row, holder) for row, holder in _decode_blocked(f"[{blocked}]")) if blocked else (),
        stopped=_decode_ids(stopped) & {each.job_id for each in claimed} if stopped else _NOBODY,
        alone_waiting=bool(alone),
        more=claim is not None and count >= claim.limit,
        next_due=next_due,
        now=now,
    )
    return answer, done, bool(freed)


def _applied(count: int, positions: str | None) -> list[bool]:
    """None stands for all."""
    if positions is None:
        return [True] * count
    done = set(map(int, filter(None, positions.split(","))))
    return [position in done for position in range(1, count + 1)]


def _terms(claim: ClaimRequest | None) -> tuple[Any, ...]:
    if claim is None:
        return _NO_CLAIM
    return (
        claim.owner,
        _names(claim.handlers),
        None if claim.queues is None else _names(claim.queues),
        seconds_to_micros(claim.lease),
        min(claim.limit, 1) if claim.alone else claim.limit,
        claim.turn,
        claim.alone,
    )


@lru_cache(maxsize=64)
def _names(names: frozenset[str]) -> str:
    return texts(sorted(names)) or "{}"


def _topics(changes: Sequence[Change], applied: Iterable[bool]) -> set[Topic]:
    done = [change for change, did in zip(changes, applied, strict=True) if did]
    return {Topic.ENDED if change.to.final else Topic.WORK for change in done}
