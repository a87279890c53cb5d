"""Nothing that a handler raises or returns sticks: every attempt ends, is recorded, and gives its slot back."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mainspring import JobContext
from mainspring.core.engine import runner
from mainspring.model.events import Trouble
from tests.support import Nodes, Seen, run_once

from .odd_endings import RAISED, RETURNED

CASES = [(f"raised: {name}", case, "failed") for name, case in RAISED.items()]
CASES += [(f"returned: {name}", case, "completed") for name, case in RETURNED.items()]


class Nosy:
    """An observer that looks at everything, and then raises what nobody expects."""

    def __init__(self) -> None:
        self.kinds = [asyncio.CancelledError, SystemExit, GeneratorExit, RecursionError, MemoryError, BaseException]

    def __call__(self, event: Any) -> None:
        repr(event), str(getattr(event, "error", None)).encode()
        kind = self.kinds.pop(0)
        self.kinds.append(kind)
        raise kind("an observer's own")


@pytest.mark.req("EXE-8", "OBS-7")
@pytest.mark.parametrize(("case", "state"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
@pytest.mark.filterwarnings("ignore")
async def test_every_ending_is_recorded_and_gives_its_slot_back(memory_nodes: Nodes, case: Any, state: str) -> None:
    seen, spans, text = Seen(), InMemorySpanExporter(), io.StringIO()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    logger = logging.getLogger("odd-endings")
    logger.handlers, logger.propagate = [logging.StreamHandler(text)], False
    app = memory_nodes.app(concurrency=1, observers=[Nosy(), seen], tracer_provider=provider, logger=logger)

    @app.job("async", max_attempts=1)
    async def on_loop() -> Any:
        await asyncio.sleep(0)
        return case()

    app.job("thread", max_attempts=1)(lambda: case())
    app.job("fine")(lambda: "still here")

    async with app:
        for style in ("async", "thread"):
            done = await run_once(app, style)
            assert (done.state, [each.end for each in done.attempts]) == (state, [state]), done.error
            if state == "failed":
                assert done.reason == "error"
                assert done.error
                assert len(done.error) <= 4_096
                assert done.attempts[0].traceback
                assert ".py" in done.attempts[0].traceback, "where it was raised"
            assert (await run_once(app, "fine")).result == "still here"
        assert [(each.job, each.state) for each in await app.executions(running=True)] == []
    assert seen.of(Trouble) == []
    assert len(spans.get_finished_spans()) >= 8
    assert text.getvalue().count("job_failed") == (2 if state == "failed" else 0)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set at the end of the test, for what would hang for ever."""
    monkeypatch.setattr(runner, "DESCRIBING", 0.05)
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.req("EXE-8")
@pytest.mark.parametrize("how", ["raised", "returned", "metadata"])
async def test_what_never_describes_itself_gives_its_slot_back(
    memory_nodes: Nodes, never: threading.Event, how: str
) -> None:
    class Hangs(Exception):
        def __str__(self) -> str:
            never.wait(60)
            return "at last"

        __repr__ = __str__

    def end(ctx: JobContext) -> Any:
        if how == "raised":
            raise Hangs
        if how == "metadata":
            ctx.metadata["it"] = Hangs()
        return Hangs() if how == "returned" else 1

    app = memory_nodes.app(concurrency=1)
    app.job("thread", max_attempts=1)(end)

    @app.job("async", max_attempts=1)
    async def on_loop(ctx: JobContext) -> Any:
        return end(ctx)

    app.job("fine")(lambda: "still here")
    async with app:
        for style in ("async", "thread"):
            done = await run_once(app, style)
            assert done.state == ("failed" if how == "raised" else "completed")
            words = "Hangs could not be described: that took more than 0.05 s"
            assert done.error == (words if how == "raised" else None)
            assert done.result == {"raised": None, "returned": f"<{words}>"}.get(how, done.result)
            assert (await run_once(app, "fine")).result == "still here"
