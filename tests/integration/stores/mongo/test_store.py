"""The MongoDB store beyond the port: indexes and their version, clients handed in, wake-ups, servers that die."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pymongo
import pytest
from msgspec.structs import replace
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import AutoReconnect, BulkWriteError, NotPrimaryError, PyMongoError

from mainspring import InvalidValue, JobContext, Mainspring, StoreError, every
from mainspring.admin import schema as admin
from mainspring.cli.root import run_command
from mainspring.core.ports import Topic
from mainspring.core.views.execution import row_of
from mainspring.model.errors import ConfigurationError, SchemaMismatch, StoreUnavailable
from mainspring.model.events import Stopped
from mainspring.model.execution import AttemptRecord, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import ExecutionQuery, HeartbeatRequest, JobWrite, ProgressReport, WorkerInfo
from mainspring.model.store.schema import SchemaSteps
from mainspring.stores.mongo import MongoStore, schema, wakeups
from mainspring.stores.mongo.connection.database import Database
from mainspring.stores.mongo.connection.source import parse_address
from mainspring.stores.mongo.schema import NEWEST
from tests.integration.stores.mongo_support import OWNER, ending, execution, opened, request
from tests.mongo_server import KINDS, mongo, new_mongo
from tests.support import NEVER, Seen, own_time, until


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    return mongo(request.param).new_database()


@pytest.fixture
def replica_set_url() -> str:
    return mongo("replica_set").new_database()


async def life(store: MongoStore) -> None:
    """One execution from its job to its ending, through every kind of statement, by the server's own clock."""
    job = Job(name="job", id="job-1", declared=encode_spec(JobSpec(handler="work")))
    assert (await store.write_jobs([JobWrite(job=job, seen_version=None, executions=(execution(),))]))[0].won
    first, second = execution(), execution(unique_key="u")
    assert [added.outcome for added in await store.add([first, second])] == ["added", "added"]
    rows = (await store.exchange([], request())).claimed
    assert len(rows) == 3
    worker = WorkerInfo(id=OWNER, host="h", pid=1, version="v")
    beat = HeartbeatRequest(worker=worker, leases=tuple((row.id, row.token) for row in rows), lease=30.0)
    assert (await asyncio.to_thread(store.heartbeat, beat)).lost == frozenset()
    report = ProgressReport(id=rows[0].id, token=rows[0].token, owner=OWNER, progress_json="{}")
    assert await store.report([report]) == [True]
    assert (await store.exchange([ending(row) for row in rows], None)).applied == (True, True, True)
    await store.fold(100)
    assert (await store.stats())["job-1"].completed == 3
    assert len(await store.find(ExecutionQuery(job="job"))) == 3
    lock = await store.lock_take("l", OWNER, 5)
    assert lock is not None
    assert await store.lock_release("l", lock.token)


@pytest.mark.req("UPG-1")
async def test_a_heartbeat_sends_only_what_changes(replica_set_url: str) -> None:
    """A mark in place of the names stays until they change, or the document has gone."""
    worker = WorkerInfo(id=OWNER, host="h", pid=1, version="v", declares=("a", "b"))
    async with opened(replica_set_url) as store:
        with pymongo.MongoClient[dict[str, Any]](replica_set_url) as client:
            database = client.get_default_database()
            [name] = [each for each in database.list_collection_names() if each.endswith(".workers")]

            async def declares(worker: WorkerInfo) -> tuple[str, ...]:
                request = HeartbeatRequest(worker=worker, leases=(), lease=30.0)
                reply = await asyncio.to_thread(store.heartbeat, request)
                [found] = await store.workers()
                assert replace(found, declares=()) == replace(worker, declares=(), seen=reply.now)
                return found.declares

            assert await declares(worker) == ("a", "b")
            database[name].update_one({}, {"$set": {"declares": ["mark"]}})
            assert await declares(replace(worker, running=3)) == ("mark",)
            database[name].delete_many({})
            assert await declares(replace(worker, running=4)) == ("a", "b")
            assert await declares(replace(worker, declares=("c",))) == ("c",)


