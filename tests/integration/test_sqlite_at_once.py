"""The usual exchange is one statement of SQLite. What it leaves behind is what the long way leaves, row by row."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mainspring.model.changes import CancelRequest, Change, ClaimRequest, Exchanged
from mainspring.model.execution import Attempt, Execution, State
from mainspring.model.limits import Limit, encode_limits
from mainspring.stores.sqlite import SqliteStore, at_once, connect, schema
from mainspring.stores.sqlite.adding import add
from mainspring.stores.sqlite.calls import Call
from mainspring.stores.sqlite.claimed import ClaimedRows
from mainspring.stores.sqlite.claiming import exchange
from mainspring.stores.sqlite.transaction import Transaction
from mainspring.stores.sqlite.turns import Turns
from mainspring.testing.clock import START, FakeClock
from tests.integration.sqlite_support import change, connected, execution, opened
from tests.support import DEADLINE

COUNT = at_once.FEWEST
TABLES = ("executions", "live", "history", "totals", "endings", "incarnations", "slots", "waits")
HANDLERS = frozenset({"work", "other"})

Scene = Callable[[SqliteStore], Awaitable[list[Exchanged]]]


def request(limit: int = COUNT, **fields: Any) -> ClaimRequest:
    return replace(ClaimRequest(owner="w", handlers=HANDLERS, queues=None, limit=limit, lease=30.0), **fields)


def endings(rows: tuple[Execution, ...], **fields: Any) -> list[Change]:
    attempts = [Attempt(1, "w", row.due, row.due + 1, "completed") for row in rows]
    return [
        replace(change(row, State.COMPLETED), **{"attempt": attempt, **fields})
        for row, attempt in zip(rows, attempts, strict=True)
    ]


def many(first: int, count: int = COUNT, **fields: Any) -> list[Execution]:
    return [execution(number, **fields) for number in range(first, first + count)]


async def two_turns(store: SqliteStore, **fields: Any) -> list[Exchanged]:
    """Claim, then settle these and claim the next."""
    first = await store.exchange([], request())
    second = await store.exchange(endings(first.claimed, **fields), request())
    return [first, second, await store.exchange(endings(second.claimed, **fields), None)]


async def plain(store: SqliteStore) -> list[Exchanged]:
    await store.add(many(1, 3 * COUNT))
    return await two_turns(store)


async def told(store: SqliteStore) -> list[Exchanged]:
    await store.add([*many(1, COUNT, priority=1), *many(100, job="b", job_id="b", trigger="schedule", tenant="ä")])
    return await two_turns(store, result_json='{"a":"\\"\\u2028\\n"}', counters_json='{"n":1}', todo=True, keep=False)


async def unique(store: SqliteStore) -> list[Exchanged]:
    await store.add([execution(n, unique_key=f"key-{n}", overlap_key=f"o-{n}") for n in range(1, 2 * COUNT + 1)])
    return await two_turns(store)


async def nothing_left(store: SqliteStore) -> list[Exchanged]:
    await store.add(many(1))
    return await two_turns(store)


async def in_the_way(store: SqliteStore) -> list[Exchanged]:
    await store.add([*many(1, 2 * COUNT), *many(100, 3, handler="foreign"), *many(200, 3, due=START + 10**9)])
    return await two_turns(store)


async def two_lanes(store: SqliteStore) -> list[Exchanged]:
    await store.add([*many(1, 2 * COUNT), *many(100, handler="other")])
    return await two_turns(store)


async def due_now(store: SqliteStore) -> list[Exchanged]:
    await store.add([*many(1, 2 * COUNT), execution(500, due=START + 1)])
    first = await store.exchange([], request())
    assert isinstance(store._clock, FakeClock)
    store._clock.advance(1.0)
    return [first, await store.exchange(endings(first.claimed), request())]


async def limited(store: SqliteStore) -> list[Exchanged]:
    limits = encode_limits([Limit("k", concurrency=3)])
    await store.add([*many(1), *many(100, limits=limits)])
    return await two_turns(store)


async def staged(store: SqliteStore) -> list[Exchanged]:
    rows = [execution(100 + n, staged=True, overlap_key="job:next", running_overlap_key="job") for n in range(1)]
    await store.add([*many(1), *rows])
    return await two_turns(store)


async def alone(store: SqliteStore) -> list[Exchanged]:
    await store.add([*many(1, 2 * COUNT), execution(100, alone=True, crashes=1)])
    return await two_turns(store)


async def cancelled(store: SqliteStore) -> list[Exchanged]:
    await store.add(many(1, 2 * COUNT))
    first = await store.exchange([], request())
    stop = CancelRequest(id=first.claimed[0].id, token=1, at=START, reason="stop", audit=None)
    assert await store.request_cancel([stop]) == [True]
    return [first, await store.exchange(endings(first.claimed), request())]


async def lost(store: SqliteStore) -> list[Exchanged]:
    """One of them was handed back and claimed anew meanwhile."""
    await store.add(many(1, 2 * COUNT))
    first = await store.exchange([], request())
    back = replace(change(first.claimed[0], State.PENDING), to=State.PENDING)
    async with opened(Path(store.path)) as other:
        assert (await other.exchange([back], None)).applied == (True,)
    return [first, await store.exchange(endings(first.claimed), request())]


async def blocked(store: SqliteStore) -> list[Exchanged]:
    """Somebody waits for a key that one of the endings frees."""
    await store.add([*many(1, COUNT - 1), execution(99, overlap_key="job")])
    first = await store.exchange([], request())
    await store.add([execution(100, staged=True, overlap_key="job:next", running_overlap_key="job")])
    second = await store.exchange([], request())
    assert [held.execution.id for held in second.blocked] == [execution(100).id]
    return [first, second, await store.exchange(endings(first.claimed), request())]


USUAL: list[Scene] = [plain, told, unique, nothing_left, in_the_way]
UNUSUAL: list[Scene] = [two_lanes, due_now, limited, staged, alone, cancelled, lost, blocked]


def served_at_once(store: SqliteStore) -> AtOnceSpy:
    return AtOnceSpy(store._threads().writer.at_once)


class AtOnceSpy:
    """Counts the batches that went the short way."""

    def __init__(self, spied: at_once.AtOnce) -> None:
        self.count = 0
        self._serve = spied.serve
        spied.serve = self._counted  # type: ignore[method-assign]

    def _counted(self, connection: sqlite3.Connection, calls: Any) -> Any:
        topics = self._serve(connection, calls)
        self.count += topics is not None
        return topics


@asynccontextmanager
async def that_goes_the_long_way(path: Path) -> AsyncIterator[SqliteStore]:
    async with opened(path, synchronous="OFF") as store:
        store._threads().writer.at_once._long_way = 10**9
        yield store


def dump(path: Path) -> dict[str, list[Any]]:
    with connected(path) as connection:
        return {
            name: connection.execute(f"SELECT * FROM mainspring_{name} ORDER BY 1, 2").fetchall() for name in TABLES
        }


async def both_ways(folder: Path, scene: Scene) -> int:
    """The same story in two files. How many batches of the first went the short way."""
    short, long = folder / "short.db", folder / "long.db"
    async with opened(short, synchronous="OFF") as store:
        spy = served_at_once(store)
        answers = await scene(store)
    async with that_goes_the_long_way(long) as store:
        assert answers == await scene(store)
    assert dump(short) == dump(long)
    return spy.count


@pytest.mark.req("HIS-1", "REL-1")
@pytest.mark.parametrize("scene", USUAL, ids=[scene.__name__ for scene in USUAL])
async def test_the_usual_exchange_is_one_statement_and_the_same_as_the_long_way(tmp_path: Path, scene: Scene) -> None:
    assert await both_ways(tmp_path, scene) >= 1


@pytest.mark.req("HIS-1", "REL-1")
@pytest.mark.parametrize("scene", UNUSUAL, ids=[scene.__name__ for scene in UNUSUAL])
async def test_what_is_unusual_goes_the_long_way(tmp_path: Path, scene: Scene) -> None:
    assert await both_ways(tmp_path, scene) == 0


class Reader:
    """A connection that breaks off where told to."""

    def __init__(self, connection: sqlite3.Connection, broken: str) -> None:
        self._connection, self._broken = connection, broken

    def execute(self, text: str, values: Any = ()) -> sqlite3.Cursor:
        if self._broken in text:
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(text, values)


class Desk:
    """The writer's side alone, without its thread."""

    def __init__(self, path: Path) -> None:
        self.clock, self.ours = FakeClock(), ClaimedRows()
        self.connection = connect.connect(str(path), "OFF", 5.0)
        schema.migrate(self.connection, str(path), 5.0)
        at_once.prepare(self.connection)
        self.at_once = at_once.AtOnce(self.clock)

    def claim(self, count: int) -> tuple[Execution, ...]:
        self.connection.execute("BEGIN IMMEDIATE")
        tx = Transaction(self.connection, self.clock)
        claimed = exchange(tx, [], request(count), self.ours).claimed
        self.connection.execute("COMMIT")
        for step in tx.after_commit:
            step()
        return claimed

    def call(self, rows: tuple[Execution, ...], claim: ClaimRequest | None) -> Call[Exchanged]:
        return Call(at_once.Exchange(endings(rows), claim, self.ours), None)

    def live(self) -> int:
        [(count,)] = self.connection.execute("SELECT count(*) FROM mainspring_live").fetchall()
        return int(count)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """With 200 rows that are ready."""
    desk = Desk(tmp_path / "store.db")
    desk.connection.execute("BEGIN IMMEDIATE")
    tx = Transaction(desk.connection, desk.clock)
    add(tx, many(1, 200))
    tx.flush()
    desk.connection.execute("COMMIT")
    yield desk
    desk.connection.close()


