"""What travels together on PostgreSQL: enqueues gathered, bulk in parts, the usual endings, statements on few lines."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import psycopg
import pytest

from mainspring.core.ports import Topic
from mainspring.model.errors import StoreError
from mainspring.model.execution import AttemptRecord, ExecutionRow, State
from mainspring.model.store.batches import ExecutionTemplate, batch_of
from mainspring.model.store.messages import Added, Change, ClaimRequest, ExecutionQuery
from mainspring.model.values.ids import random_id
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.connection.wire import Wire
from mainspring.stores.postgres.executions.batching import ROWS_AT_ONCE
from mainspring.stores.postgres.executions.exchange import completions
from tests.servers import postgres
from tests.support import DEADLINE, until

OWNER = 'worker "one"'
CHANCE = random.Random(1)


@pytest.fixture
def url() -> str:
    return postgres().migrated_database()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def execution(**fields: Any) -> ExecutionRow:
    now = time.time_ns() // 1000
    plain = {"id": random_id(now, CHANCE), "job": "job", "job_id": "job-1", "handler": "work"}
    return ExecutionRow(**{**plain, "created": now, "due": now, **fields})


def completed(row: ExecutionRow, **fields: Any) -> Change:
    """As `core.rules.transitions` ends a first try."""
    ended = row.created + 5_000
    attempt = AttemptRecord(
        number=1, worker=OWNER, started=row.created + 1_000, ended=ended, end="completed", cpu_ms=0.25
    )
    seen: dict[str, Any] = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner}
    plain = {"to": State.COMPLETED, "at": ended, "failures": 0, "crashes": 0, "attempt": attempt}
    return Change(**{**seen, **plain, **fields})


async def claimed(store: PostgresStore, limit: int = 100) -> tuple[ExecutionRow, ...]:
    handlers = frozenset({"work"})
    request = ClaimRequest(owner=OWNER, handlers=handlers, queues=None, limit=limit, lease=30.0)
    return (await store.exchange([], request)).claimed


# --- enqueue --------------------------------------------------------------------------------------------------------


@pytest.mark.req("ENQ-1", "ENQ-3")
async def test_of_callers_that_ask_for_the_same_key_at_once_one_gets_it(url: str) -> None:
    async with opened(url) as store:
        rows = [execution(unique_key=f"key {number % 10}") for number in range(60)]
        answers = [one for [one] in await asyncio.gather(*(store.add([row]) for row in rows))]
        assert [one.id for one in answers] == [row.id for row in rows]
        winners = {row.unique_key: row.id for row, one in zip(rows, answers, strict=True) if one.outcome == "added"}
        assert len(winners) == 10
        for row, one in zip(rows, answers, strict=True):
            expected = Added(row.id, "added") if winners[row.unique_key] == row.id else None
            assert one == (expected or Added(row.id, "unique_taken", winners[row.unique_key]))


@pytest.mark.req("ENQ-3", "ENQ-4")
async def test_strangers_gathered_with_a_key_in_an_open_transaction_do_not_wait(url: str) -> None:
    async with opened(url) as store, await psycopg.AsyncConnection.connect(url) as theirs:
        await store.add([execution()])  # its job is known from here on
        held = execution(unique_key="held")
        assert [one.outcome for one in await store.add_in(theirs, [held])] == ["added"]  # type: ignore[misc]
        keys = [None, "held", "a", None, "held", "b", None]
        tasks = [asyncio.create_task(store.add([execution(unique_key=key)])) for key in keys]
        strangers = [task for task, key in zip(tasks, keys, strict=True) if key != "held"]
        async with asyncio.timeout(20):
            assert [one.outcome for [one] in await asyncio.gather(*strangers)] == ["added"] * 5
        assert not any(task.done() for task, key in zip(tasks, keys, strict=True) if key == "held")
        await theirs.commit()
        async with asyncio.timeout(20):
            assert [one for task in (tasks[1], tasks[4]) for one in await task] == [
                Added((await tasks[n])[0].id, "unique_taken", held.id) for n in (1, 4)
            ]


@pytest.mark.req("ENQ-1")
async def test_bulk_goes_in_parts_and_every_row_is_answered_in_its_place(url: str) -> None:
    async with opened(url) as store:
        ended = execution()
        await store.add([ended])
        assert (await store.exchange([completed(row) for row in await claimed(store)], None)).applied == (True,)
        rows = [execution() for _ in range(2 * ROWS_AT_ONCE + 10)]
        rows[ROWS_AT_ONCE + 5] = ended
        answers = await store.add(rows)
        assert [one.id for one in answers] == [row.id for row in rows]
        assert {one.id for one in answers if one.outcome != "added"} == {ended.id}
        assert answers[ROWS_AT_ONCE + 5].outcome == "duplicate"


@pytest.mark.req("ENQ-1")
async def test_a_batch_of_which_some_are_there_already_adds_the_others_once(url: str) -> None:
    """As after a lost connection, when nobody knows how far the first try came."""
    async with opened(url) as store:
        rows = [execution() for _ in range(5)]
        assert [one.outcome for one in await store.add([rows[1], rows[3]])] == ["added"] * 2
        expected = ["added", "duplicate", "added", "duplicate", "added"]
        assert [one.outcome for one in await store.add(rows)] == expected
        assert [one.outcome for one in await store.add(rows)] == ["duplicate"] * 5
        assert {row.id: await store.execution(row.id) for row in rows} == {row.id: row for row in rows}
        assert sorted(row.id for row in await claimed(store)) == sorted(row.id for row in rows)


@pytest.mark.req("ENQ-1")
@pytest.mark.parametrize("count", [1, 3])
async def test_rows_of_one_blank_are_stored_as_they_were_given_and_known_again(url: str, count: int) -> None:
    blank = execution(policy='{"max_attempts":7}', priority=3, queue="q")
    texts = ["{}", '{"a":"line\\nbreak }\\n \\" \u2028"}', '{"trigger":"manual"}']
    ids = [random_id(blank.created + n, CHANCE) for n in range(count)]
    own = zip(ids, texts, strict=False)
    rows = [msgspec.structs.replace(blank, id=id, trace_id=id.replace("-", ""), params=text) for id, text in own]
    async with opened(url) as store:
        for outcome in ("added", "duplicate"):
            assert await store.add(batch_of(ExecutionTemplate(blank), rows)) == [Added(id, outcome) for id in ids]
        assert [await store.execution(id) for id in ids] == rows
        assert [row.id for row in await store.find(ExecutionQuery(trigger="enqueue"))] == sorted(ids, reverse=True)


@pytest.mark.req("ENQ-3")
async def test_keys_are_given_in_the_order_of_the_rows_across_parts(url: str) -> None:
    async with opened(url) as store:
        rows = [execution() for _ in range(ROWS_AT_ONCE + 10)]
        rows[0] = first = execution(unique_key="k")
        rows[-1] = last = execution(unique_key="k")
        answers = await store.add(rows)
        assert (answers[0], answers[-1]) == (Added(first.id, "added"), Added(last.id, "unique_taken", first.id))


@pytest.mark.req("ENQ-1")
async def test_rows_of_several_jobs_lanes_and_times_travel_together(url: str) -> None:
    async with opened(url) as store:
        later = time.time_ns() // 1000 + 3_600_000_000
        rows = [
            execution(job_id="job-2", job="second", handler="work", priority=3),
            execution(due=later),
            execution(queue="other", trace_id="ab" * 16, params='{"a":"\\u001e\\u0000"}'),
            execution(unique_key='a "key", with {braces}'),
            execution(job_id="job-3", job='}\n{"job":"', params='{"a":"}\\n{\\"job\\":\\""}'),  # as where a row begins
        ]
        assert [one.outcome for one in await store.add(rows)] == ["added"] * 5
        assert {row.id: await store.execution(row.id) for row in rows} == {row.id: row for row in rows}
        assert [row.id for row in await claimed(store)][:1] == [rows[0].id]


async def test_what_an_idle_process_adds_is_heard_elsewhere(url: str) -> None:
    async with opened(url) as store, opened(url) as other:
        heard: list[Topic] = []
        other.listen(heard.append)
        await until(lambda: Topic.ANY in heard, "listening")
        heard.clear()
        await store.add([execution()])
        await until(lambda: Topic.WORK in heard, "the news of the first")
        heard.clear()
        await store.add([execution()])
        await until(lambda: Topic.WORK in heard, "the news of the next, which came too soon to be told at once")


# --- endings --------------------------------------------------------------------------------------------------------


@pytest.mark.req("HIS-1")
async def test_first_attempts_that_completed_are_recorded_as_all_others_are(url: str) -> None:
    async with opened(url) as store:
        await store.add([execution() for _ in range(4)])
        rows = await claimed(store)
        results = [None, '"\\u001e"', '{"a":[1,2]}', None]
        simple = [completed(row, result_json=result) for row, result in zip(rows, results, strict=True)]
        others = [completed(row, metadata_json="{}") for row in rows]
        assert completions(simple) is not None
        assert completions(others) is None
        assert (await store.exchange(simple, None)).applied == (True,) * 4
        for row, change in zip(rows, simple, strict=True):
            found = await store.execution(row.id)
            assert found is not None
            assert (found.state, found.finished, found.result_json) == (change.to, change.at, change.result_json)
            assert found.attempts == [change.attempt]
        stats = (await store.stats())["job-1"]
        assert (stats.completed, stats.timed, stats.last_id) == (4, 4, max(row.id for row in rows))


@pytest.mark.req("WRK-4")
async def test_a_completion_under_another_token_is_refused_and_its_neighbours_are_not(url: str) -> None:
    async with opened(url) as store:
        await store.add([execution() for _ in range(3)])
        rows = await claimed(store)
        changes = [completed(rows[0]), completed(rows[1], token=7), completed(rows[2])]
        assert completions(changes) is not None
        assert (await store.exchange(changes, None)).applied == (True, False, True)
        assert (await store.exchange([completed(rows[1])], None)).applied == (True,)
        assert (await store.exchange([completed(rows[1])], None)).applied == (False,)


async def test_a_first_try_that_is_not_the_first_is_told_after_the_others(url: str) -> None:
    """Nobody should send one; if somebody does, no attempt is lost."""
    async with opened(url) as store:
        await store.add([execution()])
        [row] = await claimed(store)
        await store.exchange([completed(row, to=State.PENDING)], None)
        [again] = await claimed(store)
        assert (await store.exchange([completed(again)], None)).applied == (True,)
        found = await store.execution(row.id)
        assert found is not None
        assert [(attempt.number, attempt.worker) for attempt in found.attempts] == [(1, OWNER), (1, OWNER)]


@pytest.mark.req("WRK-4")
async def test_exchanges_of_one_owner_overlap_and_never_share_a_row(url: str) -> None:
    async with opened(url) as store:
        await store.add([execution() for _ in range(600)])
        seen: list[str] = []

        async def loop() -> None:
            changes: list[Change] = []
            while True:
                request = ClaimRequest(owner=OWNER, handlers=frozenset({"work"}), queues=None, limit=20, lease=30.0)
                answer = await store.exchange(changes, request)
                assert all(answer.applied)
                seen.extend(row.id for row in answer.claimed)
                changes = [completed(row) for row in answer.claimed]
                if not changes:
                    return

        await asyncio.gather(loop(), loop(), loop())
        assert len(seen) == len(set(seen)) == 600
        assert await store.count(ExecutionQuery(states=frozenset({State.COMPLETED})), 1_000) == 600


# --- lines ----------------------------------------------------------------------------------------------------------


async def test_more_statements_than_lines_take_turns_and_the_cancelled_ones_leave_no_gap(url: str) -> None:
    async with opened(f"{url}?pool_size=2") as store:
        for _ in range(5):
            tasks = [asyncio.create_task(store.now()) for _ in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::3]:
                task.cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            kept = [answer for number, answer in enumerate(answers) if number % 3]
            assert all(isinstance(answer, int) for answer in kept), kept
        async with asyncio.timeout(20):
            await asyncio.gather(*(store.now() for _ in range(5)))


async def test_lines_that_the_server_has_closed_meanwhile_are_not_used(url: str) -> None:
    async with opened(url) as store:
        await asyncio.gather(*(store.now() for _ in range(4)))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert store._opened is not None
        lines: Any = store._opened.db._source
        await until(lambda: all(line.cut for line in lines._parts.here()._idle), "the lines are known to be cut")
        assert await store.exchange([], None)  # which is not repeated when a connection is lost


async def test_closing_a_broken_line_leaves_the_one_that_got_its_number_alone(url: str) -> None:
    """libpq closes the socket of a broken connection by itself; the next connection may get the same number."""
    broken = Wire(await psycopg.AsyncConnection.connect(url, autocommit=True), 30.0, prepares=False)
    number = broken.connection.pgconn.socket
    [[pid]] = await broken.fetch("SELECT pg_backend_pid()", ())
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
    await until(lambda: broken.cut)
    lines = []
    while not lines or lines[-1].connection.pgconn.socket != number:
        assert len(lines) < 50, "the number was never given again"
        lines.append(Wire(await psycopg.AsyncConnection.connect(url, autocommit=True), 30.0, prepares=False))
    broken.close()
    async with asyncio.timeout(DEADLINE):
        assert await lines[-1].fetch("SELECT 1", ()) == [(1,)]
    for line in lines:
        line.close()


@pytest.mark.parametrize("ending", ["an answer", "the end of the line"])
async def test_a_line_looks_by_itself_when_the_event_loop_does_not_tell(url: str, ending: str) -> None:
    """uvloop stops watching a socket that was reset, after having told of it once."""
    line = Wire(await psycopg.AsyncConnection.connect(url, autocommit=True), 30.0, prepares=False)
    [[pid]] = await line.fetch("SELECT pg_backend_pid()", ())
    asyncio.get_running_loop().remove_reader(line.connection.pgconn.socket)
    async with asyncio.timeout(DEADLINE):
        if ending == "an answer":
            assert await line.fetch("SELECT 1", ()) == [(1,)]
        else:
            with psycopg.connect(url, autocommit=True) as other:
                waiting = asyncio.create_task(line.fetch("SELECT pg_sleep(60)", ()))
                await asyncio.sleep(0)
                other.execute("SELECT pg_terminate_backend(%s)", [pid])
                with pytest.raises(psycopg.OperationalError):
                    await waiting
    line.close()


@pytest.mark.req("ENQ-1")
async def test_a_bulk_that_fails_says_why_as_a_single_one_does(url: str) -> None:
    async with opened(url) as store:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("ALTER TABLE mainspring.live ADD CONSTRAINT no_more CHECK (priority < 7)")
        rows = [execution(priority=7) for _ in range(3 * ROWS_AT_ONCE)]
        with pytest.raises(StoreError, match="no_more"):
            await store.add(rows)