async def test_leases_follow_the_clock_of_the_server(url: str) -> None:
    async with opened(url) as store:
        await store.add([execution()])
        [row] = (await store.exchange([], request(lease=0.001))).claimed
        assert row.lease is not None
        assert abs(row.lease - await store.now()) < 60_000_000
        assert row.lease % 1000 == 0
        [over] = await until(lambda: store.expired(10), "the lease is over")
        assert over == row
        rescue = ending(row, State.PENDING, rescue=True)
        assert (await store.exchange([rescue], None)).applied == (True,)
        [again] = (await store.exchange([], request(lease=30))).claimed
        assert again.claims == 2
        assert (await store.exchange([ending(again, State.PENDING, rescue=True)], None)).applied == (False,)


async def test_nothing_starts_before_it_was_made(url: str) -> None:
    """The server knows milliseconds only, and what was made a moment ago carries microseconds."""
    async with opened(url) as store:
        for _ in range(30):
            await store.add([execution()])
            [row] = (await store.exchange([], request())).claimed
            assert row.claimed is not None
            assert row.created <= row.claimed == row.started


# --- schema ---------------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-5")
async def test_any_number_may_create_the_indexes_at_once(url: str) -> None:
    stores = [MongoStore(url) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    await life(stores[0])
    await asyncio.gather(*(store.close() for store in stores))


@pytest.mark.req("UPG-1")
async def test_a_contracting_step_waits_for_the_release_before_and_shuts_it_out(
    replica_set_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def contract(db: Database) -> None:
        await db.meta.delete_one({"_id": "old"})

    async with opened(replica_set_url) as store:
        before = WorkerInfo(id="w", host="here", pid=1, version="0.2.0", lease=3600)
        await asyncio.to_thread(store.heartbeat, HeartbeatRequest(worker=before, leases=(), lease=30))
        await store.db.meta.update_one({"_id": "old"}, {"$set": {"n": 1}}, upsert=True)
    monkeypatch.setattr(schema, "STEPS", SchemaSteps(base=1, newest=4, oldest=2, contracts={4: "0.3.0"}))
    monkeypatch.setattr(schema, "CONTRACTIONS", {4: contract})
    found = await admin.migrate(replica_set_url)
    assert (found.required, found.expanded, found.pending, found.contracts) == (1, 3, [], [4])
    assert found.running == {"0.2.0": 1}
    with pytest.raises(ConfigurationError, match=r"worker w on here runs Mainspring 0\.2\.0, and step 4 takes away"):
        await admin.migrate(replica_set_url, contract=True)
    async with opened(replica_set_url) as store:  # the new release works on both sides of the step
        await store.remove_worker("w")
    found = await admin.migrate(replica_set_url, contract=True)
    assert (found.required, found.expanded, found.pending, found.contracts) == (4, 4, [], [])
    async with opened(replica_set_url) as store:
        assert await store.db.meta.find_one({"_id": "old"}) is None
    monkeypatch.undo()
    with pytest.raises(SchemaMismatch, match=f"is at 4, this release needs {NEWEST}; update"):
        await MongoStore(replica_set_url).open()


@pytest.mark.req("OPS-5")
async def test_a_schema_of_a_later_release_is_refused(replica_set_url: str) -> None:
    async with opened(replica_set_url) as store:
        await store.db.meta.update_one({"_id": "schema"}, {"$set": {"version": NEWEST + 1}})
    with pytest.raises(SchemaMismatch, match=f"schema is at {NEWEST + 1}, this release needs {NEWEST}"):
        await MongoStore(replica_set_url).open()


@pytest.mark.req("OPS-5")
async def test_an_index_that_is_missing_or_differs_is_reported_with_the_remedy(
    replica_set_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(replica_set_url) as store:
        await store.db.executions.driver.drop_index("unique_key")
    with pytest.raises(
        StoreError, match=r"index 'unique_key' of mainspring\.executions is missing; run `mainspring db"
    ):
        await MongoStore(replica_set_url).open()
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient(replica_set_url) as client:
        rows = client.get_default_database()["mainspring.executions"]
        rows.create_index("unique_key", name="unique_key")
        with pytest.raises(StoreError, match=r"'unique_key' of mainspring\.executions is .* not .*; drop that index"):
            await MongoStore(replica_set_url).open()
        assert await asyncio.to_thread(run_command, ["db", "migrate", "--database-url", replica_set_url]) != 0
        rows.drop_index("unique_key")
    assert await asyncio.to_thread(run_command, ["db", "migrate", "--database-url", replica_set_url]) == 0
    async with opened(replica_set_url) as store:
        await life(store)
    assert "drop that index" in capsys.readouterr().err


def test_the_command_line_shows_and_migrates(replica_set_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    def status(command: str) -> dict[str, Any]:
        assert run_command(["db", command, "--database-url", replica_set_url, "-o", "json"]) == 0
        shown: dict[str, Any] = json.loads(capsys.readouterr().out)
        return shown

    before = status("status")
    assert (before["schema"], before["expanded"], before["pending"]) == ("mainspring", 0, [*range(1, NEWEST + 1)])
    after = status("migrate")
    assert (after["expanded"], after["pending"]) == (NEWEST, [])
    assert status("status") == status("migrate") == after
    assert run_command(["db", "sql", "--database-url", replica_set_url]) != 0
    assert "MongoDB has no SQL" in capsys.readouterr().err


async def test_two_prefixes_in_one_database_are_apart(url: str) -> None:
    mark = "&" if "?" in url else "?"
    async with opened(f"{url}{mark}prefix=one") as one, opened(url, prefix="two") as two:
        await life(one)
        assert await two.find(ExecutionQuery()) == []
        await life(two)


# --- addresses ------------------------------------------------------------------------------------------------------


def test_what_an_address_says() -> None:
    address = parse_address("mongodb://u:p@a:1,b:2/shop?replicaSet=r&prefix=jobs&heartbeatFrequencyMS=500")
    assert (address.database, address.collections) == ("shop", "jobs")
    assert address.url == "mongodb://u:p@a:1,b:2/shop?replicaSet=r&heartbeatFrequencyMS=500"
    assert "heartbeatFrequencyMS" not in address.options
    assert address.name == "mongodb://u:***@a:1,b:2/shop?replicaSet=r&heartbeatFrequencyMS=500"
    assert parse_address("mongodb+srv://host/jobs?tls=true").database == "jobs"
    assert parse_address("mongodb://host").database == "mainspring"


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("mongodb://h/x?prefix=1st", "prefix: '1st' is not valid"),
        ("mongodb://h/x?prefix=a.b", "letters, digits and underscores"),
        ("mongodb://h:x/y", "an address such as mongodb://host:27017/name"),
        ("mongodb://u:secret@h/x?readPreference=nowhere", "readPreference"),
    ],
)
def test_options_of_the_address_are_checked(address: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words) as refused:
        MongoStore(address)
    assert "secret" not in str(refused.value)


async def test_a_server_that_is_not_there() -> None:
    with pytest.raises(StoreError, match="check that the server runs and can be reached"):
        await MongoStore("mongodb://127.0.0.1:1/jobs?serverSelectionTimeoutMS=100").open()


async def test_a_store_that_is_not_open_says_so() -> None:
    with pytest.raises(StoreError, match="not open"):
        await MongoStore("mongodb://127.0.0.1:1/jobs").now()


# --- clients handed in ----------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-7")
async def test_a_client_is_used_and_left_open(url: str) -> None:
    client: AsyncMongoClient[dict[str, Any]]
    async with AsyncMongoClient(url) as client:
        async with opened(client, name="handed_in", prefix=f"p{os.getpid()}") as store:
            await life(store)
        assert (await client.admin.command("ping"))["ok"] == 1
        await client.drop_database("handed_in")


@pytest.mark.req("OPS-7")
def test_what_is_no_client_is_refused(replica_set_url: str) -> None:
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient(replica_set_url) as client, pytest.raises(InvalidValue, match="an AsyncMongoClient"):
        MongoStore(client)
    with pytest.raises(InvalidValue, match="an address such as"):
        Mainspring(AsyncMongoClient(replica_set_url, connect=False))  # type: ignore[arg-type]


# --- wake-ups -------------------------------------------------------------------------------------------------------


@pytest.mark.req("WRK-2")
async def test_wake_ups_of_another_process_come_by_topic(url: str) -> None:
    async with opened(url) as store, opened(url) as other:
        heard: list[Topic] = []
        stop = store.listen(heard.append)
        await until(lambda: Topic.ANY in heard, "listening")
        await until(lambda: store.opened.listener.hears, "the listener hears")
        heard.clear()
        await other.add([execution()])
        await until(lambda: Topic.WORK in heard, "a wake-up about work")
        assert Topic.ANY not in heard
        await store.add([execution()])
        stop()


@pytest.mark.req("WRK-2")
async def test_a_listener_that_was_cut_off_resumes_where_it_was(replica_set_url: str) -> None:
    async with opened(replica_set_url) as store, opened(replica_set_url) as other:
        heard: list[Topic] = []
        store.listen(heard.append)
        await until(lambda: Topic.ANY in heard, "listening")
        await other.add([execution()])
        await until(lambda: Topic.WORK in heard, "a wake-up")
        heard.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AsyncCollection, "watch", _cut_off)
            await _kill_streams(replica_set_url)
            await until(lambda: not store.opened.listener.hears, "the stream is gone")
            await other.request_cancel([])
        await until(lambda: {Topic.ANY, Topic.CANCEL} <= set(heard), "it hears what happened in between")


async def _cut_off(*args: Any, **options: Any) -> Any:
    raise AutoReconnect("the connection is cut")


async def _kill_streams(url: str) -> None:
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient(url) as client:
        name = f"{client.get_default_database().name}.mainspring.wakeups"
        operations = {"$currentOp": {"idleCursors": True, "localOps": True}}
        for operation in list(client.admin.aggregate([operations, {"$match": {"ns": name}}])):
            cursor = operation.get("cursor", {}).get("cursorId")
            if cursor:
                client.get_default_database().command("killCursors", "mainspring.wakeups", cursors=[cursor])


async def test_a_stream_that_cannot_resume_starts_again(replica_set_url: str) -> None:
    async with opened(replica_set_url) as store:
        heard: list[Topic] = []
        store.opened.listener._resume = {"_data": "82" + "00" * 20}
        store.listen(heard.append)
        await until(lambda: Topic.ANY in heard, "listening, from now on")


async def test_a_store_that_has_only_just_begun_to_listen_can_be_closed(url: str) -> None:
    """The driver may swallow the request to stop while it connects."""
    async with asyncio.timeout(60):
        for steps in range(12):
            async with opened(url) as store:
                store.listen(lambda topic: None)
                for _ in range(steps):
                    await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("event", "topics"),
    [
        ({"operationType": "update", "updateDescription": {"updatedFields": {"work": 7, "at": 1}}}, ["work", "at"]),
        ({"operationType": "insert", "fullDocument": {"_id": 1, "jobs": 1}}, ["_id", "jobs"]),
        ({"operationType": "drop"}, ["any"]),
    ],
)
def test_what_a_change_means(event: dict[str, Any], topics: list[str]) -> None:
    assert wakeups._changed(event) == topics