def test_exchanges_that_wait_together_share_what_is_claimed_in_their_order(desk: Desk) -> None:
    rows = desk.claim(60)
    calls = [
        desk.call(rows[:20], request(5)),
        desk.call(rows[20:50], None),
        desk.call(rows[50:], request(7)),
    ]
    assert desk.at_once.serve(desk.connection, calls) is not None
    claimed = [[row.id for row in call.result.claimed] for call in calls]
    assert claimed == [[row.id for row in part] for part in (many(61, 5), [], many(66, 7))]
    assert [len(call.result.applied) for call in calls] == [20, 30, 10]
    assert [call.result.more for call in calls] == [True, False, True]
    assert desk.live() == 140


def test_exchanges_of_different_owners_are_not_put_together(desk: Desk) -> None:
    rows = desk.claim(40)
    calls = [desk.call(rows[:20], request(5)), desk.call(rows[20:], request(5, owner="another"))]
    assert desk.at_once.serve(desk.connection, calls) is None
    assert desk.live() == 200


@pytest.mark.req("REL-1")
def test_whatever_breaks_before_the_commit_leaves_all_to_the_long_way(desk: Desk) -> None:
    call = desk.call(desk.claim(COUNT), request())
    broken: Any = Reader(desk.connection, "INSERT INTO mainspring_exchange")
    assert desk.at_once.serve(broken, [call]) is None
    assert (call.result, call.error, desk.live()) == (None, None, 200)


