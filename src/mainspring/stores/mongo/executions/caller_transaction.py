"""Enqueue inside a transaction that the caller holds open in a session of PyMongo, blocking or async (ENQ-2).

A write that a unique index refuses would end the caller's transaction, so keys are looked up first: inside the session,
which sees what the transaction itself has written, and outside of it, which sees what was committed since it began. Two
transactions that take the same key at the very same time are left to the server: it ends one with a write conflict,
which carries the label that makes `with_transaction` run it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
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


class CollectionCall(msgspec.Struct, frozen=True):
    """One call of a collection. `inside` says whether it belongs into the caller's transaction, where there is one."""

    collection: str
    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any] = {}
    inside: bool = True


Steps: TypeAlias = Generator[CollectionCall, Any, R]


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
    database: Any = session.client[source.database]

    def make(call: CollectionCall) -> Any:
        inside = {"session": session} if call.inside else {}
        return _made(call, database, source.prefix, **inside)

    steps = _add(executions, unregistered)
    run = _run_async if isinstance(session, AsyncClientSession) else _run_blocking
    return run(steps, make, source.name)


def _add(executions: Sequence[ExecutionRow], unregistered: dict[str, str]) -> Steps[list[Added]]:
    if not executions:
        return []
    for job_id, name in sorted(unregistered.items()):
        new = {"$setOnInsert": {"job": name, "last_number": 0, "folds": 0}}
        yield CollectionCall("incarnations", "update_one", ({"_id": job_id}, new), {"upsert": True}, inside=False)
    stored = {"_id": {"$in": [e.id for e in executions]}}
    known = {*(yield _distinct_ids(stored, inside=True)), *(yield _distinct_ids(stored, inside=False))}
    held: dict[tuple[str, str], str] = {}
    added: list[Added] = []
    documents: list[dict[str, Any]] = []
    for execution in executions:
        answer, row = (
            (Added(execution.id, "duplicate"), None) if execution.id in known else (yield from _judge(execution, held))
        )
        known.add(execution.id)
        added.append(answer)
        if row is not None:
            documents.append(execution_document(row))
    if documents:
        yield CollectionCall("executions", "insert_many", (documents,))
        yield CollectionCall("wakeups", "insert_one", (wakeup_document(Topic.WORK),))
    return added


def _distinct_ids(wanted: dict[str, Any], *, inside: bool) -> CollectionCall:
    return CollectionCall("executions", "distinct", ("_id", wanted), inside=inside)


def _judge(execution: ExecutionRow, held: dict[tuple[str, str], str]) -> Steps[tuple[Added, ExecutionRow | None]]:
    """The outcome for this execution, and the row to insert. `held` are the keys of rows before it in this batch."""
    if execution.state.final:
        return Added(execution.id, "added"), execution
    holder = yield from _holder("unique_key", execution.unique_key, held)
    if holder is not None:
        return Added(execution.id, "unique_taken", holder), None
    row = execution
    if choices := overlap_choices(execution):
        holders: dict[str, str | None] = {}
        for key in choices:
            holders[key] = yield from _holder("overlap_key", key, held)
            if holders[key] is None:
                row = in_slot(execution, key)
                break
        else:
            return Added(execution.id, "skipped", holders[choices[0]]), skipped_record(execution)
    for field, taken in (("unique_key", row.unique_key), ("overlap_key", row.overlap_key)):
        if taken is not None:
            held[field, taken] = row.id
    return Added(execution.id, "added"), row


def _holder(field: str, key: str | None, held: dict[tuple[str, str], str]) -> Steps[str | None]:
    if key is None:
        return None
    if (field, key) in held:
        return held[field, key]
    for inside in (True, False):
        found = yield CollectionCall("executions", "find_one", ({"live": True, field: key}, {"_id": 1}), inside=inside)
        if found is not None:
            return str(found["_id"])
    return None


# --- one way for blocking and async sessions ------------------------------------------------------------------------


def _made(call: CollectionCall, database: Any, prefix: str, **options: Any) -> Any:
    """The answer of a blocking database, or the awaitable answer of an async one. Cursors are read to their end."""
    collection = database[collection_name(prefix, call.collection)]
    answer = getattr(collection, call.method)(*call.arguments, **call.options, **options)
    return answer.to_list() if call.method == "find" else answer


def _run_blocking(steps: Steps[R], make: Callable[[CollectionCall], Any], name: str) -> R:
    """`name` is the database, for messages."""
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        with translating(name):
            answer = make(call)


async def _run_async(steps: Steps[R], make: Callable[[CollectionCall], Awaitable[Any]], name: str) -> R:
    answer: Any = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        with translating(name):
            answer = await make(call)