# --- answers that get lost ------------------------------------------------------------------------------------------


def _losing_answers(name: str, *, done: bool) -> Callable[..., Any]:
    """The first answer gets lost, after the server has done its work, or before."""
    original, lost = getattr(AsyncCollection, name), [False]

    async def call(self: Any, *args: Any, **options: Any) -> Any:
        if lost[0] or not self.name.endswith(".executions"):
            return await original(self, *args, **options)
        lost[0] = True
        if done:
            await original(self, *args, **options)
        raise AutoReconnect("the answer got lost")

    return call


@pytest.mark.req("REL-1")
@pytest.mark.parametrize("done", [True, False])
async def test_a_lost_answer_is_found_again_in_the_rows(url: str, done: bool) -> None:
    async with opened(url) as store:
        for name, step in (("insert_many", "add"), ("update_many", "claim"), ("bulk_write", "settle")):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(AsyncCollection, name, _losing_answers(name, done=done))
                if step == "add":
                    added = await store.add([execution(), execution()])
                    assert [one.outcome for one in added] == ["added", "added"]
                elif step == "claim":
                    rows = (await store.exchange([], request())).claimed
                    assert len(rows) == 2
                else:
                    changes = [ending(rows[0]), ending(rows[1], State.PENDING)]
                    assert (await store.exchange(changes, None)).applied == (True, True)
        assert (await store.stats())["job-1"].completed == 1


