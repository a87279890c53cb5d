"""Claiming rows that have limits: the update that claims a row also gives it its slots.

The capacity is read and shared out, tokens are taken, rows are claimed. If another process has taken the same slot
meanwhile, the unique index refuses the row, and it is tried again. A row without capacity is parked. Rows that trade
keys as well are claimed one by one: their limits are checked first, and they take nothing when their running key is
held.

A majority confirms these claims, unlike plain ones: an election must not give one slot to two rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ....model.limits import Limit, decode_limits
from ....model.store.messages import ClaimRequest
from ...common.limits import limits_before
from ..connection.database import Database
from ..documents import Document
from ..limits.buckets import give_back, take_tokens
from ..limits.capacity import Capacity, read_capacity
from ..limits.parking import LIMITED_FIELDS, FullRow, park, pass_on
from ..limits.wait_lines import claimable
from .candidates import Candidates, Claimed, earliest
from .claim_update import TRADE_KEYS, Stages, claim_each, defer, key_holders

_TRIES = 5


class ClaimableRow(NamedTuple):
    """A row that there is capacity for, and its slots."""

    doc: Document
    slots: list[dict[str, Any]]

    @property
    def id(self) -> str:
        return str(self.doc["_id"])

    @property
    def tokens(self) -> list[Limit]:
        return [limit for limit in decode_limits(self.doc["limits"]) if limit.concurrency is None]


class LimitedClaim(msgspec.Struct):
    """Claims rows with limits for one request and adds the outcome to the answer: rows that another process has claimed
    are not in it."""

    db: Database
    request: ClaimRequest
    found: Candidates
    answer: Claimed

    async def claim(self, ids: Sequence[str]) -> None:
        left = list(ids)
        for tried in range(_TRIES):
            if left:
                left = await self._try(left, first=tried == 0)

    async def _try(self, ids: list[str], *, first: bool) -> list[str]:
        """Returns the rows to try again."""
        rows, capacity = (self._known(ids) if first else None) or await self._read(ids, first=first)
        chosen, full = _share_out(rows, capacity)
        again: list[str] = []
        free: list[ClaimableRow] = []
        held = await key_holders(self.db, [row.doc for row in chosen if row.doc.get("staged")])
        for row in chosen:
            if row.id in held:
                again += await self._defer(row.doc)
            else:
                free.append(row)
        again += await self._take(free)
        if full:
            parked = await park(self.db, full, capacity)
            self.answer.parked += parked.rows
            self.answer.passed_on |= parked.woken
            self.answer.recheck_at = earliest(self.answer.recheck_at, parked.recheck_at)
        return again

    def _known(self, ids: Sequence[str]) -> tuple[list[Document], Capacity] | None:
        """Rows whose turn it is were read together with the slots in use."""
        docs = [self.found.turns.get(id, {}) for id in ids]
        limits = [limit for doc in docs for limit in decode_limits(doc["limits"])] if all(docs) else []
        if not limits or any(limit.concurrency is None or limit.key not in self.found.numbers for limit in limits):
            return None
        capacity = Capacity(self.found.now)
        capacity.numbers = {key: set(numbers) for key, numbers in self.found.numbers.items()}
        return docs, capacity

    async def _read(self, ids: Sequence[str], *, first: bool) -> tuple[list[Document], Capacity]:
        """The first time buckets are assumed to be full, without reading them: rows that were woken for their tokens
        find them, and the others are tried again. This is not done where rows have other limits as well, or keys to
        trade: it would be decided too early which of them get the capacity."""
        docs = {doc["_id"]: doc for doc in await self.db.executions.find(claimable(ids), LIMITED_FIELDS)}
        rows = [docs[id] for id in ids if id in docs and "limits" in docs[id]]
        limits = [limit for doc in rows for limit in decode_limits(doc["limits"])]
        simple = len(limits) == len(rows) and not any(doc.get("staged") for doc in rows)
        return rows, await read_capacity(self.db, limits, self.found.now, assume_full=first and simple)

    async def _defer(self, doc: Document) -> list[str]:
        """Returns the row if its key has been freed meanwhile. Other rows get the capacity that it cannot use."""
        blocked, free = await defer(self.db, [doc["_id"]], self.found.now)
        if not blocked:
            return free
        self.answer.blocked += blocked
        limits = decode_limits(doc["limits"])
        capacity = await read_capacity(self.db, limits, self.found.now)
        self.answer.passed_on |= await pass_on(self.db, [capacity.of(limit) for limit in limits]) > 0
        return []

    async def _take(self, chosen: list[ClaimableRow]) -> list[str]:
        """Returns the rows to try again, because another process got the token, the slot or the key first."""
        paid = await self._pay(chosen)
        if not paid:
            return [row.id for row in chosen]
        taking = {row.id: self._stages(row) for row in paid}
        claimed, refused = await claim_each(self.db, self.request, taking, self.db.executions)
        self.answer.rows += claimed
        claimed_ids = {row.id for row in claimed}
        await self._give_back(Counter(t.key for row in paid if row.id not in claimed_ids for t in row.tokens))
        again = [row.id for row in chosen if row not in paid]
        for row in paid:
            if refused.get(row.id) in ("unique_key", "overlap_key"):
                again += await self._defer(row.doc)
            elif row.id in refused:
                again.append(row.id)
        return again

    async def _pay(self, chosen: Sequence[ClaimableRow]) -> list[ClaimableRow]:
        """The rows that got all their tokens, the first ones first."""
        wanted = Counter(limit for row in chosen for limit in row.tokens)
        if not wanted:
            return list(chosen)
        taken = {limit: await take_tokens(self.db, limit, count) for limit, count in wanted.items()}
        paid: list[ClaimableRow] = []
        for row in chosen:
            if all(taken[limit] > 0 for limit in row.tokens):
                taken.update({limit: taken[limit] - 1 for limit in row.tokens})
                paid.append(row)
        rest: Counter[str] = Counter()
        for limit, count in taken.items():
            rest[limit.key] += count
        await self._give_back(rest)
        return paid

    async def _give_back(self, tokens: Counter[str]) -> None:
        for key, count in tokens.items():
            if count:
                await give_back(self.db, key, count)

    def _stages(self, row: ClaimableRow) -> Stages:
        slots: Stages = [{"$set": {"slots": {"$literal": row.slots}}}, {"$unset": ["last_wait_line", "place"]}]
        return [*slots, *TRADE_KEYS] if row.doc.get("staged") else slots


def _share_out(rows: Sequence[Document], capacity: Capacity) -> tuple[list[ClaimableRow], list[FullRow]]:
    """One after another: whether there is capacity for a row depends on those before it."""
    chosen: list[ClaimableRow] = []
    full: list[FullRow] = []
    for doc in rows:
        limits = doc["limits"]
        limit = capacity.first_full(limits)
        if limit is None:
            chosen.append(ClaimableRow(doc, capacity.take(doc["_id"], limits)))
        else:
            full.append(FullRow(doc, limit, [capacity.of(before) for before in limits_before(limits, limit)]))
    return chosen, full
