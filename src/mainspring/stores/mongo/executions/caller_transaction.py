"""Enqueue inside a transaction that the caller holds open in a session of PyMongo, blocking or async (ENQ-2).

A write that a unique index refuses would end the caller's transaction, so keys are looked up first: inside the session,
which sees what the transaction itself has written, and outside of it, which sees what was committed since it began. Two
transactions that take the same key at the very same time are left to the server: it ends one with a write conflict,
which carries the label that makes `with_transaction` run it again.

The steps are written once for both kinds of sessions: a generator that yields what the driver returns, the answer or
something to await, and gets the answer back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.client_session import ClientSession

from ....core.ports import Topic
from ....model.errors import InvalidValue, StoreError
from ....model.execution import ExecutionRow
from ....model.store.messages import Added
from ...common.rows import in_slot, overlap_choices, skipped_record
from ..connection.database import collection_name
from ..connection.errors import translating
from ..connection.source import MongoSource
from ..documents import execution_document
from ..wakeups import wakeup_document

_ALLOWED = "a ClientSession or AsyncClientSession of PyMongo with an open transaction"
STANDALONE = (
    "this MongoDB server stands alone and has no transactions; make it a replica set, one member is enough, "
    "or enqueue without a session"
)

R = TypeVar("R")
Steps: TypeAlias = Generator[Any, Any, R]


def add_in(
    source: MongoSource,
    session: Any,
    executions: Sequence[ExecutionRow],
    unregistered: dict[str, str],
    *,
    has_transactions: bool,
) -> list[Added] | Awaitable[list[Added]]:
    """`unregistered` are the incarnations to register first: job id to name of the job."""
    if not isinstance(session, ClientSession | AsyncClientSession):
        raise InvalidValue("connection", type(session).__name__, _ALLOWED)
    if not has_transactions:
        raise StoreError(STANDALONE)
    if not session.in_transaction:
        remedy = "Call session.start_transaction() first, or enqueue without a session"
        raise InvalidValue("connection", "a session without a transaction", _ALLOWED, remedy)
    steps = _add(Transaction(source, session), executions, unregistered)
    return (_run_async if isinstance(session, AsyncClientSession) else _run_blocking)(steps, source.name)


def _run_blocking(steps: Steps[R], name: str) -> R:
    """`name` is the database, for messages."""
    answer: Any = None
    with translating(name):
        while True:
            try:
                answer = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]


async def _run_async(steps: Steps[R], name: str) -> R:
    answer: Any = None
    with translating(name):
        while True:
            try:
                call = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = await call


class Transaction(NamedTuple):
    source: MongoSource
    session: Any

    def collection(self, name: str) -> Any:
        return self.session.client[self.source.database][collection_name(self.source.prefix, name)]

    @property
    def executions(self) -> Any:
        return self.collection("executions")


def _add(caller: Transaction, executions: Sequence[ExecutionRow], unregistered: dict[str, str]) -> Steps[list[Added]]:
    if not executions:
        return []
    for job_id, name in sorted(unregistered.items()):
        new = {"$setOnInsert": {"job": name, "last_number": 0, "folds": 0}}
        yield caller.collection("incarnations").update_one({"_id": job_id}, new, upsert=True)
    stored = {"_id": {"$in": [e.id for e in executions]}}
    known: set[str] = set()
    for session in (caller.session, None):
        known.update((yield caller.executions.distinct("_id", stored, session=session)))
    held: dict[tuple[str, str], str] = {}
    added: list[Added] = []
    documents: list[dict[str, Any]] = []
    for execution in executions:
        if execution.id in known:
            added.append(Added(execution.id, "duplicate"))
            continue
        answer, row = yield from _judge(caller, execution, held)
        known.add(execution.id)
        added.append(answer)
        if row is not None:
            documents.append(execution_document(row))
    if documents:
        yield caller.executions.insert_many(documents, session=caller.session)
        yield caller.collection("wakeups").insert_one(wakeup_document(Topic.WORK), session=caller.session)
    return added


def _judge(
    caller: Transaction, execution: ExecutionRow, held: dict[tuple[str, str], str]
) -> Steps[tuple[Added, ExecutionRow | None]]:
    """The outcome for this execution, and the row to insert. `held` are the keys of rows before it in this batch."""
    if execution.state.final:
        return Added(execution.id, "added"), execution
    holder = yield from _holder(caller, "unique_key", execution.unique_key, held)
    if holder is not None:
        return Added(execution.id, "unique_taken", holder), None
    row = execution
    if choices := overlap_choices(execution):
        holders: dict[str, str | None] = {}
        for key in choices:
            holders[key] = yield from _holder(caller, "overlap_key", key, held)
            if holders[key] is None:
                row = in_slot(execution, key)
                break
        else:
            return Added(execution.id, "skipped", holders[choices[0]]), skipped_record(execution)
    for field, taken in (("unique_key", row.unique_key), ("overlap_key", row.overlap_key)):
        if taken is not None:
            held[field, taken] = row.id
    return Added(execution.id, "added"), row


def _holder(caller: Transaction, field: str, key: str | None, held: dict[tuple[str, str], str]) -> Steps[str | None]:
    if key is None:
        return None
    if (field, key) in held:
        return held[field, key]
    for session in (caller.session, None):
        found = yield caller.executions.find_one({"live": True, field: key}, {"_id": 1}, session=session)
        if found is not None:
            return str(found["_id"])
    return None
