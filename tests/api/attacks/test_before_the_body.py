"""Address, credentials and role are judged before a body is read: on every route that a body can be sent to."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from mainspring import Mainspring
from mainspring.server.access import GuardedRoute, Role, required_role
from mainspring.server.middleware import SMALL_BYTES, WITH_BODY
from mainspring.stores.sqlite import statements
from tests.api.access_support import SECRET, signed
from tests.api.client import client_of
from tests.support import DEADLINE, Nodes

ADDRESS = "203.0.113.9"


def _app() -> Mainspring:
    app = Mainspring("memory://", jwt_secret=SECRET, api_handler="job")
    app.job("job")(lambda: None)
    return app


async def _status(app: Mainspring, route: APIRoute, method: str, token: str | None, wanted: asyncio.Event) -> int:
    """The status of the answer to a request whose body never comes. `wanted` is set when the body is asked for."""
    path = route.path_format.replace("{", "").replace("}", "")
    kind = "application/x-www-form-urlencoded" if path.startswith("/dashboard/") else "application/json"
    headers = [(b"host", b"localhost"), (b"content-type", kind.encode()), (b"content-length", b"100")]
    if token is not None:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def receive() -> Any:
        wanted.set()
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            begun.set_result(message["status"])

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": ""}
    scope |= {"scheme": "http", "query_string": b"", "headers": headers, "client": (ADDRESS, 1), "http_version": "1.1"}
    answering = asyncio.ensure_future(app.asgi()(scope, receive, send))
    reading = asyncio.ensure_future(wanted.wait())
    async with asyncio.timeout(DEADLINE):
        await asyncio.wait({begun, reading}, return_when=asyncio.FIRST_COMPLETED)
    for task in (answering, reading):
        task.cancel()
    await asyncio.gather(answering, reading, return_exceptions=True)
    return begun.result() if begun.done() else 0


@pytest.mark.req("SEC-2", "SEC-4")
async def test_no_route_reads_the_body_of_somebody_whom_it_would_refuse() -> None:
    app = _app()
    viewer = signed(role="viewer")
    checked = 0
    for route in app.asgi().routes:
        assert isinstance(route, GuardedRoute), f"{route} does not judge before it reads"
        role = required_role(route)
        for method in sorted((route.methods or set()) & {*WITH_BODY, "DELETE"}):
            if not isinstance(role, Role):
                continue  # for anyone, or for those who can sign the body
            for token, status in ((None, 401), ("wrong", 401), (viewer, 403)):
                if token == viewer and role is Role.VIEWER:
                    continue
                app.asgi().state.guard._failures._times.clear()
                wanted = asyncio.Event()
                found = await _status(app, route, method, token, wanted)
                expected = 403 if "/_sys/" in route.path else status
                assert (found, wanted.is_set()) == (expected, False), f"{method} {route.path}"
                checked += 1
    assert checked > 150
    await app.close()


@pytest.mark.req("SEC-2")
async def test_credentials_are_looked_up_once_for_a_request(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("job")(lambda: None)
    guard, asked = app.asgi().state.guard, []
    admit = guard.admit

    async def counted(*args: Any, **options: Any) -> Any:
        asked.append(args[1])
        return await admit(*args, **options)

    guard.admit = counted
    async with client_of(app) as client:
        await client.post("/api/v1/jobs/job/trigger")
        assert asked == [Role.OPERATOR]
        await client.get("/healthz")  # reads no credentials
        await client.get("/api/v1/jobs")
        assert asked == [Role.OPERATOR, Role.VIEWER]
    await app.close()


@pytest.mark.req("SEC-4")
async def test_one_client_leaves_room_for_others_to_wait(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("job")(lambda: None)
    run = await app.enqueue("job")
    assert run is not None
    waits = app.asgi().state.waits
    async with client_of(app) as client:
        with ExitStack() as held:
            for _ in range(waits.most_of_one):
                held.enter_context(waits.holding("127.0.0.1"))
            error = await client.refused(429, "GET", f"/api/v1/executions/{run.id}?wait=30s")
            assert error["code"] == "too_many_waits"
            await client.refused(429, "POST", "/api/v1/jobs/job/trigger?wait=30s")
            assert [each.id for each in await app.executions(job="job")] == [run.id]  # nothing was started
            await client.get(f"/api/v1/executions/{run.id}")
        waits.open = waits.most
        await client.refused(503, "GET", f"/api/v1/executions/{run.id}?wait=30s")
    await app.close()


@pytest.mark.req("SEC-4")
async def test_large_bodies_of_strangers_take_little_memory(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("job")(lambda: None)
    strangers = app.asgi().state.strangers_bytes
    large = b"x" * (SMALL_BYTES + 1)
    async with client_of(app) as client:
        for kept, path, body, status in (
            (0, "/hooks/github", large, 404),
            (strangers.most, "/hooks/github", large, 503),
            (strangers.most, "/hooks/github", b"{}", 404),
            (strangers.most, "/api/v1/jobs/job/trigger", large, 400),  # it has a principal
        ):
            strangers.held = kept
            answer = await client.ask("POST", path, content=body, headers={"Content-Type": "application/json"})
            assert (answer.status_code, strangers.held) == (status, kept), path
    await app.close()


@pytest.mark.req("SEC-4")
async def test_an_open_store_reads_no_more_files_of_sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cached in (statements.sql, statements.read_statements):
        cached.cache_clear()
    app = Mainspring(f"sqlite:///{tmp_path}/jobs.db")
    app.job("job")(lambda: None)
    await app.open()

    def no_file_left(name: str) -> str:
        raise OSError(24, f"Too many open files: {name}")

    monkeypatch.setattr(statements, "_read", no_file_left)
    assert [name for name in statements.statement_names() if not statements.sql(name)] == []
    await app.close()
