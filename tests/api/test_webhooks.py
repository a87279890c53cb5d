"""Endpoints of webhooks over HTTP: created, changed, tested, disabled, rotated; and no secret is shown twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.webhooks import verify
from tests.api.client import client_of
from tests.support import Nodes, until

pytestmark = pytest.mark.req("WHK-1", "FLW-4")


class Receiver:
    def __init__(self) -> None:
        self.status, self.port = 204, 0
        self.received: list[tuple[dict[str, str], bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
            self.received.append((headers, await reader.readexactly(int(headers["content-length"]))))
            writer.write(f"HTTP/1.1 {self.status} Answer\r\nContent-Length: 0\r\n\r\n".encode())
        finally:
            writer.close()

    @property
    def types(self) -> list[str]:
        return [json.loads(body)["type"] for _, body in self.received]


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


def application(nodes: Nodes, **settings: Any) -> Mainspring:
    app = nodes.app(private_urls=True, **settings)
    app.job("good")(lambda: "fine")
    return app


async def test_an_endpoint_from_creation_to_removal(nodes: Nodes) -> None:
    app = application(nodes)
    async with receiver() as heard, app, client_of(app) as client:
        url = f"http://127.0.0.1:{heard.port}/in/very-secret"
        body = {"url": url, "id": "ops", "events": ["execution.completed"], "jobs": ["good"]}
        answer = await client.ask("POST", "/api/v1/webhooks", json=body, headers={"Idempotency-Key": "k"})
        assert answer.headers["location"] == "/api/v1/webhooks/ops"
        made = answer.json()
        secret = made.pop("secret")
        repeated = await client.post("/api/v1/webhooks", body, headers={"Idempotency-Key": "k"})
        assert repeated == {**made, "secret": None}
        assert (made["url"], made["enabled"]) == (f"http://127.0.0.1:{heard.port}/...", True)
        shown = await client.ask("GET", "/api/v1/webhooks/ops")
        assert (shown.json(), shown.headers["etag"]) == (made, answer.headers["etag"])
        assert (await client.get("/api/v1/webhooks?enabled=true"))["items"] == [made]

        tested = await client.ask("POST", "/api/v1/webhooks/ops/test?wait=60s")
        assert (tested.status_code, tested.json()["status"]) == (200, "completed")
        assert verify(heard.received[0][1], heard.received[0][0], secret)["type"] == "webhook.test"
        await app.wait(await app.trigger("good"), 60)
        await until(lambda: heard.types == ["webhook.test", "execution.completed"])

        rotated = await client.post("/api/v1/webhooks/ops/rotate", {"overlap": "1h"})
        assert rotated["old_secret_until"] is not None
        await client.post("/api/v1/webhooks/ops/test?wait=60s")
        for known in (secret, rotated["secret"]):
            assert verify(heard.received[-1][1], heard.received[-1][0], known)

        old = {"If-Match": shown.headers["etag"]}
        stale = await client.refused(412, "PUT", "/api/v1/webhooks/ops", {"events": None}, headers=old)
        assert stale["code"] == "webhook_changed"
        changed = await client.put("/api/v1/webhooks/ops", {"events": None, "description": "for ops"})
        assert (changed["events"], changed["jobs"], changed["description"]) == ([], ["good"], "for ops")
        off = await client.post("/api/v1/webhooks/ops/disable", {"reason": "it moves"})
        assert (off["enabled"], off["disabled_reason"]) == (False, "it moves")
        assert (await client.post("/api/v1/webhooks/ops/enable"))["enabled"]

        found = await client.get("/api/v1/webhooks/ops/deliveries?status=completed&limit=2")
        assert (len(found["items"]), found["total"]) == (2, 3)
        assert found["items"][0]["metadata"]["response"]["status"] == 204
        everything = json.dumps(
            [await client.get(path) for path in ("/api/v1/webhooks", "/api/v1/audit", "/api/v1/executions")]
        )
        for hidden in (secret, rotated["secret"], "very-secret"):
            assert hidden not in everything
        assert (await client.ask("DELETE", "/api/v1/webhooks/ops")).status_code == 204
        assert "no webhook named 'ops'" in (await client.refused(404, "GET", "/api/v1/webhooks/ops"))["message"]
        actions = [each["action"] for each in (await client.get("/api/v1/audit?target=webhook:ops"))["items"]]
        assert {"create_webhook", "rotate_secret_webhook", "update_webhook", "remove_webhook"} <= {*actions}


async def test_what_is_refused_names_the_field_and_no_secret(memory_nodes: Nodes) -> None:
    app = application(memory_nodes)
    async with client_of(app) as client:
        address = "http://127.0.0.1:1/very-secret"
        for body, reason in (
            ({"url": "ftp://127.0.0.1/very-secret"}, "an address such as"),
            ({"url": "http://user:very-secret@127.0.0.1/"}, "without user or password"),
            ({"url": f"{address}{'x' * 1_000}"}, "at most 1000"),
            ({"url": address, "events": ["execution.faild"]}, "Did you mean 'execution.failed'?"),
            ({"url": address, "secret": "whsec_very-secret"}, "secret"),
            ({"url": address, "format": "email"}, "smtp_url"),
            ({"url": address, "jobs": ["no good name"]}, "jobs"),
        ):
            error = await client.refused(400, "POST", "/api/v1/webhooks", body)
            assert reason in error["message"], error
            assert "very-secret" not in json.dumps(error)
        await client.post("/api/v1/webhooks", {"url": address, "id": "one"})
        await client.refused(409, "POST", "/api/v1/webhooks", {"url": address, "id": "one"})
        keys = await client.post("/api/v1/webhooks", {"url": address, "id": "keys", "scheme": "v1a"})
        assert (keys["secret"], keys["public_key"][:5]) == (None, "whpk_")
        chat = await client.post("/api/v1/webhooks", {"url": address, "id": "chat", "format": "slack"})
        assert chat["secret"] is None
        await client.refused(409, "POST", "/api/v1/webhooks/chat/rotate")
        for method, path in (("POST", "enable"), ("POST", "test"), ("POST", "rotate"), ("GET", "deliveries")):
            await client.refused(404, method, f"/api/v1/webhooks/nope/{path}")
    await app.close()
