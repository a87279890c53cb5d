"""What strangers send costs little before anything is known of them: no request of theirs holds the event loop, and
none keeps a place that others wait for."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mainspring import Mainspring
from mainspring.config.security import SecuritySettings
from mainspring.observe.metrics.access import MetricsAccess
from mainspring.observe.metrics.server import MetricsServer
from mainspring.server.middleware import MOST_HEADERS
from mainspring.server.serving import MOST_HEAD
from tests.api.attacks.loop_watch import LoopWatch, run_watched
from tests.api.attacks.raw_server import serving
from tests.support import DEADLINE, Nodes, until

pytestmark = pytest.mark.req("SEC-4")

BAR = 0.020
"""Seconds."""
GET = b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
PAGE = b"GET /dashboard HTTP/1.1\r\nHost: localhost\r\n"
HOOK = b"POST /hooks/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HELD = {
    "a head of 15,000 headers": (GET + b"a:\r\n" * 15_000 + b"\r\n", (400, 431)),
    "a head of 7,000 headers": (GET + b"a:\r\n" * 7_000 + b"\r\n", (431,)),
    "a cookie of backslashes": (PAGE + b'Cookie: a="' + b'\\"' * 14_000 + b'"\r\n\r\n', (401,)),
    "15,000 cookies": (PAGE + b"Cookie: " + b"a;" * 15_000 + b"\r\n\r\n", (401,)),
    "4,000 hops": (GET + b"X-Forwarded-For: " + b"1.1.1.1," * 3_500 + b"\r\n\r\n", (401,)),
    "100,000 chunks": (HOOK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n", (404,)),
    "5,000 requests at once": ((GET + b"\r\n") * 5_000, (401,)),
}
METRICS = {
    "spaces in a header": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-A: x" + b" " * 16_000 + b"y\r\n\r\n",
    "4,000 headers": b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + b"a:\r\n" * 4_000 + b"\r\n",
}


async def _status(port: int, sent: bytes) -> int:
    """The status of the first answer, once the server has read what it wants to read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE):
            writer.write(sent)
            line = await reader.readline()
            return int(line.split()[1]) if line else 0
    except ConnectionResetError:
        return 0
    finally:
        writer.transport.abort()


async def _held(watch: LoopWatch, port: int, sent: bytes, expected: tuple[int, ...]) -> str:
    """What is wrong with the answer, or with the longest step: the median of three, if the first is over the bar."""
    statuses: list[int] = []

    async def work() -> None:
        statuses.append(await _status(port, sent))

    steps = [await watch.longest_step(work)]
    if steps[0] > BAR:
        steps += [await watch.longest_step(work) for _ in range(2)]
    longest = statistics.median(steps)
    if not set(statuses) <= {*expected}:
        return f"was answered with {statuses}"
    return f"held the loop for {longest * 1000:.0f} ms" if longest > BAR else ""


def test_no_head_or_body_of_a_stranger_holds_the_event_loop() -> None:
    found: dict[str, str] = {}

    async def main(watch: LoopWatch) -> None:
        app = Mainspring("memory://", api_tokens=True, trusted_proxies="127.0.0.1", failed_logins_per_minute=100_000)
        app.job("job")(lambda: None)
        async with serving(app) as server:
            await _status(server.server.port, PAGE + b"\r\n")
            for name, (sent, expected) in HELD.items():
                found[name] = await _held(watch, server.server.port, sent, expected)
        await app.close()

    run_watched(main)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_no_request_to_the_metrics_port_holds_the_event_loop() -> None:
    found: dict[str, str] = {}

    async def main(watch: LoopWatch) -> None:
        async with metrics() as server:
            for name, sent in METRICS.items():
                found[name] = await _held(watch, server.port, sent, (200,))

    run_watched(main)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@asynccontextmanager
async def metrics() -> AsyncIterator[MetricsServer]:
    async def page() -> bytes:
        return b"mainspring_up 1\n"

    async def troubles() -> list[str]:
        return []

    server = MetricsServer("127.0.0.1", 0, MetricsAccess(SecuritySettings()), page, troubles)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def test_a_client_that_does_not_wait_for_answers_gets_one_and_gives_up_its_place() -> None:
    app = Mainspring("memory://")
    app.job("job")(lambda: None)
    async with serving(app, connections=2) as server:
        hasty = [await server.call() for _ in range(4)]
        for caller in hasty:
            for _ in range(300):
                await caller.ask("/healthz")
        patient = await server.call()
        await patient.ask("/healthz")
        assert await patient.status() == 200
        await patient.ask("/healthz")
        assert await patient.status() == 200, "whoever waits for the answer keeps the connection"
        for caller in hasty:
            assert (await caller.closed()).count(b"HTTP/1.1 200") <= 1
    await app.close()


async def test_the_limits_of_a_head_leave_room_for_honest_ones() -> None:
    app = Mainspring("memory://")
    app.job("job")(lambda: None)
    async with serving(app) as server:
        port = server.server.port
        many = b"".join(b"X-%d: a\r\n" % each for each in range(MOST_HEADERS - 1))
        assert await _status(port, GET + many + b"\r\n") == 200
        assert await _status(port, GET + many + b"X-A: a\r\n\r\n") == 431
        assert await _status(port, GET + b"X-A: " + b"a" * (MOST_HEAD - 200) + b"\r\n\r\n") == 200
        assert await _status(port, GET + b"X-A: " + b"a" * 2 * MOST_HEAD + b"\r\n\r\n") == 400
    await app.close()


async def test_a_request_that_is_sent_while_another_waits_for_its_answer_gets_none(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("job")(lambda: None)
    run = await app.enqueue("job")
    assert run is not None
    async with serving(app) as server:
        hasty = await server.call()
        await hasty.ask(f"/api/v1/executions/{run.id}?wait=300ms")
        await until(lambda: app.asgi().state.waits.open == 1)
        await hasty.ask("/healthz")
        answered = await hasty.closed()
        assert (answered.count(b"HTTP/1.1 "), b"connection: close" in answered.lower()) == (1, True)
    await app.close()


async def test_odd_requests_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    app = Mainspring("memory://")
    app.job("job")(lambda: None)
    async with serving(app) as server:
        for offer in (b"h2c", b"websocket"):
            upgrade = b"Connection: Upgrade\r\nUpgrade: " + offer + b"\r\n\r\n"
            assert await _status(server.server.port, GET + upgrade) == 200
        assert await _status(server.server.port, b"nonsense\r\n\r\n") == 400
    assert caplog.messages == []
    await app.close()
