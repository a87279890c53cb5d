"""Queues, handlers and workers over HTTP: what they show, how they are steered, what an autoscaler reads."""

from __future__ import annotations

import pytest

from tests.api.client import client_of
from tests.support import Nodes


@pytest.mark.req("QUE-1", "QUE-2", "QUE-3", "API-8")
async def test_queues_are_listed_paused_limited_and_scaled(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("send", queue="mail")
    def send() -> None: ...

    @app.job("count", queue="night")
    def count() -> None: ...

    async with client_of(app) as client:
        for _ in range(25):
            await app.enqueue("send")
        mail, night = (await client.get("/api/v1/queues"))["items"]
        assert (night["name"], night["ready"], night["handlers"]) == ("night", 0, [])  # a job names it
        assert (mail["name"], mail["ready"], mail["paused"], mail["workers"]) == ("mail", 25, False, 0)
        assert [(each["name"], each["ready"]) for each in mail["handlers"]] == [("send", 25)]
        assert (await client.get("/api/v1/queues?paused=true&sort=-oldest"))["items"] == []
        scale = await client.get("/api/v1/scale?queue=mail&max=2")
        assert (scale["due"], scale["running"], scale["wanted"], scale["capacity"]) == (25, 0, 2, 0)
        assert (await client.get("/api/v1/scale"))["wanted"] == 3

        paused = await client.post("/api/v1/queues/mail/pause", {"note": "server down"})
        assert (paused["paused"], paused["pause"]["note"]) == (True, "server down")
        assert (await client.get("/api/v1/scale?queue=mail"))["wanted"] == 0
        assert not (await client.post("/api/v1/queues/mail/resume", {}))["paused"]
        await client.refused(409, "POST", "/api/v1/queues/mail/resume")
        limited = await client.post("/api/v1/queues/mail/limit", {"concurrency": 10, "rate": "120/m"})
        assert (limited["concurrency"], limited["rate"]) == (10, 2.0)
        assert (await client.get("/api/v1/scale?queue=mail"))["due"] == 10
        await client.refused(400, "POST", "/api/v1/queues/mail/limit", {"rate": "fast"})
        await client.refused(400, "GET", "/api/v1/scale?min=3&max=2")
        assert (await client.get("/api/v1/queues/unused"))["ready"] == 0

        assert (await client.post("/api/v1/handlers/send/pause", {}))["paused"]
        assert [each["paused"] for each in (await client.get("/api/v1/handlers"))["items"]] == [False, True]
        assert not (await client.post("/api/v1/handlers/send/resume", {}))["paused"]
        await client.refused(404, "POST", "/api/v1/workers/0198f0aa/drain")
        actions = [each["action"] for each in (await client.get("/api/v1/audit"))["items"]]
        assert actions[::-1] == ["pause_queue", "resume_queue", "limit_queue", "pause_handler", "resume_handler"]
        page = (await app.monitoring.metrics_page()).decode()
        assert 'mainspring_queue_ready{queue="mail"} 25' in page
        assert 'mainspring_queue_wanted_processes{queue="mail"} 1' in page
    await app.close()
