"""Idempotency keys: the same key and request get the same answer, for a day, also after a restart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring.core.commands.idempotency import ABANDONED_AFTER, KEPT_FOR, Answer, Begun, Idempotency, StillAtWork
from mainspring.model.time.instants import SECOND
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock
from tests.api.access_support import SECRET, signed
from tests.api.client import client_of
from tests.support import Nodes

KEY = {"Idempotency-Key": "k-1"}


async def test_the_same_key_and_request_trigger_once(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job")(lambda: None)
    async with client_of(app) as client:
        first = await client.ask("POST", "/api/v1/jobs/job/trigger", headers=KEY)
        again = await client.ask("POST", "/api/v1/jobs/job/trigger", headers=KEY)
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.json() == again.json()
        assert "idempotent-replay" not in first.headers
        assert again.headers["idempotent-replay"] == "true"
        other = await client.ask("POST", "/api/v1/jobs/job/trigger", headers={"Idempotency-Key": "k-2"})
        assert other.json()["execution_id"] != first.json()["execution_id"]
        assert (await client.get("/api/v1/executions"))["total"] == 2
    await app.close()


@pytest.mark.req("SEC-2")
async def test_users_of_one_role_have_keys_of_their_own(nodes: Nodes) -> None:
    app = nodes.app(jwt_secret=SECRET, api_tokens=True)
    app.job("job")(lambda number: None)
    async with client_of(app) as client:
        users = [signed(sub=name, role="operator") for name in ("ada", "bob")]
        users += [
            (await app.tokens.create("ci", "operator")).text.reveal() for _ in range(2)
        ]  # tokens may share a name
        made = []
        for number, bearer in enumerate(users):
            options: Any = {
                "json": {"params": {"number": number}},
                "headers": {"Authorization": f"Bearer {bearer}", **KEY},
            }
            first = await client.ask("POST", "/api/v1/jobs/job/trigger", **options)
            again = await client.ask("POST", "/api/v1/jobs/job/trigger", **options)
            assert (first.status_code, "idempotent-replay" in first.headers) == (202, False)
            assert (again.json(), again.headers["idempotent-replay"]) == (first.json(), "true")
            made.append(first.json()["execution"])
        assert [each["params"]["number"] for each in made] == [0, 1, 2, 3]
        assert len({each["id"] for each in made}) == len({each["triggered_by"] for each in made}) == 4
    await app.close()


async def test_it_survives_a_restart(nodes: Nodes) -> None:
    before, after = nodes.app(), nodes.app()
    for app in (before, after):
        app.job("job")(lambda: None)
    body = {"name": "made", "handler": "job", "interval_minutes": 5}
    async with client_of(before) as client:
        first = await client.ask("POST", "/api/v1/jobs", json=body, headers=KEY)
    await before.close()
    async with client_of(after) as client:
        again = await client.ask("POST", "/api/v1/jobs", json=body, headers=KEY)
        assert (again.status_code, again.json()) == (201, first.json())
        assert again.headers["etag"] == first.headers["etag"]
        assert again.headers["location"] == first.headers["location"]
    await after.close()


async def test_another_request_under_the_same_key_is_refused(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job")(lambda: None)
    app.job("other")(lambda: None)
    async with client_of(app) as client:
        await client.post("/api/v1/jobs/job/trigger", {}, headers=KEY)
        for path, body in (("job/trigger", {"params": {}}), ("other/trigger", {}), ("job/cancel", {})):
            error = await client.refused(422, "POST", f"/api/v1/jobs/{path}", body, headers=KEY)
            assert error["code"] == "idempotency_key_reused"
    await app.close()


async def test_a_refusal_is_an_answer_too(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job")(lambda: None)
    async with client_of(app) as client:
        first = await client.ask("POST", "/api/v1/jobs/job/resume", headers=KEY)
        again = await client.ask("POST", "/api/v1/jobs/job/resume", headers=KEY)
        assert (first.status_code, again.status_code, first.json()) == (409, 409, again.json())
    await app.close()


@pytest.mark.parametrize("key", ["", " ", "x" * 201, "ü"])
async def test_a_key_has_bounds(memory_nodes: Nodes, key: str) -> None:
    app = memory_nodes.app()
    app.job("job")(lambda: None)
    async with client_of(app) as client:
        headers = [("Idempotency-Key", key.encode("latin-1"))]
        answer = await client.ask("POST", "/api/v1/jobs/job/trigger", headers=headers)
        assert answer.status_code == 400
    await app.close()


async def test_many_at_once_under_one_key_do_it_once(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job")(lambda: None)
    async with client_of(app) as client:
        asks = [client.ask("POST", "/api/v1/jobs/job/trigger", headers=KEY) for _ in range(20)]
        answers = await asyncio.gather(*asks)
        assert {answer.status_code for answer in answers} <= {202, 409}
        made = {answer.json()["execution_id"] for answer in answers if answer.status_code == 202}
        codes = {answer.json()["error"]["code"] for answer in answers if answer.status_code == 409}
        assert len(made) == 1
        assert codes <= {"request_in_progress"}
        assert (await client.get("/api/v1/executions"))["total"] == 1
    await app.close()


# ---------------------------------------------------------------- the rule itself


async def _begun(keys: Idempotency) -> Begun:
    begun = await keys.begin("ada", "k", "request")
    assert isinstance(begun, Begun)
    return begun


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_who_comes_after_a_dead_process_works_under_the_same_id(clock: FakeClock) -> None:
    keys = Idempotency(MemoryStore(clock), clock)
    first = await _begun(keys)
    with pytest.raises(StillAtWork):
        await keys.begin("ada", "k", "request")
    clock.advance(ABANDONED_AFTER / SECOND)
    second = await _begun(keys)
    assert second.execution_id == first.execution_id
    await keys.finish(second, Answer(202, "late"))
    await keys.finish(first, Answer(202, "too late"))
    assert await keys.begin("ada", "k", "request") == Answer(202, "late")


async def test_keys_of_others_are_other_keys(clock: FakeClock) -> None:
    keys = Idempotency(MemoryStore(clock), clock)
    mine, theirs = await keys.begin("ada", "k", "r"), await keys.begin("bob", "k", "other")
    assert isinstance(mine, Begun)
    assert isinstance(theirs, Begun)
    assert mine.execution_id != theirs.execution_id


async def test_a_key_is_kept_for_a_day_and_then_pruned(clock: FakeClock) -> None:
    store = MemoryStore(clock)
    keys = Idempotency(store, clock)
    await keys.finish(await _begun(keys), Answer(202, "first"))
    clock.advance(KEPT_FOR / SECOND - 1)
    assert await keys.begin("ada", "k", "request") == Answer(202, "first")
    assert await keys.expiry.once() == 0
    clock.advance(2)
    assert await keys.expiry.once() == 1
    fresh: Any = await keys.begin("ada", "another", "request")
    await keys.finish(fresh, Answer(204))
    left = await store.list_entries("idempotency", "")
    assert [entry.key for entry in left] == [fresh.key]


async def test_what_failed_is_forgotten(clock: FakeClock) -> None:
    keys = Idempotency(MemoryStore(clock), clock)
    await keys.forget(await _begun(keys))
    await _begun(keys)
