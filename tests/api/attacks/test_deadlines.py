"""Every part of a request has a deadline, and a connection that is past one is closed."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from mainspring import JobContext, Mainspring
from mainspring.server import connections
from tests.api.attacks.raw_server import Caller, serving
from tests.support import DEADLINE, Nodes, ended, until

SOON = 0.3
"""A deadline that a test can wait for."""
POST = ("POST /api/v1/jobs/job/trigger HTTP/1.1", "Content-Type: application/json")


@pytest.fixture
def app(memory_nodes: Nodes) -> Mainspring:
    app = memory_nodes.app()

    @app.job("job")
    async def job(ctx: JobContext) -> None:
        for _ in range(1_000):
            ctx.logger.info("x" * 1_000)

    return app


async def _nothing(caller: Caller) -> None:
    pass


async def _half_a_head(caller: Caller) -> None:
    await caller.send("GET /healthz HTTP/1.1")


async def _half_a_head_after_a_request(caller: Caller) -> None:
    await caller.send("GET /healthz HTTP/1.1", "X-A: b\r\n\r\nGET /healthz HTTP/1.1")


async def _half_a_request_that_is_refused(caller: Caller) -> None:
    """The answer comes at once, and the rest of the body is awaited no longer than any other."""
    await caller.send(*POST, "Content-Length: 100", body="{", host="elsewhere.example")
    assert await caller.status() == 403


async def _half_a_body(caller: Caller) -> None:
    await caller.send(*POST, "Content-Length: 100", body="{")
    assert await caller.status() == 408


async def _half_a_body_in_chunks(caller: Caller) -> None:
    await caller.send(*POST, "Transfer-Encoding: chunked", body="1\r\n{\r\n")
    assert await caller.status() == 408


ATTACKS = [
    _nothing,
    _half_a_head,
    _half_a_head_after_a_request,
    _half_a_request_that_is_refused,
    _half_a_body,
    _half_a_body_in_chunks,
]


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__.strip("_"))
async def test_unfinished_requests_end_at_their_deadline(app: Mainspring, attack: Any) -> None:
    async with serving(app, head=SOON, body=SOON) as server:
        caller = await server.call()
        await attack(caller)
        await caller.closed()
        await until(lambda: server.server.connections == 0)
    await app.close()


@pytest.mark.req("SEC-4")
async def test_a_drop_now_and_then_does_not_move_the_deadline(app: Mainspring) -> None:
    async with serving(app, head=SOON, body=SOON) as server:
        head, body = await server.call(), await server.call()
        await head.send("GET /healthz HTTP/1.1")
        await body.send(*POST, "Content-Length: 100000", body="{")

        async def drip() -> None:
            while server.server.connections:
                for caller, drop in ((head, b"X-A: b\r\n"), (body, b" ")):
                    caller.writer.write(drop)
                await asyncio.sleep(SOON / 5)

        await asyncio.wait_for(drip(), DEADLINE)
    await app.close()


@pytest.mark.req("SEC-4")
async def test_answers_that_nobody_reads_end_at_their_deadline(app: Mainspring) -> None:
    async with serving(app, reading=SOON) as server:
        caller = await server.call(small=True)
        for _ in range(50):
            await caller.ask("/dashboard/static/dashboard.css")
        await until(lambda: server.server.connections == 1)
        await until(lambda: server.server.connections == 0)
    await app.close()


@pytest.mark.req("SEC-4", "API-8")
async def test_a_stream_that_nobody_reads_ends_at_its_deadline(app: Mainspring) -> None:
    async with app:
        run = await ended(app, await app.enqueue("job"))
        streams = app.asgi().state.streams
        async with serving(app, reading=SOON) as server:
            caller = await server.call(small=True)
            await caller.ask(f"/api/v1/executions/{run.id}/stream")
            await until(lambda: streams.open == 1)
            await until(lambda: streams.open == 0 and server.server.connections == 0)


@pytest.mark.req("SEC-4")
async def test_room_is_made_by_closing_the_connection_that_has_waited_longest(app: Mainspring) -> None:
    async with serving(app, connections=3) as server:
        first, second, third = [await server.call() for _ in range(3)]
        await until(lambda: server.server.connections == 3)
        await first.ask("/healthz")
        assert await first.status() == 200  # it waits again, but not for as long as the others
        await (await server.call()).send("GET /healthz HTTP/1.1")
        assert await second.closed() == b""
        await first.ask("/healthz")
        assert await first.status() == 200
        await third.ask("/healthz")
        assert await third.status() == 200
    await app.close()


@pytest.mark.req("SEC-4")
async def test_a_process_without_files_closes_waiting_connections_and_goes_on(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept, refusals = connections._accepted, iter([OSError(errno.EMFILE, "Too many open files")] * 2)

    async def refused(listener: Any) -> Any:
        for refusal in refusals:
            raise refusal
        return await accept(listener)

    async with serving(app) as server:
        waiting = await server.call()
        await until(lambda: server.server.connections == 1)
        monkeypatch.setattr(connections, "_accepted", refused)
        await (await server.call()).ask("/healthz")  # accepted by the call that was under way
        last = await server.call()
        await last.ask("/healthz")
        assert await waiting.closed() == b""
        assert await last.status() == 200
    assert len([each for each in caplog.messages if "Too many open files" in each]) == 1
    await app.close()


@pytest.mark.req("SEC-4")
async def test_while_every_connection_is_busy_new_ones_wait_their_turn(app: Mainspring) -> None:
    run = await app.enqueue("job")
    assert run is not None
    async with serving(app, connections=1) as server:
        waiting = await server.call()
        await waiting.ask(f"/api/v1/executions/{run.id}?wait=1s")
        await until(lambda: app.asgi().state.waits.open == 1)
        next_one = await server.call()
        await next_one.ask("/healthz")
        assert await waiting.status() == 200
        assert await next_one.status() == 200
    await app.close()
