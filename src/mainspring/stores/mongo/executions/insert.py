"""Adding executions: one insert for all; those that the unique indexes refuse are looked at one by one, in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pymongo.errors import BulkWriteError, DuplicateKeyError, PyMongoError

from ....model.execution import ExecutionRow
from ....model.store.messages import Added, Audit
from ...common.rows import in_slot, overlap_choices, skipped_record
from ..audit import move_out, pushed
from ..connection.database import Database, duplicate_index, is_lost
from ..limits.shares import entering, tags
from .documents import document

_DUPLICATE = 11000
_TRIES = 10
_PART = 125

Turns: TypeAlias = Mapping[str, int]
"""Tags of those that are ready at once and have a share, by id."""


async def add(db: Database, executions: Sequence[ExecutionRow], audits: Sequence[Audit]) -> list[Added]:
    """Their incarnations are known already."""
    if not executions:
        return []
    records = pushed(audits)
    shared = entering(executions)
    turns = await tags(db, shared) if shared else {}
    rivals = _rivals(executions)
    rest = [e for n, e in enumerate(executions) if n not in rivals]
    # Large batches go in parts: the next one is made ready while the server works on the one before.
    parts = [rest[start : start + _PART] for start in range(0, len(rest), _PART)]
    added = [
        one
        for part in await asyncio.gather(*(_add_together(db, part, records, turns) for part in parts))
        for one in part
    ]
    for n in sorted(rivals):  # in order: what becomes of one depends on what became of those before it
        added.insert(n, await _add_alone(db, executions[n], records, turns))
    if records:
        await move_out(db, db.executions, [execution.id for execution in executions])
    return added


def _rivals(executions: Sequence[ExecutionRow]) -> set[int]:
    """The places of those that ask for what another one of the same batch asks for: an id, or a key."""
    if not any(e.unique_key or e.overlap_key for e in executions) and len({e.id for e in executions}) == len(
        executions
    ):
        return set()
    claims = [
        {("id", e.id), ("unique", e.unique_key), *(("overlap", k) for k in overlap_choices(e))} for e in executions
    ]
    counts = Counter(claim for each in claims for claim in each if claim[1] is not None)
    return {n for n, each in enumerate(claims) if any(counts[claim] > 1 for claim in each)}


async def _add_together(
    db: Database, executions: list[ExecutionRow], records: list[dict[str, Any]], turns: Turns
) -> list[Added]:
    documents = [
        _with_audits(document(_in_first_slot(execution), turns.get(execution.id)), records) for execution in executions
    ]
    refused, unsure = await _insert(db, documents)
    added = [Added(execution.id, "added") for execution in executions]
    for n in sorted(refused):
        if refused[n] == "_id":
            again = unsure and await _is_ours(db, documents[n])
            added[n] = Added(executions[n].id, "added" if again else "duplicate")
        else:
            added[n] = await _add_keyed(db, executions[n], records, turns)
    return added


async def _add_alone(db: Database, execution: ExecutionRow, records: list[dict[str, Any]], turns: Turns) -> Added:
    if await db.executions.find_one({"_id": execution.id}, {"_id": 1}) is not None:
        return Added(execution.id, "duplicate")
    if execution.state.final:
        [added] = await _add_together(db, [execution], records, turns)
        return added
    return await _add_keyed(db, execution, records, turns)


def _in_first_slot(execution: ExecutionRow) -> ExecutionRow:
    """The first of the keys to try; one that has ended holds none, and stays as it is."""
    several = execution.overlap_key is not None and execution.overlap_slots > 1 and not execution.state.final
    return in_slot(execution, overlap_choices(execution)[0]) if several else execution


def _with_audits(doc: dict[str, Any], records: list[dict[str, Any]]) -> dict[str, Any]:
    return {**doc, "audits": records} if records else doc


async def _insert(db: Database, documents: list[dict[str, Any]]) -> tuple[dict[int, str], bool]:
    """Which were refused, and by which index; whether an answer got lost before, so that a refusal may be our own."""
    unsure = False
    while True:
        try:
            await db.executions.insert_many(documents, ordered=False)
            return {}, unsure
        except BulkWriteError as error:
            failed = error.details["writeErrors"]
            if error.details.get("writeConcernErrors") or any(one["code"] != _DUPLICATE for one in failed):
                raise
            return {one["index"]: duplicate_index(one) for one in failed}, unsure
        except PyMongoError as error:
            if unsure or not is_lost(error):
                raise
            unsure = True


async def _is_ours(db: Database, doc: dict[str, Any]) -> bool:
    """After an answer got lost: the row under this id is the one that was sent."""
    known = await db.executions.find_one({"_id": doc["_id"]}, {"created": 1, "job_id": 1})
    return known is not None and (known.get("created"), known.get("job_id")) == (doc["created"], doc["job_id"])


async def _add_keyed(db: Database, execution: ExecutionRow, records: list[dict[str, Any]], turns: Turns) -> Added:
    """One that may find its keys held. A key that is freed while we look is tried again."""
    choices = overlap_choices(execution)
    for _ in range(_TRIES):
        holder = await unique_holder(db, execution.unique_key)
        if holder is not None:
            return Added(execution.id, "unique_taken", holder)
        for row in [in_slot(execution, key) for key in choices] or [execution]:
            refused = await _insert_one(db, _with_audits(document(row, turns.get(row.id)), records))
            if refused in ("", "_id"):
                return Added(execution.id, "duplicate" if refused else "added")
            if refused == "unique_key":
                break
        else:
            holder = await overlap_holder(db, choices[0])
            skipped = _with_audits(document(skipped_record(execution)), records)
            refused = await _insert_one(db, skipped)
            return Added(execution.id, "duplicate" if refused else "skipped", None if refused else holder)
    raise PyMongoError(f"the keys of execution {execution.id} change hands all the time")


async def _insert_one(db: Database, doc: dict[str, Any]) -> str:
    """The index that refused it; empty when it was inserted."""
    try:
        await db.executions.insert_one(doc)
    except DuplicateKeyError as error:
        return duplicate_index(error.details or {})
    return ""


async def unique_holder(db: Database, key: str | None) -> str | None:
    return await _holder(db, "unique_key", key)


async def overlap_holder(db: Database, key: str | None) -> str | None:
    return await _holder(db, "overlap_key", key)


async def _holder(db: Database, field: str, key: str | None) -> str | None:
    if key is None:
        return None
    found = await db.executions.find_one({"live": True, field: key}, {"_id": 1})
    return None if found is None else found["_id"]
