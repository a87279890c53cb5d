"""One trace over two processes and a database server between them, and over a transaction of the caller's."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from opentelemetry.context import Context

from mainspring import Execution, JobContext, Mainspring
from tests.integration.observe.tracing_support import Spans, check_linked
from tests.servers import postgres
from tests.support import ended

NODE = Path(__file__).parent / "traced_node.py"


@pytest.mark.req("OBS-2", "OBS-3")
async def test_a_trace_goes_on_in_the_process_that_runs_the_handler(tmp_path: Path) -> None:
    """There tracing switches itself on, because the application has set a tracer provider."""
    url, spans, file = postgres().new_database(), Spans(), tmp_path / "spans"
    client = Mainspring(url, tracer_provider=spans.provider)
    for name in ("async", "plain"):
        client.job(name)(lambda: None)
    await client.open()
    with subprocess.Popen([sys.executable, str(NODE), url, str(file)]) as node:
        try:
            with spans.tracer.start_as_current_span("request") as request:
                made = [await client.enqueue(name) for name in ("async", "plain")]
            done = [await ended(client, each, timeout=60) for each in made]
        finally:
            node.terminate()
            await client.close()
    assert node.returncode == 0
    trace_id = request.get_span_context().trace_id
    assert [each.trace_id for each in done] == [f"{trace_id:032x}"] * 2
    there = [json.loads(line) for line in file.read_text().splitlines()]
    consumers = [span for span in there if span["kind"] == "CONSUMER"]
    assert {span["trace"] for span in there} == {trace_id}
    assert sorted(link for span in consumers for link in span["links"]) == sorted(spans.producers)
    assert sorted(span["parent"] for span in there if span["name"] == "own") == sorted(span["id"] for span in consumers)


@pytest.mark.req("OBS-2", "OBS-3")
async def test_what_is_enqueued_in_the_callers_transaction_is_traced_too() -> None:
    """Through a connection that blocks, and through one that must be awaited."""
    url, spans = postgres().new_database(), Spans()
    app = Mainspring(url, tracer_provider=spans.provider)

    @app.job("fine")
    async def fine(ctx: JobContext) -> None:
        with spans.tracer.start_as_current_span("own"):
            pass

    await app.open()
    async with await psycopg.AsyncConnection.connect(url) as connection:
        with spans.tracer.start_as_current_span("request", context=Context()) as awaited:
            made = [await app.enqueue("fine", connection=connection)]
    with spans.tracer.start_as_current_span("request", context=Context()) as blocking:
        made.append(await asyncio.to_thread(in_a_transaction, app, url))
    async with app:
        done = [await ended(app, each) for each in made]
    await asyncio.to_thread(app.sync.close)
    traces = [f"{span.get_span_context().trace_id:032x}" for span in (awaited, blocking)]
    assert [each.trace_id for each in made] == [each.trace_id for each in done] == traces
    assert check_linked(spans, done) == {"enqueue": 2}


def in_a_transaction(app: Mainspring, url: str) -> Execution:
    with psycopg.connect(url) as connection:
        made = app.sync.enqueue("fine", connection=connection)
    assert made is not None
    return made
