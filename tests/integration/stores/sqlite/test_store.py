"""The SQLite store under the conditions a conformance suite cannot make: other processes, forks, locks held by
strangers, callers on other loops or gone away."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ports import Topic
from mainspring.model.errors import StoreError
from mainspring.model.execution import ExecutionRow, State
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import Audit, ExecutionQuery, HeartbeatRequest, JobWrite, PruneRule, WorkerInfo
from mainspring.model.triggers import encode_trigger, every
from mainspring.model.values.ids import random_id
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.executions import history
from mainspring.stores.sqlite.migrate import schema_at
from mainspring.stores.sqlite.statements import versions
from mainspring.testing.clock import FakeClock
from tests.integration.stores.sqlite_support import (
    ALL,
    CHILD,
    FORKING,
    change,
    claim_request,
    completed,
    connected,
    execution,
    opened,
    output,
    start,
    write_lock_held,
)
from tests.support import new_threads, until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


# --- one writer, many callers -----------------------------------------------------------------------------------------


async def asked_while_locked(path: Path, store: SqliteStore, *calls: Any) -> list[Any]:
    """The outcomes of calls that all wait for the write lock, and so end up in one transaction."""
    with write_lock_held(path):
        tasks = [asyncio.ensure_future(call) for call in calls]
        await store.jobs()  # the reader answers: the calls before it have been handed over
        assert not any(task.done() for task in tasks)
    return await asyncio.gather(*tasks, return_exceptions=True)


def commits(path: Path) -> int:
    """Commits in the write-ahead log: frames whose header says how large the database is after them."""
    log = Path(f"{path}-wal").read_bytes()
    page = int.from_bytes(log[8:12], "big")
    return sum(log[at + 4 : at + 8] != bytes(4) for at in range(32, len(log), 24 + page))


@pytest.mark.req("REL-1", "ENQ-1")
async def test_calls_that_wait_together_are_committed_together(path: Path) -> None:
    async with opened(path) as store:
        before = commits(path)
        await asked_while_locked(path, store, *(store.add([execution(n)]) for n in range(200)))
        assert commits(path) == before + 1
        assert await store.count(ALL, 1_000) == 200


@pytest.mark.req("ENQ-1")
async def test_enqueues_that_wait_together_are_told_apart(path: Path) -> None:
    """Each caller gets the answers to its own executions, and its audit records are stored if theirs were."""
    audits = [Audit(id=f"audit-{n}", at=n, actor="me", action="enqueue", target="job") for n in range(7)]
    async with opened(path) as store:
        answers = await asked_while_locked(
            path,
            store,
            store.add([execution(1, unique_key="a"), execution(2)], audits[:2]),
            store.add([execution(3, unique_key="a")], [audits[2]]),
            store.add([], []),
            store.add([execution(4, overlap_key="b"), execution(5, overlap_key="b"), execution(2)], audits[4:]),
        )
        outcomes = [[(item.outcome, item.holder) for item in answer] for answer in answers]
        assert outcomes == [
            [("added", None), ("added", None)],
            [("unique_taken", execution(1).id)],
            [],
            [("added", None), ("skipped", execution(4).id), ("duplicate", None)],
        ]
        assert [audit.id for audit in await store.audits()] == ["audit-5", "audit-4", "audit-1", "audit-0"]
        assert sorted(row.number or 0 for row in await store.find(ALL)) == [1, 2, 3, 4]


@pytest.mark.req("REL-1")
async def test_a_failing_call_hurts_nobody_else(path: Path) -> None:
    broken = execution(2, params='"\ud800"')  # refused by every layer above; a store must not lose its neighbours
    async with opened(path) as store:
        calls = [store.add([execution(1)]), store.add([broken]), store.add([execution(3)]), store.prune_workers(1.0)]
        first, second, third, pruned = await asked_while_locked(path, store, *calls)
        assert (first[0].outcome, third[0].outcome, pruned) == ("added", "added", 0)
        assert isinstance(second, UnicodeEncodeError)
        assert [row.number for row in await store.find(ALL)] == [2, 1]


async def test_a_call_given_up_before_it_began_does_nothing(path: Path) -> None:
    async with opened(path) as store:
        with write_lock_held(path):
            task = asyncio.ensure_future(store.add([execution(1)]))
            await store.jobs()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await store.add([execution(2)])
        assert [row.id for row in await store.find(ALL)] == [execution(2).id]


async def test_reads_do_not_wait_for_writes(path: Path) -> None:
    async with opened(path) as store:
        await store.add([execution(1)])
        with write_lock_held(path):
            assert await store.execution(execution(1).id) is not None
            assert (await store.due_jobs(10)).jobs == ()


@pytest.mark.req("WRK-3")
async def test_a_heartbeat_overtakes_what_waits(path: Path) -> None:
    worker = WorkerInfo(id="w1", host="here", pid=1, version="1")
    urgent: list[Any] = []
    taken: list[Any] = []
    async with opened(path) as store:
        opened_store = store.threads.opened
        assert opened_store is not None
        mailbox = opened_store.writer.mailbox
        put, take = mailbox.put, mailbox.take

        def watched_put(call: Any, **options: Any) -> None:
            urgent.extend([call] if options.get("urgent") else [])
            put(call, **options)

        def watched_take(most: int) -> list[Any]:
            calls = take(most)
            taken.extend(calls)
            return calls

        with write_lock_held(path):
            mailbox.put, mailbox.take = watched_put, watched_take  # type: ignore[method-assign]
            adds = [asyncio.ensure_future(store.add([execution(n)])) for n in range(300)]
            beat = asyncio.ensure_future(
                asyncio.to_thread(store.heartbeat, HeartbeatRequest(worker=worker, leases=(), lease=30.0))
            )
            await until(lambda: len(mailbox) == 301)
        await asyncio.gather(*adds, beat)
        assert taken[0] is urgent[0]
        assert len(taken) == 301


@pytest.mark.req("REL-1", "WRK-3")
async def test_a_row_claimed_here_and_taken_over_elsewhere_cannot_be_settled_here(path: Path) -> None:
    """The store remembers what it claimed; the fence in the database decides all the same."""
    async with opened(path) as store, opened(path) as other:
        await store.add([execution(1)])
        [mine] = (await store.exchange([], claim_request("w1"))).claimed
        [theirs] = (await other.exchange([change(mine, State.PENDING)], claim_request("w2"))).claimed
        assert (await store.exchange([change(mine, State.COMPLETED)], None)).applied == (False,)
        assert (await other.exchange([change(theirs, State.FAILED)], None)).applied == (True,)
        [row] = await store.find(ALL)
        assert (row.state, row.claims) == (State.FAILED, 2)


async def test_a_lock_held_too_long_is_reported_with_the_remedy(path: Path) -> None:
    async with opened(path, busy_timeout=0.05) as store:
        with write_lock_held(path), pytest.raises(StoreError, match=r"store\.db: another process .* busy_timeout"):
            await store.add([execution(1)])
        assert (await store.add([execution(1)]))[0].outcome == "added"


# --- rows of another release ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unreadable",
    ['{"handler":"work","trigger":{"kind":"lunar"}}', '{"handler":"work","tz":"Moon/Sea"}', '{"flavour":"new"}', "{"],
)
@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_a_job_that_cannot_be_read_does_not_hide_the_others(path: Path, unreadable: str, limit: int) -> None:
    declared = encode_spec(JobSpec(handler="work", trigger=encode_trigger(every(minutes=1))))
    async with opened(path) as store:
        jobs = [Job(name=name, id=name, declared=declared, next_run=n, sweep=True) for n, name in enumerate("abc")]
        await store.write_jobs([JobWrite(job=job, seen_version=None) for job in jobs])
        with connected(path) as connection, connection:
            connection.execute("UPDATE mainspring_jobs SET declared = ? WHERE name = 'b'", (unreadable,))
        page = await store.due_jobs(limit)
        assert [job.name for job in page.jobs] == ["a", "b", "c"][:limit]
        assert page.next_due == {1: 1, 2: 2, 10: None}[limit]
        assert [job.name for job in await store.jobs()] == ["a", "b", "c"]
        assert [job.name for job in await store.jobs(["a", "b"])] == ["a", "b"]
        assert [job.name for job in await store.jobs_after("a", 10)] == ["b", "c"]
        assert [job.name for job in await store.swept(10)] == ["a", "b", "c"]


# --- loops and threads ------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-3")
async def test_other_event_loops_may_use_the_store(path: Path) -> None:
    async with opened(path) as store:
        heard: list[bool] = []

        async def elsewhere() -> int:
            stop = store.listen(lambda topic: heard.append(threading.current_thread() is thread))
            await asyncio.gather(*(store.add([execution(n)]) for n in range(10)))
            await until(lambda: heard)
            stop()
            return await store.count(ALL, 100)

        counts: list[int] = []
        thread = threading.Thread(target=lambda: counts.append(asyncio.run(elsewhere())))
        thread.start()
        await asyncio.gather(*(store.add([execution(n)]) for n in range(10, 20)))
        await asyncio.to_thread(thread.join)
        assert counts[0] >= 10
        assert set(heard) == {True}
        assert await store.count(ALL, 100) == 20


async def test_an_event_loop_that_ended_leaves_no_trouble(path: Path) -> None:
    async with opened(path) as store:

        async def abandon() -> None:
            store.listen(lambda topic: None)
            with write_lock_held(path):
                asyncio.ensure_future(store.add([execution(1)])).add_done_callback(lambda task: task.cancelled())
                await store.jobs()

        await asyncio.to_thread(lambda: asyncio.run(abandon()))
        assert (await store.add([execution(2)]))[0].outcome == "added"


async def test_closing_leaves_no_threads_and_no_open_files(path: Path) -> None:
    threads = set(threading.enumerate())
    for _ in range(3):
        async with opened(path) as store:
            await store.open()
            store.listen(lambda topic: None)
            await store.add([execution(1)])
            pending = asyncio.ensure_future(store.add([execution(2)]))
            await asyncio.sleep(0)
        assert (await pending)[0].outcome in ("added", "duplicate")
    await until(lambda: new_threads(threads) == [])
    assert [target for target in open_files() if str(path) in target] == []


def open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    return [os.readlink(link) for link in folder.iterdir() if link.is_symlink()] if folder.is_dir() else []


async def test_a_store_that_is_not_open_says_so(path: Path) -> None:
    store = SqliteStore(path, FakeClock())
    with pytest.raises(StoreError, match="not open"):
        await store.jobs()
    await store.close()
    await asyncio.gather(store.open(), store.open())
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="not open"):
        store.heartbeat(HeartbeatRequest(worker=WorkerInfo(id="w", host="h", pid=1, version="1"), leases=(), lease=1.0))


# --- other processes --------------------------------------------------------------------------------------------------


@pytest.mark.req("REL-1", "NUM-2")
async def test_processes_that_write_all_the_time_never_find_the_database_locked(path: Path) -> None:
    per_process, processes = 300, 3
    async with opened(path) as store:
        children = [start(CHILD, path, number, per_process) for number in range(processes)]
        done = 0
        while any(child.poll() is None for child in children):
            done += await completed(store, "parent")
        print("slowest write of each:", *(output(child).strip() for child in children), sep="\n")
        while more := await completed(store, "parent"):
            done += more
        found = await store.find(ALL)
        assert len(found) == per_process * processes
        assert {row.state for row in found} == {State.COMPLETED}
        assert {row.claims for row in found} == {1}, "nothing was claimed twice"
        stats = (await store.stats())["job-1"]
        assert stats.completed == per_process * processes
        assert sorted(row.number or 0 for row in found) == list(range(1, per_process * processes + 1))


@pytest.mark.req("WRK-2")
async def test_what_another_process_writes_wakes_listeners(path: Path) -> None:
    async with opened(path) as store:
        heard: list[Topic] = []
        stop = store.listen(heard.append)
        await until(lambda: Topic.ANY in heard, "the first look, which knows nothing yet")
        heard.clear()
        output(start(CHILD, path, 0, 1))
        await until(lambda: Topic.ANY in heard)
        stop()


async def test_processes_that_start_together_make_one_schema(path: Path) -> None:
    for child in [start(CHILD, path, number, 1) for number in range(4)]:
        output(child)
    with connected(path) as connection:
        assert schema_at(connection).expanded == versions()[-1][0]


async def test_stores_that_open_together_make_one_schema(path: Path) -> None:
    stores = [SqliteStore(path, FakeClock()) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.add([execution(n)]) for n, store in enumerate(stores)))
    assert await stores[0].count(ALL, 100) == 8
    await asyncio.gather(*(store.close() for store in stores))


@pytest.mark.req("OPS-3")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_leaves_parent_and_child_with_a_store_each(path: Path) -> None:
    assert output(start(FORKING, path)).split() == ["child-refused", "child-closed", "child-added", "parent-added", "2"]


# --- long histories ---------------------------------------------------------------------------------------------------


def finished(number: int, state: State = State.COMPLETED, at: int = 0) -> ExecutionRow:
    return execution(number, state=state, finished=at)


@pytest.mark.req("HIS-2")
async def test_retention_goes_on_where_it_stopped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "STRETCH", 10)
    kept = [finished(n, State.FAILED, at=1) for n in range(25)]
    old = [finished(n, at=2) for n in range(25, 60)]
    young = [finished(n, at=9) for n in range(60, 100)]
    rule = PruneRule(job_id="job-1", states=frozenset({State.COMPLETED}), older_than=5)
    async with opened(path) as store:
        await store.add([*kept, *old, *young])
        deleted = [await store.prune(rule, 7) for _ in range(16)]
        assert (sum(deleted), max(deleted)) == (35, 7)
        assert await store.count(ALL, 1_000) == 65
        assert await store.prune(PruneRule(job_id="job-1", states=frozenset(State), older_than=None), 7) == 7


@pytest.mark.req("HIS-1")
async def test_a_range_of_time_finds_also_those_whose_ids_tell_another_time(path: Path) -> None:
    """Ids near the time of creation, at the edge of the slack and just beyond it, far off, and of no form at all."""
    chance, slack, noon = random.Random(7), 600_000_000, FakeClock().now()
    apart = (0, 1_000, slack - 1_000, slack, slack + 1_000, slack + 2_000, 5 * slack, noon)
    rows = [
        execution(0, id=random_id(max(created + sign * gap, 0), chance), created=created, tenant=tenant, **fields)
        for created in (noon, noon + 999, noon + slack, noon + 3 * slack)
        for gap in apart
        for sign in (-1, 1)
        for tenant, fields in ((None, {}), ("t", {"state": State.FAILED, "finished": created}))
    ]
    rows += [execution(0, id=id, created=noon) for id in ("", "custom", "\U0001f600")]
    async with opened(path) as store:
        assert {added.outcome for added in await store.add(rows)} == {"added"}
        for begin, end in itertools.product((None, 0, noon, noon + 1, noon + slack), repeat=2):
            for fields in ({}, {"tenant": "t"}, {"states": frozenset({State.FAILED, State.PENDING})}, {"before": "1"}):
                query = ExecutionQuery(created_from=begin, created_to=end, limit=1_000, **fields)
                wanted = [
                    row.id
                    for row in rows
                    if (begin is None or row.created >= begin)
                    and (end is None or row.created < end)
                    and query.tenant in (None, row.tenant)
                    and (query.before is None or row.id < query.before)
                ]
                assert [row.id for row in await store.find(query)] == sorted(wanted, reverse=True)
                assert await store.count(query, 1_000) == len(wanted)


@pytest.mark.req("REG-11")
async def test_purging_a_long_history_takes_several_steps(path: Path) -> None:
    job = Job(name="job", id="job-1", declared=encode_spec(JobSpec(handler="work")))
    async with opened(path) as store:
        await store.write_jobs([JobWrite(job=job, seen_version=None)])
        await store.add([*(finished(n) for n in range(2_500)), execution(9_999)])
        assert await store.delete_job("job", 1, purge=True, audit=None)
        assert [row.id for row in await store.find(ALL)] == [execution(9_999).id]
        assert await store.stats() == {}


async def test_locks_whose_time_is_over_leave_no_rows(path: Path) -> None:
    async with opened(path) as store:
        for n in range(10):
            assert await store.lock_take(f"lock-{n}", "w1", ttl=0.0 if n else 60.0)
        assert await store.prune_workers(60.0) == 0
        with connected(path) as connection:
            assert connection.execute("SELECT name FROM mainspring_locks").fetchall() == [("lock-0",)]


async def test_a_claim_can_be_repeated_while_many_lanes_are_full(path: Path) -> None:
    lanes = [execution(n, queue=f"q{n % 40}", due=0) for n in range(400)]
    async with opened(path) as store:
        await store.add(lanes)
        answer = await store.exchange([], claim_request("w1", limit=80))
        per_queue = {queue: sum(row.queue == queue for row in answer.claimed) for queue in {row.queue for row in lanes}}
        assert set(per_queue.values()) == {2}
        assert answer.more
