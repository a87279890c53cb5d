"""Adding executions: one insert for all; those that a unique index refuses are added one by one, in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ....core.ports import Topic
from ....model.errors import StoreError
from ....model.execution import ExecutionRow
from ....model.store.messages import Added, Audit
from ...common.rows import in_slot, overlap_choices, skipped_record
from ..connection.database import Database
from ..connection.errors import sent
from ..documents import Document, audit_document, execution_document
from ..limits.turns import tags_of_new
from .incarnations import Registering

_KEY_TRIES = 20
_PART = 125


class Insert(Registering):
    async def add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[Added]:
        if not executions:
            return []
        db = self.db
        await self.register(self.unregistered(executions))
        pairs = [*zip(executions, audit, strict=True)] if audit else []
        audits = {row.id: audit_document(record) for row, record in reversed(pairs)}
        batch = Batch(db, audits, await tags_of_new(db, executions))
        rivals = _rivals(executions)
        rest = [e for n, e in enumerate(executions) if n not in rivals]
        # Large batches go in parts: the next part is prepared while the server works on the one before.
        parts = [rest[start : start + _PART] for start in range(0, len(rest), _PART)]
        answers = await asyncio.gather(*(_add_together(batch, part) for part in parts))
        added = [one for part in answers for one in part]
        for n in sorted(rivals):  # in order: the outcome of one depends on those before it
            added.insert(n, await _add_alone(batch, executions[n]))
        self.wake({Topic.WORK})
        return added


class Batch(NamedTuple):
    """`audits` are the records of the rows by id, of an id that comes twice that of the first. `tags` are those of the
    rows that have a share and are ready at once, by id."""

    db: Database
    audits: Mapping[str, Document]
    tags: Mapping[str, int]

    def document(self, row: ExecutionRow) -> Document:
        doc = execution_document(row, self.tags.get(row.id))
        return {**doc, "audits": [self.audits[row.id]]} if row.id in self.audits else doc


def _rivals(executions: Sequence[ExecutionRow]) -> set[int]:
    """The positions of executions that want an id or a key that another one of the same batch wants."""
    has_keys = any(e.unique_key or e.overlap_key for e in executions)
    if not has_keys and len({e.id for e in executions}) == len(executions):
        return set()
    wants = [
        {("id", e.id), ("unique", e.unique_key), *(("overlap", k) for k in overlap_choices(e))} for e in executions
    ]
    counts = Counter(want for each in wants for want in each if want[1] is not None)
    return {n for n, each in enumerate(wants) if any(counts[want] > 1 for want in each)}


async def _add_together(batch: Batch, executions: list[ExecutionRow]) -> list[Added]:
    documents = [batch.document(_in_first_slot(execution)) for execution in executions]
    refused, unsure = await sent(lambda: batch.db.executions.insert(documents))
    added = [Added(execution.id, "added") for execution in executions]
    for n in sorted(refused):
        if refused[n] == "_id":
            ours = unsure and await _is_ours(batch.db, documents[n])
            added[n] = Added(executions[n].id, "added" if ours else "duplicate")
        else:
            added[n] = await _add_keyed(batch, executions[n])
    return added


async def _add_alone(batch: Batch, execution: ExecutionRow) -> Added:
    if await batch.db.executions.find_one({"_id": execution.id}, {"_id": 1}) is not None:
        return Added(execution.id, "duplicate")
    if execution.state.final:
        [added] = await _add_together(batch, [execution])
        return added
    return await _add_keyed(batch, execution)


def _in_first_slot(execution: ExecutionRow) -> ExecutionRow:
    """With the first of the keys to try; a finished execution holds none, and stays as it is."""
    several = execution.overlap_key is not None and execution.overlap_slots > 1 and not execution.state.final
    return in_slot(execution, overlap_choices(execution)[0]) if several else execution


async def _is_ours(db: Database, doc: Document) -> bool:
    """Whether the row with this id is our own earlier write, whose answer was lost."""
    known = await db.executions.find_one({"_id": doc["_id"]}, {"created": 1, "job_id": 1})
    return known is not None and (known.get("created"), known.get("job_id")) == (doc["created"], doc["job_id"])


async def _add_keyed(batch: Batch, execution: ExecutionRow) -> Added:
    async def insert(row: ExecutionRow) -> str:
        doc = batch.document(row)
        refused, unsure = await sent(lambda: batch.db.executions.insert([doc]))
        return "" if unsure and await _is_ours(batch.db, doc) else refused.get(0, "")

    return await store_keyed(batch.db, execution, insert)


# --- keys -----------------------------------------------------------------------------------------------------------


async def store_keyed(db: Database, execution: ExecutionRow, store: Callable[[ExecutionRow], Awaitable[str]]) -> Added:
    """Store an execution whose keys may be held. `store` returns the field of the index that refused the row, or an
    empty string. A key that is freed in the meantime is tried again."""
    choices = overlap_choices(execution)
    for _ in range(_KEY_TRIES):
        holder = await _holder(db, "unique_key", execution.unique_key)
        if holder is not None:
            return Added(execution.id, "unique_taken", holder)
        for row in [in_slot(execution, key) for key in choices] or [execution]:
            refused = await store(row)
            if refused in ("", "_id"):
                return Added(execution.id, "duplicate" if refused else "added")
            if refused == "unique_key":
                break
        else:
            holder = await _holder(db, "overlap_key", choices[0])
            refused = await store(skipped_record(execution))
            return Added(execution.id, "duplicate" if refused else "skipped", None if refused else holder)
    raise StoreError(f"the keys of execution {execution.id} change hands all the time")


async def _holder(db: Database, field: str, key: str | None) -> str | None:
    if key is None:
        return None
    found: dict[str, Any] | None = await db.executions.find_one({"live": True, field: key}, {"_id": 1})
    return None if found is None else found["_id"]
