"""`/healthz` and `/readyz`: yes or no, and nothing else, whoever asks."""

from __future__ import annotations

import httpx
import pytest

from mainspring import Mainspring, every
from mainspring.core.monitoring.totals import CHECK_SLACK, CHECKS_MISSED
from mainspring.model.errors import SchemaMismatch
from mainspring.stores.memory import MemoryStore
from tests.api.client import client_of
from tests.support import Nodes, until

STRANGER = ("203.0.113.9", 4_711)


async def _ask(app: Mainspring, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app.asgi(), client=STRANGER)
    async with httpx.AsyncClient(transport=transport, base_url="http://jobs.example.com") as http:
        return await http.get(path)


@pytest.mark.req("OPS-5")
async def test_a_process_that_does_its_part_is_ready(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("job", trigger=every(hours=1))(lambda: None)
    async with app:
        await until(lambda: _ready(app))
        assert (await _ask(app, "/readyz")).json() == {"status": "ready"}
        assert (await _ask(app, "/healthz")).json() == {"status": "ok"}


async def _ready(app: Mainspring) -> bool:
    return (await _ask(app, "/readyz")).status_code == 200


@pytest.mark.req("OPS-5", "SEC-4")
@pytest.mark.parametrize("error", [OSError("10.1.2.3 refused"), SchemaMismatch(9, 12), RuntimeError("password")])
async def test_a_store_that_fails_is_told_to_strangers_by_one_word(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    app = memory_nodes.app()
    await app.open()

    async def broken(self: MemoryStore) -> int:
        raise error

    monkeypatch.setattr(MemoryStore, "now", broken)
    answer = await _ask(app, "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    assert (await _ask(app, "/healthz")).status_code == 200
    monkeypatch.undo()
    await app.close()


@pytest.mark.req("OPS-5")
async def test_a_store_that_cannot_be_opened(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    app = memory_nodes.app()

    async def mismatch(self: MemoryStore) -> None:
        raise SchemaMismatch(9, 12)

    monkeypatch.setattr(MemoryStore, "open", mismatch)
    answer = await _ask(app, "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    async with client_of(app) as client:
        error = await client.refused(503, "GET", "/api/v1/jobs")
        assert "12" not in error["message"]


@pytest.mark.req("OPS-5")
async def test_a_scheduler_that_does_not_look_is_not_ready(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(poll_interval=1)
    app.job("job", trigger=every(hours=1))(lambda: None)
    async with app:
        await until(lambda: _ready(app))
        parts = await app._runtime.engine()
        node = parts.node
        assert node is not None
        await node.scheduler.stop(5)
        assert node.scheduler.last_check is not None
        node.scheduler.last_check -= int((CHECKS_MISSED * 1 + CHECK_SLACK + 1) * 1_000_000)
        assert (await _ask(app, "/readyz")).status_code == 503
