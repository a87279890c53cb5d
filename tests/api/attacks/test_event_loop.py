"""Nothing that an operator sends holds the event loop: no step of it takes longer than 20 ms of its thread's time."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from mainspring import JobContext, Mainspring
from tests.api.attacks.hostile_requests import FORM_HEADERS, Hostile, corpus
from tests.api.attacks.loop_watch import LoopWatch, run_watched
from tests.api.schema_app import ADMIN, application, fill
from tests.support import DEADLINE

BAR = 0.020
"""Seconds."""


def test_the_watch_sees_work_waits_and_threads_that_hold_the_interpreter() -> None:
    found: dict[str, float] = {}

    async def main(watch: LoopWatch) -> None:
        async def nothing() -> None:
            await asyncio.sleep(0)

        async def works() -> None:
            sum(range(5_000_000))

        async def waits() -> None:
            time.sleep(2 * BAR)

        async def holds() -> None:
            await asyncio.to_thread(sum, range(5_000_000))

        for work in (nothing, works, waits, holds):
            tries = [await watch.longest_step(work) for _ in range(5)]
            found[work.__name__] = min(tries) if work is nothing else max(tries)

    run_watched(main)
    assert found.pop("nothing") < BAR
    assert min(found.values()) > BAR, found


@pytest.mark.req("SEC-2")
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_no_hostile_request_holds_the_event_loop(store: str, tmp_path: Path) -> None:
    found: list[str] = []

    async def main(watch: LoopWatch) -> None:
        mended = asyncio.Event()
        url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/hostile.db"
        async with _application(mended, url) as app:
            known, api = await fill(app), app.asgi()
            mended.set()
            wanted = _operations(api) if store == "memory" else []  # what is generated rarely reaches a store
            requests = corpus(wanted, api.openapi(), known)
            forgotten = {each for each in wanted if each.startswith(("POST", "PUT"))} - {r.operation for r in requests}
            assert not forgotten, "a route that takes input needs a hostile example"
            await _send(api, requests[0])
            gc.collect()
            gc.freeze()  # what the tests before have left is not the application's
            for request in requests:
                found.extend(await _judged(watch, api, request))
            api.state.streams.close()

    try:
        run_watched(main)
    finally:
        gc.unfreeze()
    assert not found, "\n".join(found)


def _application(mended: asyncio.Event, url: str = "memory://") -> Mainspring:
    app = application(mended, url)

    @app.job("takes")
    async def takes(token: str = "", blob: Any = None) -> None: ...

    @app.job("frequent", cron="* * * * *", window="since_previous_tick")
    async def frequent(ctx: JobContext) -> None: ...

    @app.job("each", tenants=lambda: ["a"])
    async def each(ctx: JobContext) -> None: ...

    return app


def _operations(api: FastAPI) -> list[str]:
    routes = [route for route in iter_route_contexts(api.routes) if getattr(route, "dependant", None) is not None]
    return [
        f"{method} {route.path_format}"
        for route in routes
        for method in sorted(route.methods or ())
        if method != "HEAD"
    ]


async def _judged(watch: LoopWatch, api: FastAPI, request: Hostile) -> list[str]:
    """What is wrong with the answer, or with the longest step: the median of three, if the first is over the bar."""
    statuses: list[int] = []

    async def work() -> None:
        statuses.append(await _send(api, request))

    steps = [await watch.longest_step(work)]
    if steps[0] > BAR:
        steps += [await watch.longest_step(work) for _ in range(2)]
    longest = statistics.median(steps)
    wrong = [f"{request} held the loop for {longest * 1000:.0f} ms"] if longest > BAR else []
    return wrong + [f"{request} was answered with {status}" for status in statuses[:1] if status >= 500]


async def _send(api: FastAPI, request: Hostile) -> int:
    """The status of the answer."""
    body, statuses = request.body or b"", [0]
    kind = "application/x-www-form-urlencoded" if "/dashboard/" in request.path else "application/json"
    headers = {**ADMIN, **dict(FORM_HEADERS), "host": "localhost:8000", "content-length": str(len(body))}
    headers |= {"content-type": kind} if body else {}
    path, _, query = request.path.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8000),
    }
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async with asyncio.timeout(DEADLINE):
        await api(scope, receive, send)
    return statuses[-1]
