"""Clients of the metrics port who leave requests unfinished keep nobody from reading the page."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from mainspring.config.security import SecuritySettings
from mainspring.observe.metrics.access import MetricsAccess
from mainspring.observe.metrics.server import AT_ONCE, MetricsServer
from tests.support import DEADLINE

STRANGERS = 5 * AT_ONCE


@pytest.mark.req("SEC-4")
async def test_unfinished_requests_keep_nobody_from_the_metrics() -> None:
    async def page() -> bytes:
        return b"mainspring_up 1\n"

    async def troubles() -> list[str]:
        return []

    server = MetricsServer("127.0.0.1", 0, MetricsAccess(SecuritySettings()), page, troubles)
    await server.start()
    made: list[asyncio.StreamWriter] = []
    try:
        async with asyncio.timeout(DEADLINE):
            for _ in range(STRANGERS):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                made.append(writer)
                writer.write(b"GET /metrics HTTP/1.1\r\n")
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            made.append(writer)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert answer.endswith(b"mainspring_up 1\n")
    finally:
        for writer in made:
            with suppress(OSError):
                writer.transport.abort()
        await server.stop()
