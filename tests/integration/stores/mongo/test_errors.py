"""Every error of the driver becomes one of ours, whichever method of the store it meets."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bson.errors import InvalidDocument
from msgspec.structs import replace
from pymongo.asynchronous.topology import Topology as AsyncTopology
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    DuplicateKeyError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    ServerSelectionTimeoutError,
    WriteConcernError,
    WTimeoutError,
)
from pymongo.synchronous.topology import Topology as BlockingTopology

from mainspring.core.ports import Store
from mainspring.model.errors import StoreError, StoreUnavailable
from mainspring.model.execution import State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.store.messages import (
    Audit,
    CancelRequest,
    ExecutionQuery,
    HeartbeatRequest,
    JobQuery,
    JobWrite,
    ProgressReport,
    PruneRule,
    WorkerInfo,
)
from mainspring.stores.mongo import MongoStore, workers
from mainspring.stores.mongo.connection import collection, errors
from mainspring.stores.mongo.connection.errors import Refused, Unsure, translated
from tests.integration.stores.mongo_support import ending, execution, opened, request
from tests.mongo_server import mongo

ROW = execution(state=State.RUNNING, owner="w1", token=1)
JOB = Job(name="job", id="job-1", declared=encode_spec(JobSpec(handler="work")))
ENTRY = Entry(kind="window", scope="nightly", key="1", version=1)
AUDIT = Audit(id="a1", at=1, actor="ann", action="act", target="job")
BEAT = HeartbeatRequest(worker=WorkerInfo(id="w1", host="h", pid=1, version="v"), leases=((ROW.id, 1),), lease=30.0)
RULE = PruneRule(job_id="job-1", states=frozenset({State.COMPLETED}), older_than=None, newest=0)

CALLS: dict[str, Callable[[MongoStore], Awaitable[Any]]] = {
    "lock_take": lambda s: s.lock_take("l", "w1", 5),
    "lock_renew": lambda s: s.lock_renew("l", 1, 5),
    "lock_release": lambda s: s.lock_release("l", 1, audit=AUDIT),
    "locks": lambda s: s.locks(),
    "open": lambda s: MongoStore(s._source.address.url if s._source.address else "").open(),
    "now": lambda s: s.now(),
    "storage_size": lambda s: s.storage_size(),
    "write_jobs": lambda s: s.write_jobs([JobWrite(job=JOB, seen_version=1, executions=(execution(),), audit=AUDIT)]),
    "delete_job": lambda s: s.delete_job("job", 1, purge=True, audit=AUDIT),
    "jobs": lambda s: s.jobs(),
    "job_snapshots": lambda s: s.job_snapshots(["job"]),
    "jobs_after": lambda s: s.jobs_after("", 10),
    "job_queues": lambda s: s.job_queues(),
    "count_jobs": lambda s: s.count_jobs(10),
    "find_jobs": lambda s: s.find_jobs(JobQuery(), 10),
    "due_jobs": lambda s: s.due_jobs(10),
    "stats": lambda s: s.stats(),
    "live_counts": lambda s: s.live_counts(),
    "swept": lambda s: s.swept(10),
    "add": lambda s: s.add([execution(), execution(unique_key="u")], [AUDIT]),
    "exchange": lambda s: s.exchange([ending(ROW)], request()),
    "expired": lambda s: s.expired(10),
    "request_cancel": lambda s: s.request_cancel([CancelRequest(id=ROW.id, token=1, at=1, reason="r")]),
    "cancels": lambda s: s.cancels("w1"),
    "unserved_cancels": lambda s: s.unserved_cancels(10),
    "heartbeat": lambda s: asyncio.to_thread(s.heartbeat, BEAT),
    "report": lambda s: s.report([ProgressReport(id=ROW.id, token=1, owner="w1", progress_json="{}")]),
    "todo": lambda s: s.todo(10),
    "todo_done": lambda s: s.todo_done([ROW.id]),
    "children": lambda s: s.children(ROW.id),
    "last_child_ended": lambda s: s.last_child_ended(ROW.id),
    "held_keys": lambda s: s.held_keys("unique"),
    "execution": lambda s: s.execution(ROW.id),
    "find": lambda s: s.find(ExecutionQuery()),
    "search": lambda s: s.search(ExecutionQuery(), 10),
    "lane_counts": lambda s: s.lane_counts(),
    "tenant_counts": lambda s: s.tenant_counts(10),
    "newest_runs": lambda s: s.newest_runs(["job-1"], 10),
    "count": lambda s: s.count(ExecutionQuery(), 10),
    "logs": lambda s: s.logs(ROW.id),
    "fold": lambda s: s.fold(10),
    "delete_executions": lambda s: s.delete_executions([ROW.id], [AUDIT]),
    "prune": lambda s: s.prune(RULE, 10),
    "prune_workers": lambda s: s.prune_workers(10),
    "workers": lambda s: s.workers(),
    "remove_worker": lambda s: s.remove_worker("w1"),
    "audits": lambda s: s.audits(),
    "prune_audits": lambda s: s.prune_audits("b", 10),
    "write_entries": lambda s: s.write_entries([EntryWrite(entry=ENTRY), EntryWrite(entry=replace(ENTRY, key="2"))]),
    "list_entries": lambda s: s.list_entries("window", "nightly"),
    "entries": lambda s: s.entries("window", "nightly", ["1"]),
    "copy_out": lambda s: s.copy_out("jobs", "", 10),
    "copy_in": lambda s: s.copy_in("jobs", [JOB]),
}
"""One call of each method of the port that asks the server."""

FAILURES = [
    (AutoReconnect("connection closed"), True),
    (NotPrimaryError("not primary", {"code": 10107}), True),
    (ServerSelectionTimeoutError("no server"), True),
    (WTimeoutError("waiting for replication timed out", 64), True),
    (OperationFailure("not allowed", 13), False),
    (InvalidDocument("too large"), False),
]


@pytest.mark.req("REL-1")
@pytest.mark.parametrize(("failure", "later_may_help"), FAILURES)
async def test_no_method_of_the_store_raises_an_error_of_the_driver(
    failure: Exception, later_may_help: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise failure

    async def fail_async(*args: Any, **options: Any) -> Any:
        raise failure

    asks = {name for name, member in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")}
    assert asks - {"close", "listen"} == set(CALLS)
    monkeypatch.setattr(errors, "_TRIES", 1)
    monkeypatch.setattr(workers, "_TIMEOUT", 0.2)
    async with opened(mongo("standalone").new_database()) as store:
        await store.exchange([], request())
        with monkeypatch.context() as patch:
            patch.setattr(AsyncTopology, "select_server", fail_async)
            patch.setattr(BlockingTopology, "select_server", fail)
            for name, call in CALLS.items():
                with pytest.raises(StoreError) as raised:
                    await call(store)
                assert isinstance(raised.value, StoreUnavailable) == later_may_help, name
                assert str(raised.value).startswith("mongodb://"), name


@pytest.mark.parametrize(
    "error",
    [
        AutoReconnect("connection closed"),
        NetworkTimeout("timed out"),
        NotPrimaryError("not primary", {"code": 189}),
        OperationFailure("PrimarySteppedDown", 189),
        OperationFailure("InterruptedDueToReplStateChange", 11602),
        WTimeoutError("waiting for replication timed out", 64),
        BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64, "errmsg": "timed out"}]}),
        BulkWriteError({"writeErrors": [{"code": 11602, "index": 0}], "writeConcernErrors": []}),
        BulkWriteError({"writeErrors": [{"code": 11000, "index": 0}], "writeConcernErrors": [{"code": 91}]}),
    ],
    ids=str,
)
def test_writes_without_a_confirmed_outcome_are_unsure(error: Exception) -> None:
    assert type(translated(error, "db")) is Unsure


def test_refusals_name_the_index_and_everything_else_is_certain() -> None:
    duplicates = [{"code": 11000, "index": n, "keyPattern": {field: 1}} for n, field in ((0, "_id"), (2, "unique_key"))]
    refusal = translated(BulkWriteError({"writeErrors": duplicates}), "db")
    assert isinstance(refusal, Refused)
    assert refusal.fields == {0: "_id", 2: "unique_key"}
    one = translated(DuplicateKeyError("E11000", 11000, {"keyPattern": {"overlap_key": 1}}), "db")
    assert isinstance(one, Refused)
    assert one.fields == {0: "overlap_key"}
    assert type(translated(ServerSelectionTimeoutError("nothing was sent"), "db")) is StoreUnavailable
    assert type(translated(OperationFailure("not allowed", 13), "db")) is StoreError
    conflict = OperationFailure("WriteConflict", 112, {"errorLabels": ["TransientTransactionError"]})
    assert translated(conflict, "db") is conflict


@pytest.mark.req("OPS-9")
async def test_an_election_at_any_step_of_the_schema_does_not_stop_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every first call fails after the server has done what it was asked to, as in an election."""
    interrupted: list[str] = []
    answered = collection.answered

    async def interrupt(name: str, call: Awaitable[Any]) -> Any:
        done = await answered(name, call)
        kind = str(getattr(call, "__qualname__", call))
        if kind in interrupted:
            return done
        interrupted.append(kind)
        raise translated(WriteConcernError("operation was interrupted", 11602), name)

    monkeypatch.setattr(collection, "answered", interrupt)
    url = mongo("standalone").new_database()
    for _ in range(2):  # a new database, and one whose schema is there
        async with opened(url):
            pass
    assert len(interrupted) >= 3, interrupted
