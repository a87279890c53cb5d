"""Every statement of the MongoDB store uses an index, and examines no more than it needs, however much there is.

The statements are those that the store really sends: each is explained by the server just before it runs. `make plans`
runs this with a hundred thousand documents; `make test` with fewer, still many times as many as may be examined.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pymongo
import pytest
from msgspec.structs import replace
from pymongo import AsyncMongoClient, monitoring

from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.limits import Limit, encode_limits
from mainspring.model.store.copy_records import entry_key
from mainspring.model.store.messages import (
    ClaimRequest,
    ExecutionQuery,
    HeartbeatRequest,
    ProgressReport,
    PruneRule,
    WorkerInfo,
)
from mainspring.model.triggers import encode_trigger, every
from mainspring.model.values.ids import tick_id
from mainspring.stores.common.ids import SLACK
from mainspring.stores.mongo import MongoStore, failure_notes
from mainspring.stores.mongo.documents import execution_document, job_document
from tests.integration.stores.mongo_support import ending
from tests.mongo_server import mongo

ROWS = int(os.environ.get("PLAN_DOCUMENTS", "40000"))
NOW = time.time_ns() // 1000
SECOND = 1_000_000
JOBS = 1_000
SHARES = 10_000
PAGE = 20
HELD = encode_limits([Limit("k", concurrency=PAGE)])
LINE = f"slot:k\n{PAGE}\ndefault/held"
MOST = 60 * PAGE
"""Keys and documents that one statement may examine: some for each row of a page, none for rows in between."""
MOST_BY_TIME = MOST + 4 * SLACK
"""Ids tell the time of creation give or take two seconds; here there is a row for every millisecond of them."""
WATCHED = (".executions", ".jobs", ".logs", ".audits", ".limits", ".entries")
READS = ("find", "aggregate", "count", "distinct", "update", "delete", "findAndModify")
KEPT_OUT = ("lsid", "txnNumber", "$clusterTime", "$db", "$readPreference", "writeConcern", "readConcern", "stmtIds")

Store = MongoStore
Step = Callable[[MongoStore], Awaitable[Any]]


# --- a full database ------------------------------------------------------------------------------------------------


def rows(begin: int, count: int, **fields: Any) -> Iterator[ExecutionRow]:
    """One every millisecond, of a thousand jobs in turn."""
    for n in range(begin, begin + count):
        made, job = NOW - (ROWS * 4 - n) * 1000, f"job{n % JOBS}"
        plain: dict[str, Any] = {"job": job, "job_id": f"{job}-1", "handler": "other", "created": made, "due": made}
        yield ExecutionRow(id=tick_id(str(n), made), **{**plain, **fields})


def everything() -> Iterator[ExecutionRow]:
    """Work of others, of the future, running, waiting, and a history."""
    yield from rows(0, ROWS // 2, state=State.COMPLETED, finished=NOW, started=NOW)
    yield from rows(
        ROWS // 2, ROWS // 10, state=State.COMPLETED, finished=NOW, tenant="t", parent_id="p", trigger="api"
    )
    yield from rows(ROWS, ROWS // 20, state=State.FAILED, finished=NOW, error="e")
    yield from rows(ROWS + ROWS // 20, ROWS // 100, state=State.SKIPPED, finished=NOW)
    yield from rows(ROWS * 2, ROWS // 4)
    yield from rows(ROWS * 3, ROWS // 4, due=NOW + 3600 * SECOND)
    owned = {"state": State.RUNNING, "owner": "w9", "token": 1, "lease": NOW + 3600 * SECOND, "started": NOW}
    yield from rows(ROWS * 4, ROWS // 20, **owned)
    yield from rows(ROWS * 4 + ROWS // 20, 50, handler="mine")
    yield from rows(ROWS * 4 + ROWS // 20 + 50, 5, handler="mine", due=NOW + 1, created=NOW)
    yield from rows(ROWS * 4 + ROWS // 20 + 60, 3, **{**owned, "owner": "w1", "lease": NOW - 1})
    for n, row in enumerate(rows(ROWS * 5, ROWS // 10, handler="fair")):
        yield replace(row, share=f"t{n % SHARES}")
    yield from rows(ROWS * 6, ROWS // 20, handler="held", limits=HELD)
    yield from rows(ROWS * 7, PAGE, **{**owned, "handler": "held", "owner": "w1"}, limits=HELD)


def stored(row: ExecutionRow) -> dict[str, Any]:
    """Endings are counted, turns given, and rows without room parked."""
    doc = execution_document(row, tag=0 if row.share is not None else None)
    doc.pop("delta", None)
    if row.handler == "held" and doc.pop("ready", None):
        doc |= {"parked": "k", "waits_for": ["slot:k"], "wait_line": LINE, "last_wait_line": LINE, "place": 0}
    return doc


def full_database() -> str:
    """Filled in large batches, with every ending counted already."""
    url = mongo("standalone").new_database()
    asyncio.run(_made(url))
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient(url) as client:
        database = client.get_default_database()
        batch: list[dict[str, Any]] = []
        for row in everything():
            batch.append(stored(row))
            if len(batch) == 5_000:
                database["mainspring.executions"].insert_many(batch, ordered=False)
                batch = []
        database["mainspring.executions"].insert_many(batch, ordered=False)
        recheck = {"_id": "slot:k", "recheck_at": NOW + 3600 * SECOND, "touched": NOW, "wait_lines": [LINE]}
        database["mainspring.limits"].insert_one(recheck)
        database["mainspring.meta"].update_one({"_id": "schema"}, {"$set": {"limits": True}})
        database["mainspring.jobs"].insert_many(_jobs())
        names = [{"_id": f"job{n}-1", "job": f"job{n}", "last_number": 0, "folds": 0} for n in range(JOBS)]
        database["mainspring.incarnations"].insert_many(names)
    return url


async def _made(url: str) -> None:
    store = MongoStore(url)
    await store.open()
    await store.close()


def _jobs() -> list[dict[str, Any]]:
    declared = encode_spec(JobSpec(handler="other", trigger=encode_trigger(every(hours=1))))
    found = []
    for n in range(10_000):
        job = Job(name=f"job{n}", id=f"job{n}-1", declared=declared, next_run=NOW + (n - 5) * 60 * SECOND, sweep=n == 7)
        fields = job_document(job.with_changes(version=1))
        found.append({"_id": job.name, **{name: value for name, value in fields.items() if value is not None}})
    return found


# --- explaining -----------------------------------------------------------------------------------------------------


class Explaining(monitoring.CommandListener):
    """Asks the server what it is about to do, with a client of its own."""

    def __init__(self, url: str) -> None:
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(url)
        self.found: list[tuple[str, Any]] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        command = {name: value for name, value in event.command.items() if name not in KEPT_OUT}
        target = str(command.get(event.command_name))
        if event.command_name in READS and target.endswith(WATCHED):
            for single in _singles(event.command_name, command):
                database = self._client.get_default_database()
                plan = database.command({"explain": single, "verbosity": "executionStats"})
                self.found.append((f"{event.command_name} {target}: {str(single)[:600]}", plan))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass

    def close(self) -> None:
        self._client.close()


def _singles(name: str, command: dict[str, Any]) -> list[dict[str, Any]]:
    """The server explains one update or deletion at a time."""
    many = {"update": "updates", "delete": "deletes"}.get(name)
    if many is None:
        return [command]
    return [{**command, many: [one]} for one in command[many][:3]]


def stages(plan: Any) -> Iterator[dict[str, Any]]:
    if isinstance(plan, dict):
        yield plan
        for value in plan.values():
            yield from stages(value)
    elif isinstance(plan, list):
        for value in plan:
            yield from stages(value)


def examined(plan: Any) -> int:
    """Keys and documents examined anywhere in the plan."""
    names = ("totalKeysExamined", "totalDocsExamined")
    return sum(int(stage.get(name, 0)) for stage in stages(_without_planner(plan)) for name in names)


def scans(plan: Any) -> bool:
    """Whether a whole collection is read, or a sort needs all rows in memory."""
    found = list(stages(_without_rejected(plan)))
    return any(stage.get("stage") == "COLLSCAN" or int(stage.get("collectionScans", 0)) > 0 for stage in found)


def _without_planner(plan: Any) -> Any:
    return _without(plan, ("queryPlanner", "allPlansExecution", "serverInfo", "command"))


def _without_rejected(plan: Any) -> Any:
    return _without(plan, ("rejectedPlans", "allPlansExecution", "serverInfo", "command"))


def _without(plan: Any, names: tuple[str, ...]) -> Any:
    if isinstance(plan, dict):
        return {name: _without(value, names) for name, value in plan.items() if name not in names}
    return [_without(value, names) for value in plan] if isinstance(plan, list) else plan


@asynccontextmanager
async def explained(url: str) -> AsyncIterator[tuple[MongoStore, Explaining]]:
    listener = Explaining(url)
    client: AsyncMongoClient[dict[str, Any]]
    async with AsyncMongoClient(url, event_listeners=[listener]) as client:
        store = MongoStore(client, name=client.get_default_database().name)
        await store.open()
        listener.found.clear()
        try:
            yield store, listener
        finally:
            await store.close()
            listener.close()


# --- steps ----------------------------------------------------------------------------------------------------------


def request(**fields: Any) -> ClaimRequest:
    plain = {"owner": "w1", "handlers": frozenset({"mine"}), "queues": None, "limit": PAGE, "lease": 30.0}
    return ClaimRequest(**{**plain, **fields})


async def claim_and_settle(store: MongoStore) -> None:
    answer = await store.exchange([], request())
    assert answer.claimed
    changes = [ending(row, State.COMPLETED if n % 2 else State.PENDING) for n, row in enumerate(answer.claimed)]
    assert all((await store.exchange(changes, request(queues=frozenset({"default"})))).applied)
    await store.fold(PAGE)


async def claim_fairly(store: MongoStore) -> None:
    """Some of one lane whose rows have ten thousand shares; one of them goes back, and others come."""
    answer = await store.exchange([], request(handlers=frozenset({"fair"})))
    assert len(answer.claimed) == PAGE
    back = [ending(answer.claimed[0], State.PENDING)]
    assert len((await store.exchange(back, request(handlers=frozenset({"fair"})))).claimed) == PAGE
    await store.add([replace(next(rows(ROWS * 9 + 10 + n, 1, handler="fair")), share=f"t{n}") for n in range(3)])


async def end_and_wake(store: MongoStore) -> None:
    """Thousands are parked under the key; as many of them follow as end."""
    running = await store.find(ExecutionQuery(states=frozenset({State.RUNNING}), limit=3))
    assert [row.handler for row in running] == ["held"] * 3
    ends = [ending(row, State.COMPLETED) for row in running]
    assert len((await store.exchange(ends, request(handlers=frozenset({"held"})))).claimed) == 3
    await store.db.limits.update_one({"_id": "slot:k"}, {"$set": {"recheck_at": 1}})
    assert (await store.exchange([], request(handlers=frozenset({"held"})))).claimed == ()
    late = [replace(next(rows(ROWS * 9 + 20 + n, 1, handler="held", limits=HELD)), share="t1") for n in range(3)]
    await store.add(late)
    assert (await store.exchange([], request(handlers=frozenset({"held"})))).claimed == ()
    assert await store.db.executions.count_documents({"wait_line": {"$exists": True}, "share": "t1"}) == 3
    await store.prune_workers(3600.0)


async def count_failures(store: MongoStore) -> None:
    """Notes that were removed a moment ago are still there, and nobody reads them."""
    keys, now = (f"{n:016d}/x" for n in range(4 * MOST)), (await store.db.hello())["localTime"]
    gone = {"kind": "failure", "scope": "", "version": failure_notes.REMOVED, "removed": now}
    await store.db.entries.insert_missing([{"_id": entry_key("failure", "", key), "key": key, **gone} for key in keys])
    assert await store.list_entries("failure", "", limit=PAGE) == []
    await failure_notes.forget_removed(store.db)


async def heartbeat(store: MongoStore) -> None:
    worker = WorkerInfo(id="w1", host="h", pid=1, version="v")
    held = await store.find(ExecutionQuery(states=frozenset({State.RUNNING}), limit=3))
    leases = tuple((row.id, row.token) for row in held)
    await asyncio.to_thread(store.heartbeat, HeartbeatRequest(worker=worker, leases=leases, lease=30.0))


async def add(store: MongoStore) -> None:
    [held, free] = [next(rows(ROWS * 9 + n, 1, unique_key="u", overlap_key="o")) for n in range(2)]
    await store.add([held])
    await store.add([free])


async def report(store: MongoStore) -> None:
    [row] = await store.find(ExecutionQuery(states=frozenset({State.RUNNING}), limit=1))
    assert await store.report(
        [ProgressReport(id=row.id, token=row.token, owner=row.owner or "", progress_json="{}")]
    ) == [True]
    assert await store.logs(row.id) == []


def found(**filters: Any) -> Step:
    async def step(store: MongoStore) -> None:
        query = ExecutionQuery(limit=PAGE, **filters)
        assert await store.find(query)
        assert await store.count(query, PAGE) > 0

    return step


def pruned(state: State, older_than: int | None) -> Step:
    rule = PruneRule(job_id="job3-1", states=frozenset({state}), older_than=older_than, newest=5)
    return lambda store: store.prune(rule, PAGE)


STEPS: dict[str, Step] = {
    "claim and settle": claim_and_settle,
    "claim fairly": claim_fairly,
    "end and wake": end_and_wake,
    "expired": lambda store: store.expired(PAGE),
    "due jobs": lambda store: store.due_jobs(PAGE),
    "swept": lambda store: store.swept(PAGE),
    "jobs after": lambda store: store.jobs_after("job5", PAGE),
    "queues of jobs": lambda store: store.job_queues(),
    "jobs by name": lambda store: store.jobs(["job1", "job2"]),
    "todo": lambda store: store.todo(PAGE, "0"),
    "cancels": lambda store: store.cancels("w1"),
    "unserved cancels": lambda store: store.unserved_cancels(PAGE),
    "count failures": count_failures,
    "heartbeat": heartbeat,
    "add": add,
    "report": report,
    "snapshots": lambda store: store.job_snapshots(["job1", "job2"]),
    "live counts": lambda store: store.live_counts(["job1-1"]),
    "stats": lambda store: store.stats(["job1-1"]),
    "audits": lambda store: store.audits("job", PAGE),
    "find": found(),
    "find by job": found(job="job3"),
    "find live by job": found(job="job3", states=frozenset({State.PENDING})),
    "find failed": found(states=frozenset({State.FAILED})),
    "find failed by job": found(job="job3", states=frozenset({State.FAILED})),
    "find running": found(states=frozenset({State.RUNNING})),
    "find pending": found(states=frozenset({State.PENDING})),
    "find by tenant": found(tenant="t"),
    "find by trigger": found(trigger="api"),
    "find by parent": found(parent_id="p"),
    "find by time": found(created_from=NOW - ROWS * 3_000, created_to=NOW - ROWS * 2_000),
    "find before": found(before=tick_id("0", NOW - ROWS * 2_000)),
    "find the oldest": found(oldest_first=True),
    "find the oldest by job": found(job="job3", oldest_first=True, after=tick_id("0", NOW - ROWS * 2_000)),
    "find the oldest failed": found(states=frozenset({State.FAILED}), oldest_first=True),
    "newest runs": lambda store: store.newest_runs(["job3-1", "job4-1"], PAGE),
    "newest runs since": lambda store: store.newest_runs(["job3-1"], PAGE, NOW - ROWS * 2_000),
    "prune by age": pruned(State.COMPLETED, NOW - 7 * 86_400 * SECOND),
    "prune by number": pruned(State.FAILED, None),
}


@pytest.mark.timeout(240)
def test_along_an_index_and_no_more_than_needed() -> None:
    """One test for all statements: the database takes a while to fill."""
    url = full_database()
    wrong = asyncio.run(_all_steps(url))
    assert not wrong, "\n".join(wrong)


async def _all_steps(url: str) -> list[str]:
    wrong: list[str] = []
    async with explained(url) as (store, listener):
        for name, step in STEPS.items():
            listener.found.clear()
            await step(store)
            assert listener.found, f"{name}: nothing was asked"
            wrong += [f"{name}: {line}" for line in _judged(listener)]
        listener.found.clear()
        await store.db.executions.count_documents({"error": "nothing like it"}, limit=1)
        assert len(list(_judged(listener))) == 2, "a statement that reads everything would be noticed"
    return wrong


def _judged(listener: Explaining) -> Iterator[str]:
    for statement, plan in listener.found:
        if scans(plan):
            yield f"a whole collection is read: {statement}"
        if examined(plan) > (MOST_BY_TIME if "'created'" in statement else MOST):
            yield f"{examined(plan):,} keys and documents examined: {statement}"
