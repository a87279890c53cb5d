"""Settle, then claim: one statement, one round trip, one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from ...core.ports import Topic
from ...model.changes import Blocked, Change, ClaimRequest, Exchanged
from ...model.execution import Execution
from ...model.instants import seconds_to_micros
from .arrays import NOTHING, changes_literals, texts
from .database import Database
from .rows import executions, is_id

T = TypeVar("T")

_NO_CLAIM = (None,) * 7
_decode_blocked = msgspec.json.Decoder(list[tuple[Execution, str | None]]).decode


async def exchange(db: Database, changes: Sequence[Change], claim: ClaimRequest | None) -> tuple[Exchanged, set[Topic]]:
    """The answer, and what others should be told."""
    applied = [False] * len(changes)
    *earlier, last = rounds(changes)
    for batch in earlier:
        await _exchange(db, batch, None, applied)
    answer, freed = await _exchange(db, last, claim, applied)
    answer = msgspec.structs.replace(answer, applied=tuple(applied))
    return answer, _topics(changes, applied, freed)


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
    db: Database, batch: list[tuple[int, Change]], claim: ClaimRequest | None, applied: list[bool]
) -> tuple[Exchanged, bool]:
    settled = changes_literals([change for _, change in batch]) if batch else NOTHING
    done, freed, taken, blocked, count, alone, next_due, now = await db.row("exchange", *settled, *_terms(claim))
    positions = range(1, len(batch) + 1) if done is None else map(int, filter(None, done.split(",")))
    for position in positions:
        applied[batch[position - 1][0]] = True
    answer = Exchanged(
        claimed=tuple(executions(taken)),
        blocked=tuple(Blocked(row, holder) for row, holder in _decode_blocked(f"[{blocked or ''}]")),
        alone_waiting=bool(alone),
        more=claim is not None and count >= claim.limit,
        next_due=next_due,
        now=now,
    )
    return answer, bool(freed)


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


def _topics(changes: Sequence[Change], applied: Iterable[bool], freed: bool) -> set[Topic]:
    done = [change for change, did in zip(changes, applied, strict=True) if did]
    topics = {Topic.ENDED if change.to.final else Topic.WORK for change in done}
    return topics | {Topic.WORK} if freed else topics
