"""Many at the same rows, at the same migration, at the same key: nobody is refused, and nobody waits for a stranger."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from mainspring import CommandRefused, Execution, State, every
from mainspring.core.cancelling import cancel_all
from mainspring.core.engine.janitor import PRUNE_BATCH
from mainspring.core.rules import transitions
from mainspring.core.views.execution import row_of
from mainspring.model.execution import FINAL
from mainspring.model.store.messages import ClaimRequest, PruneRule
from mainspring.stores.postgres import PostgresStore, migrate
from mainspring.stores.postgres.connection.pool import PsycopgSession
from tests.crash.handlers import UNDISTURBED, Witnessed, build
from tests.crash.processes import PATIENCE, Processes, until
from tests.crash.tables import ended, live
from tests.faults.counters import COUNTERS
from tests.support import own_time

ROWS = 120
ROUNDS = 4
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@pytest.mark.req("REL-1", "OPS-2")
async def test_many_migrate_at_once(address: str) -> None:
    """All of them have seen an empty database before the first may begin."""
    stores = [PostgresStore(address) for _ in range(6)]
    holder = await psycopg.AsyncConnection.connect(address)
    try:
        await migrate._lock(PsycopgSession(holder), stores[0].schema)
        opening = asyncio.gather(*(store.open() for store in stores))
        await until(lambda: _waiting_for_the_lock(address) == len(stores), PATIENCE)
        await holder.rollback()
        await opening
        assert all([await store.now() > 0 for store in stores])
    finally:
        await holder.close()
        await asyncio.gather(*(store.close() for store in stores))


def _waiting_for_the_lock(address: str) -> int:
    with psycopg.connect(address, autocommit=True) as connection:
        [[count]] = connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        ).fetchall()
    return int(count)


async def _taking_part(app: Witnessed, nodes: int) -> bool:
    return len(await app.workers()) == nodes


@pytest.mark.req("REL-1", "WRK-3")
async def test_ten_worker_processes_start_at_once_on_an_empty_database(
    tmp_path: Path, address: str, processes: Processes
) -> None:
    """All of them migrate, declare the same jobs, and then share the work; one is killed. What is there first is as
    much as all of them can do at once, and does not end before all of them have begun."""
    for _ in range(10):
        processes.node("scheduler,worker", concurrency=4)
    app = build(tmp_path)
    try:
        await until(lambda: _taking_part(app, 10), PATIENCE, "all ten are there")
        async with app.at_work(executions=40):
            await until(lambda: len({line["pid"] for line in app.ledger.lines("began")}) == 10, PATIENCE, "all begin")
            await app.enqueue_many([("work", {"n": n}) for n in range(560)])
        processes.alive()[0].kill()
        await until(lambda: live(tmp_path) == 0, PATIENCE)
        assert ended(tmp_path) == {"completed": 600}
        left = {process.pid for process in processes.alive()}
        assert len(left) == 9
        await until(lambda: left <= {line["pid"] for line in app.ledger.lines("accepted")}, PATIENCE, "all say so")
        accepted = Counter(line["id"] for line in app.ledger.lines("accepted", state="completed"))
        assert set(accepted.values()) == {1}
        assert [line["error"] for line in app.ledger.lines("trouble")] == []
    finally:
        await app.close()


# --- deadlocks ----------------------------------------------------------------------------------------------------


@pytest.mark.req("REL-1", "EXE-9")
async def test_cancel_retry_prune_and_rescue_of_the_same_rows_never_fail(tmp_path: Path, address: str) -> None:
    """With a server that looks for deadlocks after 10 ms, and a stranger who locks our rows in the wrong order."""
    app = build(tmp_path)
    rivals = [PostgresStore(address) for _ in range(4)]
    before = _deadlocks(address)
    try:
        await app.open()
        for rival in rivals:
            await rival.open()
        not_ours, numbers = 0, itertools.count()

        async def another_round() -> bool:
            """Whether there was a deadlock of ours in one of them so far. Statistics come late."""
            nonlocal not_ours
            not_ours += await _round(app, rivals, address, next(numbers))
            return _deadlocks(address) - before > not_ours

        for _ in range(ROUNDS - 1):
            await another_round()
        await until(another_round, PATIENCE, "one of ours is in a deadlock")
        COUNTERS.deadlocks += _deadlocks(address) - before - not_ours
        print(f"{_deadlocks(address) - before} deadlocks, the stranger's {not_ours}, ours were repeated")
        await _drain(app, rivals[0])
        assert live(tmp_path) == 0
    finally:
        await app.close()
        for rival in rivals:
            await rival.close()


async def _round(app: Witnessed, rivals: list[PostgresStore], address: str, number: int) -> int:
    """Rows with leases that run out at once; everybody goes for all of them. Returns how often the stranger lost."""
    added = [each for each in await app.enqueue_many([("work", {"n": n}) for n in range(ROWS)]) if each is not None]
    claim = ClaimRequest(
        owner=f"gone-{number}", handlers=frozenset({"work"}), queues=None, limit=ROWS // 2, lease=0.01, turn=number
    )
    claimed = (await rivals[0].exchange([], claim)).claimed
    assert len(claimed) == ROWS // 2
    stranger = asyncio.create_task(asyncio.to_thread(_lock_backwards, address, [each.id for each in claimed]))
    tasks = [
        _rescue(app, rivals[0]),
        _rescue(app, rivals[1]),
        _cancel(rivals[1], added),
        _cancel(rivals[2], list(reversed(added))),
        _prune(rivals[2], added),
        _prune(rivals[3], added),
        _retry(app, added),
        rivals[3].fold(10_000),
    ]
    await asyncio.gather(*tasks, stranger)
    await _cancel(rivals[0], added)
    await _prune(rivals[0], added)
    return stranger.result()


def _lock_backwards(address: str, ids: list[str]) -> int:
    """Two by two, against the order of ids, and slower to give way than we are. Returns how often it had to."""
    gave_way = 0
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET deadlock_timeout = '200ms'")
        for id in sorted(ids, reverse=True):
            earlier = max((other for other in ids if other < id), default=id)
            try:
                with connection.transaction():
                    for wanted in (id, earlier):
                        connection.execute("SELECT FROM mainspring.live WHERE id = %s FOR UPDATE", (wanted,))
                        connection.execute("SELECT pg_sleep(0.002)")
            except psycopg.errors.DeadlockDetected:
                gave_way += 1
    return gave_way


async def _rescue(app: Witnessed, store: PostgresStore) -> None:
    for _ in range(3):
        lost = await store.expired(ROWS)
        now = await store.now()
        await store.exchange([transitions.after_attempt(each, transitions.lost(each, now)) for each in lost], None)


async def _cancel(store: PostgresStore, executions: list[Execution]) -> None:
    rows = [row for each in executions if (row := await store.execution(each.id)) is not None and not row.state.final]
    await cancel_all(store, rows, "cancelled", lambda event: None)


async def _prune(store: PostgresStore, executions: list[Execution]) -> None:
    rule = PruneRule(job_id=row_of(executions[0]).job_id, states=FINAL, older_than=await store.now(), newest=10)
    while await store.prune(rule, PRUNE_BATCH):
        pass


async def _retry(app: Witnessed, executions: list[Execution]) -> None:
    for _ in executions[::10]:
        row = await app.executions(status=State.CANCELLED, limit=1)
        for each in row:
            with suppress(CommandRefused):  # the same one is being retried already
                await app.retry(each)


async def _drain(app: Witnessed, store: PostgresStore) -> None:
    while alive := await app.executions(status=[State.PENDING, State.RUNNING], limit=500):
        await _rescue(app, store)
        await _cancel(store, alive)


def _deadlocks(address: str) -> int:
    with psycopg.connect(address, autocommit=True) as connection:
        [[count]] = connection.execute(DEADLOCKS).fetchall()
    return int(count)


# --- unique keys --------------------------------------------------------------------------------------------------


@pytest.mark.req("ENQ-2", "ENQ-3")
async def test_a_key_held_by_an_open_transaction_delays_nobody_else(tmp_path: Path, address: str) -> None:
    """More want the key than a process has connections; all others get through as if nothing was."""
    app = build(tmp_path)
    holder = await psycopg.AsyncConnection.connect(address)
    try:
        await app.open()
        held = await app.enqueue("work", unique="held", connection=holder)
        assert held is not None
        waiting = [asyncio.create_task(app.enqueue("work", unique="held")) for _ in range(30)]
        took = []
        for n in range(40):
            began = own_time()
            assert await app.enqueue("work", unique=f"other-{n}" if n % 2 else None) is not None
            took.append(own_time() - began)
        print(f"slowest of the others: {max(took) * 1000:.0f} ms")
        assert max(took) < 2
        await holder.commit()
        assert await asyncio.gather(*waiting) == [None] * len(waiting)
    finally:
        await holder.close()
        await app.close()


@pytest.mark.req("ENQ-2", "TIM-1")
async def test_a_key_held_by_an_open_transaction_delays_no_tick_of_another_job(
    tmp_path: Path, address: str, processes: Processes
) -> None:
    app = build(tmp_path)
    holder = await psycopg.AsyncConnection.connect(address)
    try:
        app.schedule("a-blocked", "tick", every(seconds=0.5), overlap="skip")
        app.schedule("b-free", "tick", every(seconds=0.5), overlap="skip")
        await app.open()
        assert await app.enqueue("a-blocked", connection=holder) is not None
        processes.node("scheduler,worker", **UNDISTURBED)
        await until(lambda: len(app.ledger.lines("began", job="b-free")) >= 5, PATIENCE)
        assert app.ledger.lines("began", job="a-blocked") == []
        await holder.commit()
        await until(lambda: len(app.ledger.lines("began", job="a-blocked")) >= 2, PATIENCE)
        ticks = [line["tick"] for line in app.ledger.lines("began", job="b-free")]
        assert len(ticks) == len(set(ticks))
    finally:
        await holder.close()
        await app.close()