@pytest.mark.req("REL-1")
def test_an_answer_that_cannot_be_read_is_an_error_for_all_who_wait(desk: Desk) -> None:
    call = desk.call(desk.claim(COUNT), request())
    broken: Any = Reader(desk.connection, "mainspring_taken")
    assert desk.at_once.serve(broken, [call]) is not None
    assert isinstance(call.error, sqlite3.OperationalError)
    assert desk.live() == 200 - COUNT, "it was committed"


def test_after_a_refusal_the_next_batches_go_the_long_way(desk: Desk) -> None:
    call = desk.call(desk.claim(COUNT), request())
    broken: Any = Reader(desk.connection, "INSERT INTO mainspring_exchange")
    desk.at_once.serve(broken, [call])
    tries = [desk.at_once.serve(desk.connection, [call]) for _ in range(at_once.LONG_WAY)]
    assert [topics is None for topics in tries] == [True] * (at_once.LONG_WAY - 1) + [False]


async def test_the_loop_makes_way_until_the_writer_is_inside_sqlite() -> None:
    turns, waiting, inside = Turns(), threading.Event(), threading.Event()
    turns.came()

    def writer() -> None:
        waiting.wait(DEADLINE)
        turns.steps_in(100)
        inside.set()

    thread = threading.Thread(target=writer)
    thread.start()
    waiting.set()
    turns.make_way()
    assert await asyncio.to_thread(inside.wait, DEADLINE)
    thread.join()
    turns.stepped_out()


async def test_the_loop_waits_for_nobody_who_does_not_come() -> None:
    turns = Turns()
    for _ in range(3):
        turns.make_way()  # nobody is there to open: it returns all the same