LOST: list[PyMongoError] = [
    AutoReconnect("the connection is cut"),
    NotPrimaryError("not primary", {"code": 10107}),
    BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64, "errmsg": "no majority in time"}]}),
    BulkWriteError({"writeErrors": [{"code": 11602, "index": 0, "errmsg": "stepped down"}], "writeConcernErrors": []}),
]


@pytest.mark.req("REL-1", "EXE-4")
@pytest.mark.parametrize("lost", LOST, ids=["connection", "election", "majority", "step-down"])
async def test_a_settled_ending_is_never_reported_as_refused(lost: PyMongoError) -> None:
    """Whatever became of the answers, how often it is asked, and though others fold statistics in between."""
    async with opened(mongo("standalone").new_database()) as store, opened_beside(store) as other:
        for fails in (1, 100):
            await store.add([execution() for _ in range(4)])
            rows = (await store.exchange([], request())).claimed
            kept, unkept, retried, taken = rows
            attempt = AttemptRecord(number=1, started=1, ended=2, end="failed", worker=OWNER)
            changes = [
                ending(kept),
                ending(unkept, keep=False),
                ending(retried, State.PENDING, attempt=attempt),
                ending(replace(taken, owner="somebody else")),
            ]
            with pytest.MonkeyPatch.context() as patch:
                failing = Failing(lost, fails, other)
                patch.setattr(AsyncCollection, "bulk_write", failing.bulk_write)
                if fails > 1:
                    with pytest.raises(StoreUnavailable):
                        await store.exchange(changes, None)
                    failing.left = 0
                answer = await store.exchange(changes, None)
            assert answer.applied == (True, True, True, False), fails
            assert (await store.exchange(changes, None)).applied == (False, False, False, False)
            assert store.db.unsettled == {}
            assert (await store.exchange([ending(taken)], None)).applied == (True,)


