"""Enqueueing, uniqueness and transactions of the caller, through the application object."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import CommandRefused, InvalidValue, JobContext, Mainspring, Retry, StoreError, Unique
from mainspring.core.views.execution import row_of
from mainspring.testing.clock import FakeClock
from tests.integration.gate import Gate
from tests.support import ON_A_FAKE_CLOCK, Nodes, Seen, ended, run_once, until


def mail(nodes: Nodes, **options: Any) -> Mainspring:
    app = nodes.app(**options)

    @app.job("mail", params={"subject": "hello"})
    async def send(ctx: JobContext, to: str, subject: str) -> str:
        return f"{subject} {to}"

    return app


@pytest.mark.req("ENQ-1")
async def test_what_an_enqueue_returns_is_what_is_stored(nodes: Nodes) -> None:
    app = mail(nodes)
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with nodes.client() as client:
        await app.open()
        made = await client.enqueue(
            "mail",
            {"to": "ada"},
            start_at=datetime.now(UTC) + timedelta(days=1),
            priority=7,
            queue="slow",
            by="bob",
            traceparent=f"00-{trace}-b7ad6b7169203331-01",
            metadata={"ticket": 42},
        )
        assert made is not None
        stored = await client.get(made.id)
        assert stored == made or stored.number == 1
        assert (stored.priority, stored.queue, stored.triggered_by, stored.trace_id) == (7, "slow", "bob", trace)
        assert (stored.params, stored.metadata) == ({"subject": "hello", "to": "ada"}, {"ticket": 42})
        assert (stored.trigger, stored.state, stored.attempt) == ("enqueue", "pending", 1)
        assert (stored.start_at - datetime.now(UTC)) > timedelta(hours=23)
    await app.close()


@pytest.mark.req("ENQ-1")
async def test_work_waits_for_its_start_time() -> None:
    clock = FakeClock()
    app = Mainspring("memory://", clock=clock, **ON_A_FAKE_CLOCK)

    @app.job("later")
    async def later() -> None: ...

    async with app:
        execution = await app.enqueue(later, start_at=datetime(2026, 1, 1, 0, 1, tzinfo=UTC))
        assert execution is not None
        clock.advance(59.999)
        assert (await run_once(app, later)).state == "completed"  # the worker is awake, and passes it by
        assert (await app.get(execution.id)).state == "pending"
        clock.advance(0.001)
        done = await ended(app, execution)
        assert done.started_at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


@pytest.mark.req("ENQ-1", "FLW-2")
async def test_higher_priority_runs_first_and_equals_run_in_order(nodes: Nodes) -> None:
    app = nodes.app(concurrency=1)
    order: list[str] = []

    @app.job("note", priority=1)
    async def note(text: str) -> None:
        order.append(text)

    await app.open()
    await app.enqueue(note, {"text": "first"})
    await app.enqueue(note, {"text": "second"})
    await app.enqueue(note, {"text": "urgent"}, priority=5)
    last = await app.enqueue(note, {"text": "whenever"}, priority=-5)
    async with app:
        await ended(app, last)
    assert order == ["urgent", "first", "second", "whenever"]


@pytest.mark.req("ENQ-1")
async def test_bulk_keeps_the_order_and_applies_options(nodes: Nodes) -> None:
    app = mail(nodes)
    async with app:
        soon = datetime.now(UTC) + timedelta(seconds=1)  # so that b has not ended, and freed its key, when c comes
        keyed = {"unique": "k", "start_at": soon}
        made = await app.enqueue_many(
            [("mail", {"to": "a"}), ("mail", {"to": "b"}, keyed), ("mail", {"to": "c"}, keyed)], by="import"
        )
        assert [None if each is None else each.params["to"] for each in made] == ["a", "b", None]
        assert {(await ended(app, each)).result for each in made if each} == {"hello a", "hello b"}
        assert {each.triggered_by for each in made if each} == {"import"}
        assert await app.enqueue_many([]) == []
        many = await app.enqueue_many(("mail", {"to": str(n)}) for n in range(1_500))
        assert len({each.id for each in many if each}) == 1_500
        await until(lambda: _none_alive(app), "all of them ran")


async def _none_alive(app: Mainspring) -> bool:
    return (await app.job_view("mail")).live.total == 0


@pytest.mark.req("ENQ-1")
async def test_bulk_is_all_or_nothing_when_an_item_is_wrong(nodes: Nodes) -> None:
    app = mail(nodes)
    await app.open()
    for wrong in (("mail", {}), ("mail",) * 4, "mail", ("mail", {"to": "b"}, "unique")):
        with pytest.raises(InvalidValue):
            await app.enqueue_many([("mail", {"to": "a"}), wrong])
    assert await app.executions() == []
    await app.close()


# --- uniqueness ----------------------------------------------------------------------------------------------


@pytest.mark.req("ENQ-3")
@pytest.mark.parametrize("fails", [False, True])
async def test_a_key_is_held_while_pending_and_running_and_freed_by_the_end(nodes: Nodes, fails: bool) -> None:
    app = nodes.app()
    gate = Gate(app, max_attempts=1)
    gate.fail = fails
    await app.open()
    first = await app.enqueue("gate", unique="k")
    assert first is not None
    assert await app.enqueue("gate", unique="k") is None  # pending
    async with app:
        await gate.holds(first)
        assert await app.enqueue("gate", unique="k") is None  # running
        assert await app.enqueue("gate", unique="other") is not None
        gate.open.set()
        assert (await ended(app, first)).state == ("failed" if fails else "completed")
        again = await app.enqueue("gate", unique="k")
        assert again is not None
        await ended(app, again)


@pytest.mark.req("ENQ-3")
async def test_a_key_is_held_through_retries(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("flaky", retry=Retry(initial="1h"))
    async def flaky() -> None:
        raise ValueError("no")

    async with app:
        first = await app.enqueue(flaky, unique="k")
        assert first is not None
        await until(lambda: _failures(app, first.id))
        assert (await app.get(first.id)).state == "pending"
        assert await app.enqueue(flaky, unique="k") is None
        await app.cancel(first)
        assert await app.enqueue(flaky, unique="k", start_at="2100-01-01T00:00:00Z") is not None


async def _failures(app: Mainspring, id: str) -> int:
    return (await app.get(id)).failures


@pytest.mark.req("ENQ-3")
async def test_one_of_many_concurrent_enqueues_of_a_key_wins(nodes: Nodes) -> None:
    apps = [nodes.app() for _ in range(3)]
    for app in apps:
        Gate(app)
        await app.open()
    made = await asyncio.gather(*(app.enqueue("gate", unique="k") for app in apps for _ in range(10)))
    assert len([each for each in made if each is not None]) == 1
    for app in apps:
        await app.close()


@pytest.mark.req("ENQ-4")
async def test_the_key_switches_at_first_pick_up(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app)
    keys = Unique(enqueued="waiting", running="running")
    async with app:
        first = await app.enqueue("gate", unique=keys)
        await gate.holds(first)
        second = await app.enqueue("gate", unique=keys)  # the first has moved on to its running key
        assert second is not None
        assert await app.enqueue("gate", unique=keys) is None
        await until(lambda: _deferred(app, second.id), "the conflict defers it")
        assert len(gate.running) == 1
        deferred_to = row_of(await app.get(second.id)).due
        gate.open.set()
        await ended(app, first)
        done = await ended(app, second)
        assert row_of(done).due < deferred_to  # the end of the first made it due at once, not after 5 s
        assert gate.most == 1
        assert (done.state, done.failures, [each.number for each in done.attempts]) == ("completed", 0, [1])


async def _deferred(app: Mainspring, id: str) -> bool:
    row = await app.get(id)
    return row.state == "pending" and row_of(row).due > row_of(row).created


@pytest.mark.req("ENQ-4")
async def test_a_stage_without_a_key_is_not_unique(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app)
    async with app:
        # not unique while enqueued, one at a time while running
        serial = [await app.enqueue("gate", unique=Unique(running="r")) for _ in range(3)]
        await until(lambda: len(gate.running) == 1)
        # unique while enqueued, not while running
        first = await app.enqueue("gate", unique=Unique(enqueued="e"))
        await gate.holds(first)
        second = await app.enqueue("gate", unique=Unique(enqueued="e"))
        await gate.holds(second)
        assert len(gate.running) == 3
        gate.open.set()
        for each in (*serial, first, second):
            assert (await ended(app, each)).state == "completed"
    assert all(serial)


# --- the caller's own transaction ----------------------------------------------------------------------------


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The application's own table, in the same file."""
    with closing(sqlite3.connect(tmp_path / "mainspring.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        connection.commit()
        yield connection


def count(connection: sqlite3.Connection) -> int:
    [number] = connection.execute("SELECT count(*) FROM orders").fetchone()
    return int(number)


@pytest.mark.req("ENQ-2")
async def test_enqueue_is_committed_or_rolled_back_with_the_caller(
    sqlite_nodes: Nodes, orders: sqlite3.Connection
) -> None:
    async with mail(sqlite_nodes) as app:
        with orders:
            orders.execute("INSERT INTO orders DEFAULT VALUES")
            made = await app.enqueue("mail", {"to": "ada"}, connection=orders)
            assert made is not None
            with pytest.raises(LookupError):
                await app.get(made.id)  # not committed: nobody sees it
        assert (await ended(app, made)).result == "hello ada"

        orders.execute("INSERT INTO orders DEFAULT VALUES")
        gone = await app.enqueue("mail", {"to": "bob"}, connection=orders)
        orders.rollback()
        assert gone is not None
        with pytest.raises(LookupError):
            await app.get(gone.id)
        assert count(orders) == 1


@pytest.mark.req("ENQ-2")
def test_enqueue_in_a_transaction_from_blocking_code(sqlite_nodes: Nodes, orders: sqlite3.Connection) -> None:
    app = mail(sqlite_nodes)
    with app.sync as sync:
        with orders:
            orders.execute("INSERT INTO orders DEFAULT VALUES")
            made = sync.enqueue("mail", {"to": "ada"}, connection=orders)
            both = sync.enqueue_many([("mail", {"to": "x"}), ("mail", {"to": "y"})], connection=orders, unique="only")
        assert made is not None
        assert [each is None for each in both] == [False, True]
        assert sync.wait(made, timeout=60).result == "hello ada"
        orders.execute("INSERT INTO orders DEFAULT VALUES")
        gone = sync.enqueue("mail", {"to": "bob"}, connection=orders)
        orders.rollback()
        assert gone is not None
        with pytest.raises(LookupError):
            sync.get(gone.id)


@pytest.mark.req("ENQ-2")
def test_the_first_use_may_be_inside_the_callers_transaction(sqlite_nodes: Nodes, orders: sqlite3.Connection) -> None:
    """The database is known, the process is new: a web worker whose first request is a transaction."""
    with mail(sqlite_nodes).sync:
        pass
    app = mail(sqlite_nodes)
    with orders:
        orders.execute("INSERT INTO orders DEFAULT VALUES")
        made = app.sync.enqueue("mail", {"to": "ada"}, connection=orders)
    assert made is not None
    assert app.sync.get(made.id).state == "pending"
    app.sync.close()


@pytest.mark.req("ENQ-2")
def test_a_new_database_cannot_be_made_inside_the_callers_transaction(
    sqlite_nodes: Nodes, orders: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller holds the write lock and waits for us: better an error that says so than half a minute of silence."""
    monkeypatch.setattr("mainspring.app.parts.OPEN_PATIENCE", 0.2)
    app = mail(sqlite_nodes)
    orders.execute("INSERT INTO orders DEFAULT VALUES")
    with pytest.raises(StoreError, match=r"open it before: await app\.open\(\), or app\.sync\.open\(\)"):
        app.sync.enqueue("mail", {"to": "ada"}, connection=orders)
    monkeypatch.undo()
    orders.commit()
    with orders:
        made = app.sync.enqueue("mail", {"to": "ada"}, connection=orders)
    assert made is not None
    assert app.sync.get(made.id).state == "pending"
    app.sync.close()


@pytest.mark.req("ENQ-2", "ENQ-3")
async def test_a_key_taken_outside_is_seen_inside_the_transaction(
    sqlite_nodes: Nodes, orders: sqlite3.Connection
) -> None:
    app = mail(sqlite_nodes)
    await app.open()
    assert await app.enqueue("mail", {"to": "ada"}, unique="k", start_at="2100-01-01T00:00:00Z")
    with orders:
        assert await app.enqueue("mail", {"to": "ada"}, unique="k", connection=orders) is None
    await app.close()


@pytest.mark.req("ENQ-2")
async def test_another_database_is_refused(sqlite_nodes: Nodes, tmp_path: Path) -> None:
    app = mail(sqlite_nodes)
    await app.open()
    for place in (":memory:", tmp_path / "other.db"):
        wrong = pytest.raises(InvalidValue, match=r"connection: .* allowed: a connection to .*mainspring\.db")
        with closing(sqlite3.connect(place)) as connection, wrong:
            await app.enqueue("mail", {"to": "ada"}, connection=connection)
    with pytest.raises(InvalidValue, match=r"allowed: an open sqlite3\.Connection"):
        await app.enqueue("mail", {"to": "ada"}, connection="conn")
    autocommit = closing(sqlite3.connect(sqlite_nodes.file, isolation_level=None))
    with autocommit as connection, pytest.raises(InvalidValue, match="BEGIN IMMEDIATE"):
        await app.enqueue("mail", {"to": "ada"}, connection=connection)
    closed = sqlite3.connect(sqlite_nodes.file)
    closed.close()
    with pytest.raises(StoreError, match="closed database"):
        await app.enqueue("mail", {"to": "ada"}, connection=closed)
    assert await app.executions() == []
    await app.close()


@pytest.mark.req("ENQ-2")
async def test_memory_has_no_transactions_of_callers(memory_nodes: Nodes, orders: sqlite3.Connection) -> None:
    async with mail(memory_nodes) as app:
        with pytest.raises(InvalidValue, match="connection: 'Connection' is not valid; allowed: None for this store"):
            await app.enqueue("mail", {"to": "ada"}, connection=orders)


# --- payloads ------------------------------------------------------------------------------------------------


def cycle() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.req("ENQ-6")
@pytest.mark.parametrize(
    "value",
    [
        "Grüße, 世界, \U0001f600, \u2028, \x7f, \t\n",
        2**63 - 1,
        -(2**63),
        2**64 - 1,
        9007199254740993,
        0.1,
        1e300,
        5e-324,
        -0.0,
        True,
        None,
        [],
        {},
        {"": [{"a.b[0]": None}]},
        deep(90),
        "x" * 200_000,
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_what_is_accepted_arrives_exactly(nodes: Nodes, value: Any) -> None:
    app = nodes.app()
    seen: list[Any] = []

    @app.job("keep")
    async def keep(ctx: JobContext, value: Any) -> Any:
        seen.append(value)
        return value

    async with app:
        done = await run_once(app, keep, {"value": value})
        assert [repr(each) for each in (*seen, done.result, done.params["value"])] == [repr(value)] * 3


@pytest.mark.req("ENQ-6")
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a\x00b", "params.value"),
        ("\ud800", "params.value"),
        ({"k\x00": 1}, "params.value"),
        (float("nan"), "params.value: nan is not valid; allowed: a finite number"),
        ([1, {"deep": float("inf")}], "params.value[1].deep: inf is not valid"),
        (2**64, "params.value: 18446744073709551616 is not valid; allowed: an integer of at most 64 bits"),
        (10**6000, "params.value"),
        (cycle(), "at most 100 levels"),
        (deep(101), "at most 100 levels"),
        ("x" * 262_144, "allowed: a payload of at most 262144 bytes of JSON"),
        (["x" * 100_000] * 100, "allowed: a payload of at most 262144 bytes of JSON"),
        (object(), "params.value: <object object at"),
        ({1: "one"}, "params.value"),
        (b"bytes", "params.value"),
        ({1, 2}, "params.value"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int",
)
async def test_what_cannot_be_kept_exactly_is_refused_at_enqueue(nodes: Nodes, value: Any, message: str) -> None:
    app = nodes.app()

    @app.job("keep")
    async def keep(value: Any) -> None: ...

    await app.open()
    for give in (app.enqueue, app.trigger):
        with pytest.raises(InvalidValue) as refused:
            await give("keep", {"value": value})
        assert message in str(refused.value)
        assert len(str(refused.value)) < 500
    assert await app.executions() == []
    await app.close()


@pytest.mark.req("ENQ-6")
async def test_a_client_without_the_handler_refuses_the_same(nodes: Nodes) -> None:
    app = mail(nodes, payload_limit=2_048)
    await app.open()
    async with nodes.client(payload_limit=2_048) as client:
        with pytest.raises(InvalidValue, match=r"params\.to: nan is not valid"):
            await client.enqueue("mail", {"to": float("nan")})
        with pytest.raises(InvalidValue, match="allowed: a payload of at most 2048 bytes"):
            await client.enqueue("mail", {"to": "x" * 3_000})
        with pytest.raises(InvalidValue, match="metadata"):
            await client.enqueue("mail", {"to": "x"}, metadata={"ticket": float("inf")})
    await app.close()


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.req("EXE-1")
async def test_a_cancelled_job_takes_no_work(nodes: Nodes) -> None:
    app = mail(nodes)
    await app.open()
    await app.cancel("mail", by="ada")
    with pytest.raises(CommandRefused, match="cannot enqueue job 'mail': it is cancelled"):
        await app.enqueue("mail", {"to": "ada"})
    await app.close()


@pytest.mark.req("OBS-1", "WIN-1")
async def test_an_enqueue_that_is_skipped_says_so(nodes: Nodes) -> None:
    seen = Seen()
    app = nodes.app(observers=[seen])
    gate = Gate(app, overlap="skip")
    async with app:
        first = await app.enqueue("gate")
        second = await app.enqueue("gate")
        assert second is not None
        assert (second.state, second.reason) == ("skipped", "overlap")
        assert (await app.get(second.id)).state == "skipped"
        gate.open.set()
        await ended(app, first)


@pytest.mark.req("ENQ-1")
async def test_start_at_takes_a_delay_and_refuses_a_bare_number(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("later")(lambda: None)
    for delay in ("10m", timedelta(minutes=10)):
        execution = await app.enqueue("later", start_at=delay)
        assert 599 < (execution.start_at - execution.created_at).total_seconds() < 601
    with pytest.raises(InvalidValue, match=r"start_at: 600 is not valid.*Write a delay as '600s'"):
        await app.enqueue("later", start_at=600)
