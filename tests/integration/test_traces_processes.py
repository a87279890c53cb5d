"""One trace over two processes and a database server between them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring import Mainspring
from tests.integration.tracing_support import Spans
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