def opened_beside(store: MongoStore) -> Any:
    assert store._source.address is not None
    return opened(store._source.address.url)


class Failing:
    """Writes that are done, and whose answers get lost while other processes go on: they fold statistics, and what has
    become ready is claimed and ends."""

    def __init__(self, error: PyMongoError, times: int, other: MongoStore) -> None:
        self.error, self.left, self._other, self._original = error, times, other, AsyncCollection.bulk_write

    @property
    def bulk_write(self) -> Callable[..., Any]:
        async def call(collection: Any, *args: Any, **options: Any) -> Any:
            answer = await self._original(collection, *args, **options)
            if not self.left:
                return answer
            left, self.left = self.left - 1, 0
            claimed = (await self._other.exchange([], request(owner="w2"))).claimed
            await self._other.exchange([ending(row) for row in claimed], None)
            await self._other.fold(100)
            self.left = left
            raise self.error

        return call


@pytest.mark.req("REL-1")
async def test_applied_endings_are_reported_even_if_the_claim_after_them_fails(url: str) -> None:
    async with opened(url) as store:
        await store.add([execution(), execution()])
        rows = (await store.exchange([], request(limit=1))).claimed
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AsyncCollection, "aggregate", _cut_off)
            answer = await store.exchange([ending(row) for row in rows], request())
            assert (answer.applied, answer.claimed, answer.more) == ((True,), (), True)
            with pytest.raises(StoreError, match="the connection is cut"):
                await store.exchange([], request())
        assert len((await store.exchange([], request())).claimed) == 1


# --- servers that die -----------------------------------------------------------------------------------------------


