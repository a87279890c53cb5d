"""Cancelling running executions: the request stays with the row until it is served."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ....model.execution import ExecutionRow, State
from ....model.store.messages import Audit, CancelRequest
from ..base import StoreSuite, World, ids


def request(row: ExecutionRow, at: int = 5, reason: str = "asked", audit: Audit | None = None) -> CancelRequest:
    return CancelRequest(id=row.id, token=row.token, at=at, reason=reason, audit=audit)


class Cancelling(StoreSuite):
    @pytest.mark.req("WRK-9")
    async def test_a_running_row_is_marked(self, world: World) -> None:
        row = await world.running()
        assert await world.store.request_cancel([request(row)]) == [True]
        assert await world.get(row.id) == replace(row, cancel_requested=5, cancel_reason="asked")

    @pytest.mark.req("WRK-9")
    async def test_the_first_request_stays(self, world: World) -> None:
        row = await world.running()
        await world.store.request_cancel([request(row)])
        assert await world.store.request_cancel([request(row, at=9, reason="again")]) == [True]
        marked = await world.get(row.id)
        assert (marked.cancel_requested, marked.cancel_reason) == (5, "asked")

    async def test_only_running_rows_under_that_token(self, world: World) -> None:
        row = await world.running()
        pending = world.execution()
        await world.add(pending)
        requests = [replace(request(row), token=7), request(pending), replace(request(row), id="nobody"), request(row)]
        assert await world.store.request_cancel(requests) == [False, False, False, True]
        assert (await world.get(pending.id)).cancel_requested is None

    async def test_audit_is_stored_only_if_it_was_marked(self, world: World) -> None:
        row = await world.running()
        refused, taken = world.audit(row.id, "cancel"), world.audit(row.id, "cancel")
        await world.store.request_cancel([replace(request(row, audit=refused), token=7), request(row, audit=taken)])
        assert await world.store.audits(row.id) == [taken]

    @pytest.mark.req("SEC-3")
    async def test_audit_of_a_change_is_stored_only_if_it_was_applied(self, world: World) -> None:
        row = await world.running()
        refused, taken = world.audit(row.id, "cancel"), world.audit(row.id, "cancel")
        await world.exchange(
            replace(world.change(row, State.CANCELLED, audit=refused), token=7),
            world.change(row, State.CANCELLED, audit=taken),
        )
        assert await world.store.audits(row.id) == [taken]

    @pytest.mark.req("WRK-9")
    async def test_the_owner_learns_of_it(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(3)))
        first, second = await world.claim(limit=2)
        [foreign] = await world.claim(owner="w2")
        await world.store.request_cancel([request(first, reason="stop"), request(foreign)])
        assert await world.store.cancels("w1") == {first.id: "stop"}
        assert await world.store.cancels("nobody") == {}
        reply = await world.heartbeat((first.id, first.token), (second.id, second.token))
        assert (reply.cancels, reply.lost) == ({first.id: "stop"}, frozenset())
        await world.settle(first, State.CANCELLED)
        assert await world.store.cancels("w1") == {}

    @pytest.mark.req("WRK-9")
    async def test_another_handle_makes_the_request(self, world: World) -> None:
        row = await world.running()
        async with world.second() as other:
            assert await other.request_cancel([request(row)]) == [True]
        assert (await world.heartbeat((row.id, row.token))).cancels == {row.id: "asked"}

    async def test_strays_are_rows_handed_back_since(self, world: World) -> None:
        await world.add(*(world.execution() for _ in range(4)))
        back, waits, runs, plain = await world.claim()
        await world.store.request_cancel([request(row) for row in (back, waits, runs)])
        await world.settle(back, State.PENDING)
        await world.settle(waits, State.WAITING)
        await world.settle(plain, State.PENDING, delay=60)
        strays = await world.store.unserved_cancels(10)
        assert sorted(ids(strays)) == sorted([back.id, waits.id])
        assert all((row.cancel_requested, row.cancel_reason) == (5, "asked") for row in strays)
        assert len(await world.store.unserved_cancels(1)) == 1
        for row in strays:
            assert await world.settle(row, State.CANCELLED)
        assert await world.store.unserved_cancels(10) == []

    async def test_the_request_survives_the_next_claim(self, world: World) -> None:
        row = await world.running()
        await world.store.request_cancel([request(row)])
        await world.settle(row, State.PENDING)
        [again] = await world.claim(owner="w2")
        assert again.cancel_reason == "asked"
        assert await world.store.cancels("w2") == {row.id: "asked"}


class StoppedJobs(StoreSuite):
    @pytest.mark.req("API-4")
    async def test_whoever_claims_hears_that_the_job_was_cancelled_before(self, world: World) -> None:
        await world.write(world.job())
        await world.write(world.job("other"))
        await world.write(world.job(version=1, cancelled=world.now), seen=1)
        late, fine = world.execution(), world.execution(job="other", job_id="other-1")
        async with world.second() as stale:
            await stale.add([late, fine])
        answer = await world.exchange()
        assert ids(answer.claimed) == [late.id, fine.id]
        assert answer.stopped == {"job-1"}
        assert (await world.exchange()).stopped == frozenset()  # nothing was claimed

    async def test_a_job_that_came_to_life_again_is_not_stopped(self, world: World) -> None:
        await world.write(world.job(cancelled=world.now))
        await world.write(world.job(version=1), seen=1)
        await world.write(world.job("gone", cancelled=world.now))
        await world.add(world.execution())
        answer = await world.exchange()
        assert (len(answer.claimed), answer.stopped) == (1, frozenset())

    async def test_a_recreated_job_is_another_job(self, world: World) -> None:
        await world.write(world.job(id="job-2", cancelled=world.now))
        await world.add(world.execution())
        answer = await world.exchange()
        assert (len(answer.claimed), answer.stopped) == (1, frozenset())
