"""`/api/v1/executions`: list, cancel, retry, log lines, progress, waiting, the live stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from mainspring import JobContext, Mainspring
from mainspring.server.stream import Admission, Streams
from tests.api.client import Client, client_of
from tests.integration.gate import Gate
from tests.support import DEADLINE, Nodes, ended, until


@pytest.mark.req("API-8", "API-13", "HIS-1")
async def test_the_list_is_filtered_and_paged(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("a")(lambda: None)
    app.job("b")(lambda: None)
    ids = [(await _added(app, "a")) for _ in range(5)] + [await _added(app, "b")]
    async with client_of(app) as client:
        page = await client.get("/api/v1/executions?limit=4")
        assert ([item["id"] for item in page["items"]], page["total"]) == (ids[:1:-1], 6)
        rest = await client.get(f"/api/v1/executions?limit=4&cursor={page['next_cursor']}")
        assert ([item["id"] for item in rest["items"]], rest["next_cursor"]) == (ids[1::-1], None)
        assert (await client.get("/api/v1/executions?job=b"))["total"] == 1
        assert (await client.get("/api/v1/executions?status=pending&status=running&job=a"))["total"] == 5
        assert (await client.get("/api/v1/executions?status=completed"))["items"] == []
        assert (await client.get("/api/v1/executions?trigger=enqueue&running=false"))["total"] == 6
        assert (await client.get("/api/v1/executions?until=2020-01-01T00:00:00Z"))["total"] == 0
    await app.close()


async def _added(app: Mainspring, name: str) -> str:
    execution = await app.enqueue(name)
    assert execution is not None
    return execution.id


@pytest.mark.req("API-13")
async def test_totals_are_exact_up_to_ten_thousand(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("a")(lambda: None)
    async with client_of(app) as client:
        await app.enqueue_many([("a",)] * 10_000)
        assert (await client.get("/api/v1/executions?limit=1&status=pending"))["total"] == 10_000
        await app.enqueue("a")
        assert (await client.get("/api/v1/executions?limit=1&status=pending"))["total"] == "10000+"
        assert (await client.get("/api/v1/jobs/a/executions?limit=1"))["total"] == 10_001
    await app.close()


@pytest.mark.req("API-8", "EXE-2")
async def test_cancel_and_retry_of_an_execution(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, "long", max_attempts=1)
    async with app, client_of(app) as client:
        run = await app.enqueue("long")
        await gate.holds(run)
        assert run is not None
        asked = await client.post(f"/api/v1/executions/{run.id}/cancel", {"reason": "enough"})
        assert asked["cancel_requested_at"]
        done = await client.get(f"/api/v1/executions/{run.id}?wait=20s")
        assert (done["status"], done["reason"]) == ("cancelled", "enough")
        error = await client.refused(409, "POST", f"/api/v1/executions/{run.id}/cancel")
        assert error["details"]["current_state"] == "cancelled"
        gate.open.set()
        again = await client.ask("POST", f"/api/v1/executions/{run.id}/retry?wait=20s")
        repeated = again.json()["execution"]
        assert (again.status_code, repeated["status"], repeated["retry_of"]) == (200, "completed", run.id)
        error = await client.refused(409, "POST", f"/api/v1/executions/{repeated['id']}/retry")
        assert error["details"]["current_state"] == "completed"


class Talker:
    """A handler that logs, tells its progress, and waits to be let go."""

    def __init__(self, app: Mainspring) -> None:
        self.go = asyncio.Event()
        app.job("talks")(self.talk)

    async def talk(self, ctx: JobContext) -> None:
        for number in range(3):
            ctx.logger.info("line %d", number)
        ctx.progress(1, 2, "half")
        ctx.count(items_crawled=25)
        await self.go.wait()
        ctx.logger.warning("last line")


@pytest.mark.req("API-8", "EXE-11")
async def test_log_lines_and_progress_while_it_runs(nodes: Nodes) -> None:
    app = nodes.app()
    talker = Talker(app)
    async with app, client_of(app) as client:
        run = await app.enqueue("talks")
        assert run is not None
        path = f"/api/v1/executions/{run.id}"
        await until(lambda: _lines(client, path), "three lines")
        progress = await client.get(f"{path}/progress")
        assert (progress["status"], progress["progress"]["message"]) == ("running", "half")
        assert progress["counters"] == {"items_crawled": 25}
        talker.go.set()
        await ended(app, run)
        logs = await client.get(f"{path}/logs?after=2")
        assert [(line["number"], line["message"]) for line in logs["items"]] == [(3, "line 2"), (4, "last line")]
        assert logs["next_after"] == 4
        assert (await client.get(f"{path}/logs?limit=1"))["next_after"] == 1
        warnings = await client.get(f"{path}/logs?level=WARNING&limit=5")
        assert [(line["number"], line["level"], line["logger"]) for line in warnings["items"]] == [
            (4, "WARNING", "mainspring.job")
        ]
        await client.refused(400, "GET", f"{path}/logs?level=loud")


async def _lines(client: Client, path: str) -> bool:
    return len((await client.get(f"{path}/logs"))["items"]) == 3


def events_of(text: str) -> list[tuple[str, Any]]:
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    fields = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    return [(each["event"], json.loads(each["data"])) for each in fields]


@pytest.mark.req("API-8", "EXE-11")
async def test_the_stream_tells_everything_up_to_the_end(nodes: Nodes) -> None:
    app = nodes.app()
    talker = Talker(app)
    async with app, client_of(app) as client:
        run = await app.enqueue("talks")
        assert run is not None
        path = f"/api/v1/executions/{run.id}"
        await until(lambda: _lines(client, path), "three lines")
        streams: Streams = app.asgi().state.streams
        watching = [asyncio.create_task(client.ask("GET", f"{path}/stream")) for _ in range(3)]
        await until(lambda: streams.open == 3)
        talker.go.set()
        for answer in await asyncio.gather(*watching):
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = events_of(answer.text)
            assert events[0][0] == "execution"
            assert [data["message"] for name, data in events if name == "log"] == [
                *("line 0", "line 1", "line 2"),
                "last line",
            ]
            assert (events[-1][0], events[-1][1]["status"], events[-1][1]["items_crawled"]) == ("end", "completed", 25)
        assert streams.open == 0


@pytest.mark.req("API-8")
async def test_a_stream_of_what_has_ended_and_one_that_goes_on(nodes: Nodes) -> None:
    app = nodes.app()
    talker = Talker(app)
    talker.go.set()
    async with app, client_of(app) as client:
        run = await ended(app, await app.enqueue("talks"))
        path = f"/api/v1/executions/{run.id}/stream"
        whole = events_of((await client.ask("GET", path)).text)
        assert [name for name, _ in whole] == ["execution", *["log"] * 4, "end"]
        rest = events_of((await client.ask("GET", path, headers={"Last-Event-ID": "3"})).text)
        assert [data["message"] for name, data in rest if name == "log"] == ["last line"]


@pytest.mark.req("API-8")
async def test_who_comes_after_the_end_hears_of_it_though_somebody_else_still_reads(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("quick")(lambda: None)
    async with app:
        run = await ended(app, await app.enqueue("quick"))
        streams, queries = Streams(10, 10), (await app._runtime.engine()).queries
        slow, late = (streams.follow(queries, run, 0, Admission(_always), "ada") for _ in range(2))
        await anext(slow)
        await until(lambda: f"watch-{run.id}" not in {task.get_name() for task in asyncio.all_tasks()})
        heard = await asyncio.wait_for(_all_of(late), DEADLINE)
        assert heard[-1].startswith(b"event: end")
        assert [event.split(b"\n")[0] for event in await _all_of(slow)] == [b"event: end"]


@pytest.mark.req("API-8", "OPS-1")
def test_one_event_loop_after_another_is_served() -> None:
    """As the tests of somebody's site have it: each of them runs the same application anew."""
    app = Mainspring("memory://")
    app.job("brief")(partial(asyncio.sleep, 0.1))

    async def stream() -> str:
        async with app, client_of(app) as client:
            run = await app.enqueue("brief")
            assert run is not None
            return (await client.ask("GET", f"/api/v1/executions/{run.id}/stream")).text

    for _ in range(2):
        told = asyncio.run(stream())
        assert (told.count(": silence"), told.count("event: end")) == (0, 1)