@pytest.mark.req("REL-1")
@pytest.mark.parametrize("kind", KINDS)
async def test_work_goes_on_when_the_server_was_killed_and_comes_back(kind: str) -> None:
    server = new_mongo(kind)
    server.start()
    ran: list[int] = []
    soon = f"{server.url('jobs')}{'&' if '?' in server.url() else '?'}serverSelectionTimeoutMS=500"
    app = Mainspring(soon, poll_interval=1, lease="30s", stop_timeout=5)

    @app.job("count")
    async def count(ctx: JobContext, n: int) -> int:
        ran.append(n)
        return n

    await app.start()
    try:
        before = await app.enqueue_many([("count", {"n": n}) for n in range(50)])
        await until(lambda: ran, "work has begun")
        await asyncio.to_thread(server.kill)
        with pytest.raises(StoreError):
            async with asyncio.timeout(20):
                await app.enqueue("count", {"n": -1})
        await asyncio.to_thread(server.start)
        after = await until(lambda: _enqueued(app), "the store answers again")
        for one in [*before, after]:
            assert one is not None
            done = await app.wait(one, timeout=60)
            assert (done.state, row_of(done).claims >= 1) == (State.COMPLETED, True)
        assert set(range(50)) <= set(ran)
    finally:
        await app.stop()
        await app.close()
        server.remove()


@pytest.mark.req("WRK-5", "OPS-9")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_worker_stops_in_time_while_the_server_is_away(kind: str) -> None:
    """Whatever the driver waits for: a server to select, an answer, a majority. Nothing is left that could hold up the
    end of the process. Both kinds of absence are waited for at the same time."""
    others = _threads("pymongo")  # of clients that tests before this one have opened
    await asyncio.gather(*(_stops_in_time(kind, away) for away in ("killed", "frozen")))
    await until(lambda: not _threads("heartbeat"), "no thread left")
    assert not _threads("pymongo") - others, "the driver has threads that could hold up the end of the process"


async def _stops_in_time(kind: str, away: str) -> None:
    server, seen, began = new_mongo(kind), Seen(), list[str]()
    server.start()
    app = Mainspring(server.url("jobs"), observers=[seen], stop_timeout=5.0)

    @app.job("long")
    async def long(ctx: JobContext) -> None:
        began.append(ctx.execution_id)
        await asyncio.Event().wait()

    await app.start()
    await app.enqueue_many([("long", None)] * 2)
    await until(lambda: len(began) == 2, "work has begun")
    await asyncio.to_thread(server.kill if away == "killed" else server.pause)
    try:
        stopping = own_time()
        await app.stop()
        stopped = own_time()
        await app.close()
        closed = own_time()
        assert stopped - stopping < 5.0, away
        assert closed - stopped < 2.0, away  # the driver waits 10 s for a server
        assert [(event.handed_back, event.unsettled) for event in seen.of(Stopped)] == [(0, 2)], away
    finally:
        await asyncio.to_thread(server.remove)


@pytest.mark.req("WRK-5", "OPS-9")
async def test_a_client_whose_lock_is_lost_does_not_hold_up_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a Condition of asyncio loses it when a wait for a server is cancelled twice."""
    left, close = list[Database](), Database.close

    async def stuck(db: Database) -> None:
        left.append(db)
        await asyncio.Event().wait()

    monkeypatch.setattr(Database, "close", stuck)
    app = Mainspring(mongo("standalone").new_database())
    await app.open()
    began = own_time()
    await app.close()
    assert own_time() - began < 5.0
    for db in left:
        await close(db)


def _threads(kind: str) -> set[threading.Thread]:
    return {each for each in threading.enumerate() if kind in each.name}


async def _enqueued(app: Mainspring) -> Any:
    try:
        return await app.enqueue("count", {"n": 50})
    except StoreError:
        return None


@pytest.mark.req("WRK-2", "WRK-3")
async def test_two_applications_share_the_work_and_wake_each_other(replica_set_url: str) -> None:
    client = Mainspring(replica_set_url, poll_interval=NEVER)
    worker = Mainspring(replica_set_url, poll_interval=NEVER, stop_timeout=5)

    @worker.job("greet", trigger=every(hours=1))
    async def greet(ctx: JobContext, name: str = "you") -> str:
        return f"hello {name}"

    await worker.start()
    try:
        done = await client.enqueue("greet", {"name": "ann"})
        assert done is not None
        assert (await client.wait(done, timeout=60)).result == "hello ann"
        asked = await client.trigger("greet")
        assert (await client.wait(asked, timeout=60)).result == "hello you"
        assert [view.name for view in await asyncio.to_thread(client.sync.jobs)] == ["greet"]
    finally:
        await worker.stop()
        await worker.close()
        await client.close()
