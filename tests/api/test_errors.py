"""One shape for every error, the right status, never a stack trace."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mainspring.core.queries.queries import Queries
from mainspring.model.errors import StoreError
from mainspring.server.middleware import MOST_BYTES, request_id_of
from tests.api.client import client_of
from tests.support import Nodes

JSON = {"Content-Type": "application/json"}


@pytest.mark.req("API-9")
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nope", 404, "not_found"),
        ("GET", "/api/v1/jobs/nope", 404, "not_found"),
        ("GET", "/api/v1/jobs/no%00pe", 404, "not_found"),
        ("GET", "/api/v1/executions/nope", 404, "not_found"),
        ("GET", "/api/v1/executions/0199c1f2-7d5e-7abc-8def-0123456789ab", 404, "not_found"),
        ("GET", "/api/v1/executions/nope/stream", 404, "not_found"),
        ("GET", "/api/v1/backfills/no%00pe", 404, "not_found"),
        ("DELETE", "/api/v1/locks/nope", 404, "not_found"),
        ("PATCH", "/api/v1/jobs", 405, "method_not_allowed"),
        ("GET", "/api/v1/jobs?limit=many", 400, "invalid_request"),
        ("GET", "/api/v1/executions?status=odd", 400, "invalid_request"),
        ("GET", "/api/v1/executions?since=yesterday", 400, "invalid_value"),
        ("GET", "/api/v1/executions?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", 400, "invalid_value"),
        ("GET", "/api/v1/executions?since=1800-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", 400, "invalid_value"),
        ("GET", "/api/v1/executions?tenant=%00", 400, "invalid_request"),
        ("GET", "/api/v1/audit?target=%00", 400, "invalid_request"),
        ("GET", "/api/v1/executions?cursor=%00", 400, "invalid_request"),
        ("GET", "/api/v1/executions?cursor=job-001", 400, "invalid_request"),
        ("GET", "/api/v1/audit?cursor=yesterday", 400, "invalid_request"),
    ],
)
async def test_the_shape_and_the_status(nodes: Nodes, method: str, path: str, status: int, code: str) -> None:
    app = nodes.app()
    async with client_of(app) as client:
        answer = await client.ask(method, path)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code)
        assert error["request_id"] == answer.headers["x-request-id"]
        assert ("allow" in answer.headers) == (status == 405)
    await app.close()


@pytest.mark.req("API-9", "SEC-4")
@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{", JSON, 400),
        (b"\xff\xfe", JSON, 400),
        (b"[" * 100_000, JSON, 400),
        (b'{"handler": ' + b"1" * 5_000 + b"}", JSON, 400),
        (b'{"handler": "h", "params": {"n": NaN}}', JSON, 400),
        (b'{"handler": "h", "params": {"n": "\\ud800"}}', JSON, 400),
        (b'{"handler": "h", "metadata": {"n": "\\u0000"}}', JSON, 400),
        (b"{}", {}, 415),
        (b"a=1", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b"{}", {"Content-Type": "text/json"}, 415),
        (b"{}", {"Content-Type": "application/problem+json"}, 400),
        (b" " * (MOST_BYTES + 1), JSON, 413),
    ],
)
async def test_bodies_that_cannot_be_read(memory_nodes: Nodes, content: bytes, headers: Any, status: int) -> None:
    app = memory_nodes.app()
    app.job("h")(_anything)
    async with client_of(app) as client:
        answer = await client.ask("POST", "/api/v1/jobs", content=content, headers=headers)
        assert answer.status_code == status, answer.text
    await app.close()


def _anything(**params: Any) -> None: ...


@pytest.mark.req("SEC-4")
async def test_a_body_of_unknown_length_is_counted_as_it_comes(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 100_000

    async with client_of(app) as client:
        answer = await client.ask("POST", "/api/v1/jobs", content=pieces(), headers=JSON)
        assert answer.status_code == 413
    await app.close()


@pytest.mark.req("API-9")
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError("password=hunter2"), 500, "internal_error"),
        (StoreError("password=hunter2"), 503, "unavailable"),
        (ConnectionRefusedError("password=hunter2"), 503, "unavailable"),
    ],
)
async def test_what_nobody_foresaw_is_told_to_the_log_only(
    memory_nodes: Nodes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    status: int,
    code: str,
) -> None:
    app = memory_nodes.app()

    async def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(Queries, "workers", broken)
    async with client_of(app) as client:
        with caplog.at_level(logging.ERROR, "mainspring.server"):
            answer = await client.ask("GET", "/api/v1/workers")
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert "hunter2" not in answer.text
        assert "hunter2" in caplog.text
    await app.close()


@pytest.mark.req("SEC-3")
@pytest.mark.parametrize(
    ("given", "taken"),
    [("abc-123", True), ("01H:x.y_z", True), ("", False), ("no spaces", False), ("x" * 101, False), ("a\nb", False)],
)
def test_a_request_id_is_taken_if_it_is_sane(given: str, taken: bool) -> None:
    assert (request_id_of(given) == given) is taken
    assert len(request_id_of(None)) == 32


async def test_every_answer_has_its_headers(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    async with client_of(app) as client:
        answer: httpx.Response = await client.ask("GET", "/nope", headers={"X-Request-Id": "mine"})
        assert answer.headers["x-request-id"] == answer.json()["error"]["request_id"] == "mine"
        assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
    await app.close()


@pytest.mark.req("API-9")
@pytest.mark.parametrize(
    ("method", "path", "body", "message"),
    [
        (
            *("POST", "/api/v1/bulk", {"target": "jobs", "action": "pause", "filter": {"queu": "web"}}),
            "filter.queu: 'web' is not valid; there is no such field; allowed: handler, last_status, metadata, name, "
            "origin, orphaned, overdue, owner, paused, queue, search, status, tag. Did you mean 'queue'?",
        ),
        (
            *("POST", "/api/v1/jobs", {"handler": "x", "limits": [{"key": "k", "concurency": 1}]}),
            "limits.0.concurency: 1 is not valid; there is no such field; allowed: burst, concurrency, key, rate. "
            "Did you mean 'concurrency'?",
        ),
        (
            "POST",
            "/api/v1/jobs/x/pause",
            {"why": 1},
            "why: 1 is not valid; there is no such field; allowed: note, resume_at",
        ),
        (
            "POST",
            "/api/v1/bulk",
            {"target": "jobs", "action": "pause"},
            "body: {'target': 'jobs', 'action': 'pause'} is not valid; give either ids or filter",
        ),
        (
            "POST",
            "/api/v1/jobs",
            {"handler": "x", "priority": "a"},
            "priority: 'a' is not valid; Input should be a valid integer",
        ),
    ],
)
async def test_what_does_not_fit_is_told_with_its_value_and_what_is_allowed(
    memory_nodes: Nodes, method: str, path: str, body: Any, message: str
) -> None:
    app = memory_nodes.app()
    async with client_of(app) as client:
        assert (await client.refused(400, method, path, body))["message"] == message
        said = (await client.refused(400, "GET", "/api/v1/workers?limt=3"))["message"]
        assert said.startswith("limt: '3' is not valid; there is no such field")
        assert said.endswith("Did you mean 'limit'?")
    await app.close()
