"""`POST /jobs/{handler}`: a handler run with its own typed body."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import JobContext, Mainspring
from tests.api.client import client_of
from tests.integration.gate import Gate
from tests.support import Nodes


def application(nodes: Nodes) -> tuple[Mainspring, list[Any]]:
    app, seen = nodes.app(), []

    @app.job("remind", max_attempts=5)
    async def remind(ctx: JobContext, shift_id: str, urgent: bool = False) -> None:
        seen.append((shift_id, urgent, ctx.triggered_by))
        if shift_id == "bad":
            raise ValueError("no such shift")

    return app, seen


@pytest.mark.req("API-7")
async def test_it_waits_for_the_end(nodes: Nodes) -> None:
    app, seen = application(nodes)
    async with app, client_of(app) as client:
        done = await client.ask("POST", "/jobs/remind", json={"shift_id": "42", "urgent": True})
        assert (done.status_code, done.content) == (204, b"")
        assert seen == [("42", True, "loopback")]
        execution = await client.get(f"/api/v1/executions/{done.headers['x-execution-id']}")
        assert (execution["status"], execution["trigger"]) == ("completed", "api")


@pytest.mark.req("API-7")
async def test_a_failed_job_is_a_500_at_its_first_failure(nodes: Nodes) -> None:
    app, seen = application(nodes)
    async with app, client_of(app) as client:
        error = await client.refused(500, "POST", "/jobs/remind", {"shift_id": "bad"})
        assert (error["code"], error["message"]) == ("job_failed", "ValueError: no such shift")
        assert len(seen) == 1
        assert error["details"]["status"] == "failed"


@pytest.mark.req("API-7", "REG-6")
@pytest.mark.parametrize(
    ("body", "words"),
    [({}, "shift_id is missing"), ({"shift_id": 42}, "shift_id"), ({"shift_id": "1", "colour": 1}, "colour"), ([], "")],
)
async def test_a_bad_body_is_a_400_that_names_the_field(memory_nodes: Nodes, body: Any, words: str) -> None:
    app, seen = application(memory_nodes)
    async with app, client_of(app) as client:
        answer = await client.ask("POST", "/jobs/remind", json=body)
        assert answer.status_code == 400
        assert words in answer.json()["error"]["message"]
        assert seen == []


@pytest.mark.req("API-7")
async def test_it_need_not_be_waited_for(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, "long")
    async with app, client_of(app) as client:
        for options in (
            {"params": {"wait": "0"}},
            {"headers": {"Prefer": "respond-async"}},
            {"params": {"wait": "50ms"}},
        ):
            answer = await client.ask("POST", "/jobs/long", **options)
            assert answer.status_code == 202
            assert answer.json()["status"] in ("pending", "running")
        gate.open.set()
        execution = await client.get(f"/api/v1/executions/{answer.json()['execution_id']}?wait=20s")
        assert execution["status"] == "completed"
        await client.refused(400, "POST", "/jobs/long?wait=soon")
        await client.refused(404, "POST", "/jobs/nope")


@pytest.mark.req("API-7")
async def test_the_document_has_each_handlers_own_body(memory_nodes: Nodes) -> None:
    app, _ = application(memory_nodes)
    paths = app.asgi().openapi()["paths"]
    schema = paths["/jobs/remind"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert schema["properties"] == {"shift_id": {"type": "string"}, "urgent": {"type": "boolean"}}
    assert (schema["required"], schema["additionalProperties"]) == (["shift_id"], False)
    app.job("later")(lambda: None)
    assert "/jobs/later" in app.asgi().openapi()["paths"]


@pytest.mark.req("API-7", "WIN-4")
async def test_a_job_with_a_window_takes_another_one_beside_its_parameters(nodes: Nodes) -> None:
    app, seen = nodes.app(), []

    @app.job("summary", cron="0 2 * * *", window="yesterday")
    async def summary(ctx: JobContext, region: str = "all") -> None:
        assert ctx.window is not None
        seen.append((region, ctx.window.begin.isoformat(), ctx.window.end.isoformat()))

    @app.job("own", cron="0 2 * * *", window="yesterday")
    async def own(ctx: JobContext, window: str = "") -> None:
        seen.append(window)

    first, last = "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"
    async with app, client_of(app) as client:
        for window in ({"window": {"begin": first, "end": last}}, {"begin_date": first, "end_date": last}):
            done = await client.ask("POST", "/jobs/summary", json={"region": "north", **window})
            assert done.status_code == 204
            assert seen.pop() == ("north", "2026-03-01T00:00:00+00:00", "2026-03-02T00:00:00+00:00")
        for bad, field in (
            ({"window": {"begin": last, "end": first}}, "window.end"),
            ({"window": {"begin": "soon", "end": last}}, "window.begin"),
            ({"window": {"begin": first}}, "window"),
            ({"window": first}, "window"),
            ({"begin_date": first}, "end_date"),
            ({"begin_date": first, "end_date": last, "window": {"begin": first, "end": last}}, "window"),
            ({"window": {"begin": first, "end": last}, "region": 7}, "params.region"),
        ):
            error = await client.refused(400, "POST", "/jobs/summary", bad)
            assert error["details"][0]["field"] == field
        assert (await client.ask("POST", "/jobs/own", json={"window": "mine"})).status_code == 204
        assert seen == ["mine"]
        paths = app.asgi().openapi()["paths"]
        body = paths["/jobs/summary"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert {"region", "window", "begin_date", "end_date"} == set(body["anyOf"][0]["properties"])
