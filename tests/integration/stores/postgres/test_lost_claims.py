"""A claim is committed without waiting for the disk. After a crash of the server that lost it, the row is claimed
again, and nothing that the first claim says counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from mainspring import StoreError
from mainspring.model.execution import AttemptRecord, ExecutionRow, State
from mainspring.model.limits import Limit, encode_limits
from mainspring.model.store.messages import (
    CancelRequest,
    Change,
    ClaimRequest,
    HeartbeatRequest,
    ProgressReport,
    WorkerInfo,
)
from mainspring.stores.postgres import PostgresStore
from tests.integration.stores.sqlite_support import execution
from tests.servers import Postgres, new_postgres
from tests.support import until


@pytest.fixture
def server() -> Iterator[Postgres]:
    """It writes its log to disk only when it has to."""
    server = new_postgres(wal_writer_delay="10s")
    server.start()
    yield server
    server.remove()


def claim(stamp: int) -> ClaimRequest:
    return ClaimRequest(owner="w1", handlers=frozenset({"work"}), queues=None, limit=10, lease=30.0, stamp=stamp)


def completed(row: ExecutionRow) -> Change:
    attempt = AttemptRecord(1, "w1", 1, row.created + 1, "completed")
    seen = {"id": row.id, "expect": row.state, "token": row.token, "owner": row.owner, "attempt": attempt}
    return Change(**seen, to=State.COMPLETED, at=row.created + 1, failures=0, crashes=0)


async def again(call: Callable[[], Awaitable[object]]) -> None:
    """Once the server answers."""

    async def answers() -> bool:
        try:
            await call()
        except StoreError:
            return False
        return True

    await until(answers, "the server is back")


@pytest.mark.req("REL-1", "WRK-3")
async def test_a_claim_that_a_crash_lost_shares_its_token_with_no_other(server: Postgres) -> None:
    url = server.new_database()
    store = PostgresStore(url)
    await store.open()
    try:
        await store.add([execution(n) for n in range(3)])
        server.execute("CHECKPOINT")
        lost = (await store.exchange([], claim(stamp=1))).claimed
        server.kill()
        server.start()
        await again(store.now)
        row = await store.execution(lost[0].id)
        assert row is not None
        assert (row.state, row.token) == (State.PENDING, 0), "the crash did not lose the claim: the test proves nothing"

        found = (await store.exchange([], claim(stamp=2))).claimed
        assert [(row.id, row.owner, row.claims) for row in found] == [(row.id, "w1", 1) for row in lost]
        assert not {row.token for row in found} & {row.token for row in lost}
        worker = WorkerInfo(id="w1", host="h", pid=1, version="v")
        beat = HeartbeatRequest(worker=worker, leases=tuple((row.id, row.token) for row in lost), lease=30.0)
        assert (await asyncio.to_thread(store.heartbeat, beat)).lost == {row.id for row in lost}
        reports = [ProgressReport(id=row.id, token=row.token, owner="w1", progress_json="{}") for row in lost]
        assert await store.report(reports) == [False] * 3
        request = CancelRequest(id=lost[0].id, token=lost[0].token, at=1, reason="late")
        assert await store.request_cancel([request]) == [False]
        assert (await store.exchange([completed(row) for row in lost], None)).applied == (False,) * 3
        assert (await store.exchange([completed(row) for row in found], None)).applied == (True,) * 3
    finally:
        await store.close()


@pytest.mark.req("FLW-1")
async def test_a_claim_under_a_limit_is_on_disk_before_it_is_answered(server: Postgres) -> None:
    """If a crash lost it, its slot would be free while the handler runs."""
    store = PostgresStore(server.new_database())
    await store.open()
    try:
        await store.add([execution(n, limits=encode_limits((Limit("s", concurrency=1),))) for n in range(2)])
        [held] = (await store.exchange([], claim(stamp=1))).claimed
        server.kill()
        server.start()
        await again(store.now)
        assert (await store.exchange([], claim(stamp=2))).claimed == ()
        row = await store.execution(held.id)
        assert row is not None
        assert (row.state, row.token) == (State.RUNNING, held.token)
    finally:
        await store.close()