async def _always() -> bool:
    return True


async def _all_of(stream: AsyncIterator[bytes]) -> list[bytes]:
    return [event async for event in stream]


@pytest.mark.req("API-8", "OPS-1")
async def test_streams_and_waits_end_when_the_process_stops(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    Gate(app, "long")
    async with client_of(app) as client:
        run = await app.enqueue("long")
        assert run is not None
        streams: Streams = app.asgi().state.streams
        stream = asyncio.create_task(client.ask("GET", f"/api/v1/executions/{run.id}/stream"))
        wait = asyncio.create_task(client.ask("GET", f"/api/v1/executions/{run.id}?wait=5m"))
        await until(lambda: streams.open == 1)
        streams.close()
        assert (await asyncio.wait_for(stream, 20)).status_code == 200
        assert (await asyncio.wait_for(wait, 20)).json()["status"] == "pending"
    await app.close()


@pytest.mark.req("SEC-4")
async def test_there_is_room_for_so_many_streams(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("a")(lambda: None)
    run = await app.enqueue("a")
    assert run is not None
    async with client_of(app) as client:
        streams: Streams = app.asgi().state.streams
        streams.open = streams.most
        await client.refused(503, "GET", f"/api/v1/executions/{run.id}/stream")
        streams.open = 0
        with ExitStack() as held:
            for _ in range(streams.most_of_one):
                held.enter_context(streams.holding("127.0.0.1"))
            await client.refused(429, "GET", f"/api/v1/executions/{run.id}/stream")
    await app.close()
