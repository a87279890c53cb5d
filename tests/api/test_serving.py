"""The interface where it is used: listening beside the other roles, and mounted into somebody's application."""

from __future__ import annotations

import asyncio
import socket

import httpx
import msgspec
import pytest
from fastapi import FastAPI

from mainspring import ConfigurationError, Mainspring, every
from mainspring.model.events import Running
from mainspring.server.responses import ErrorJson
from tests.integration.gate import Gate
from tests.support import DEADLINE, Nodes, until


async def _address(app: Mainspring) -> str:
    server = (await app._runtime.engine()).http
    assert server is not None
    return f"http://127.0.0.1:{server.port}"


@pytest.mark.req("OPS-1", "API-2")
async def test_the_role_api_listens_and_stops_with_the_node(nodes: Nodes) -> None:
    app = nodes.app(roles="scheduler,worker,api", port=0)
    app.job("job", trigger=every(hours=1))(lambda: None)
    async with app:
        address = await _address(app)
        async with httpx.AsyncClient(base_url=address) as http:
            started = await http.post("/_sys/job/job")
            done = await http.get(f"/api/v1/executions/{started.json()['execution_id']}?wait=20s")
            assert (started.status_code, done.json()["status"]) == (202, "completed")
            worker = (await http.get("/api/v1/workers")).json()["items"][0]
            assert worker["roles"] == ["scheduler", "worker", "api"]
    async with httpx.AsyncClient(base_url=address) as http:
        with pytest.raises(httpx.ConnectError):
            await http.get("/healthz")


@pytest.mark.req("OPS-1", "WRK-5")
async def test_a_stop_waits_for_no_stream_and_no_waiting_request(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(roles="scheduler,worker,api", port=0)
    gate = Gate(app, "long", trigger=every(hours=1))
    async with app:
        run = await app.trigger("long")
        await gate.holds(run)
        address = await _address(app)
        async with httpx.AsyncClient(base_url=address, timeout=60) as http:
            waiting = asyncio.create_task(http.get(f"/api/v1/executions/{run.id}?wait=5m"))
            async with http.stream("GET", f"/api/v1/executions/{run.id}/stream") as stream:
                lines = stream.aiter_lines()
                assert await anext(lines) == "event: execution"
                gate.open.set()
                await asyncio.wait_for(app.stop(), 20)
                assert [line async for line in lines]
            assert (await asyncio.wait_for(waiting, 20)).status_code == 200


@pytest.mark.req("API-9", "NUM-3")
async def test_small_answers_are_not_held_back(memory_nodes: Nodes) -> None:
    """asyncio sends at once only on sockets that say they are TCP: otherwise each answer waits 40 ms for the last."""
    app = memory_nodes.app(roles="api", port=0)
    app.job("job")(lambda: None)
    async with app:
        server = (await app._runtime.engine()).http
        assert server is not None
        assert server.socket.proto == socket.IPPROTO_TCP


async def test_a_port_that_is_taken_is_named_and_nothing_else_starts(memory_nodes: Nodes) -> None:
    first, second = memory_nodes.app(roles="api", port=0), memory_nodes.app(roles="api,worker")
    told: list[object] = []
    second.observe(told.append)
    for app in (first, second):
        app.job("job")(lambda: None)
    async with first:
        port = int((await _address(first)).rpartition(":")[2])
        for own_port, metrics_port in ((port, None), (0, port)):
            with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
                await second.start(port=own_port, metrics_port=metrics_port)
            assert (await second._runtime.engine()).node is None
        assert [event for event in told if isinstance(event, Running)] == []  # it claimed nothing meanwhile
        await second.close()


@pytest.mark.req("OPS-1", "API-7")
async def test_after_a_stop_and_another_start_it_still_waits(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(roles="api,worker", port=0)
    gate = Gate(app)
    for _ in range(2):
        gate.open.clear()
        await app.start()
        async with httpx.AsyncClient(base_url=await _address(app), timeout=DEADLINE) as http:
            waiting = asyncio.create_task(http.post("/api/v1/jobs/gate/trigger?wait=20s"))
            await until(lambda: gate.running)
            gate.open.set()
            answer = await waiting
        assert (answer.status_code, answer.json()["execution"]["status"]) == (200, "completed")
        await app.stop()
    await app.close()


@pytest.mark.req("SEC-2")
async def test_it_does_not_listen_to_other_machines_without_authentication(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(roles="api", host="0.0.0.0", port=0)
    app.job("job")(lambda: None)
    with pytest.raises(ConfigurationError, match="no authentication is configured"):
        await app.start()
    await app.close()


@pytest.mark.req("OPS-1")
async def test_it_is_mounted_under_any_prefix_with_the_lifespan_of_the_host(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job")(lambda: None)
    site = FastAPI(lifespan=app.lifespan)
    site.mount("/tools/jobs-admin", app.asgi())

    @site.get("/own")
    async def own() -> str:
        return "mine"

    transport = httpx.ASGITransport(site, client=("127.0.0.1", 1))
    async with (
        site.router.lifespan_context(site),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as http,
    ):
        assert (await http.get("/own")).json() == "mine"
        prefix = "/tools/jobs-admin"
        made = await http.post(f"{prefix}/api/v1/jobs", json={"name": "j", "handler": "job", "interval_minutes": 5})
        assert made.headers["location"] == f"{prefix}/api/v1/jobs/j"
        assert (await http.get(made.headers["location"])).json()["name"] == "j"
        assert (await http.post(f"{prefix}/jobs/job")).status_code == 204
        missing = await http.get(f"{prefix}/nope")
        assert missing.status_code == 404
        msgspec.json.decode(missing.content, type=ErrorJson)
        document = (await http.get(f"{prefix}/openapi.json")).json()
        assert document["servers"] == [{"url": prefix}]
