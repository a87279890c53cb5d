"""`/healthz` and `/readyz` on `metrics_port`: the probes of workers and schedulers, which serve no HTTP interface."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.config.security import SecuritySettings
from mainspring.observe.metrics.access import MetricsAccess
from mainspring.observe.metrics.server import MetricsServer


async def status(port: int, path: str) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: worker\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"/healthz": 200, "/readyz": 200, "/other": 403}),  # the Host header is not ours: the metrics are refused
        ({"api_tokens": True}, {"/healthz": 200, "/readyz": 200, "/metrics": 401}),
        ({"api_allow": "10.0.0.0/8"}, {"/healthz": 403, "/readyz": 403, "/metrics": 403}),
    ],
    ids=["open", "tokens", "elsewhere"],
)
async def test_probes_need_an_address_of_api_allow_and_no_credentials(
    settings: dict[str, Any], expected: dict[str, int]
) -> None:
    app = Mainspring("memory://", metrics_port=0, **settings)

    @app.job("noop")
    async def noop() -> None: ...

    async with app:
        metrics = (await app._runtime.ready()).metrics
        assert metrics is not None
        assert {path: await status(metrics.port, path) for path in expected} == expected


async def test_a_process_that_cannot_do_its_part_lives_and_is_not_ready() -> None:
    async def page() -> bytes:
        return b""

    async def troubles() -> list[str]:
        return ["store"]

    server = MetricsServer("127.0.0.1", 0, MetricsAccess(SecuritySettings()), page, troubles)
    await server.start()
    try:
        assert (await status(server.port, "/healthz"), await status(server.port, "/readyz")) == (200, 503)
    finally:
        await server.stop()
