"""Handlers in child processes: what becomes of each, and that neither the worker nor its neighbours notice."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from mainspring import Execution, Mainspring, State
from mainspring.model.errors import ConfigurationError
from mainspring.processes import pool as pool_module
from tests.integration.processes.handlers import build
from tests.support import DEADLINE, until

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="reads /proc")


@asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[Mainspring]:
    app = build(**settings)
    await app.start()
    try:
        yield app
    finally:
        await app.close()


class Cell:
    """One execution, and the file in which its handler leaves something."""

    def __init__(self, app: Mainspring, folder: Path, job: str) -> None:
        self._app, self.job, self.file = app, job, folder / job
        self.id = ""

    async def start(self) -> Cell:
        execution = await self._app.enqueue(self.job, {"file": str(self.file)})
        assert execution is not None
        self.id = execution.id
        return self

    async def begun(self) -> int:
        """Its process id."""
        return int(await until(lambda: self.file.exists() and self.file.read_text(), self.job))

    async def ended(self) -> Execution:
        return await self._app.wait(self.id, timeout=DEADLINE)


def node_of(app: Mainspring) -> Any:
    assert app._runtime.parts is not None
    return app._runtime.parts.node


def pool_of(app: Mainspring) -> Any:
    return node_of(app)._runner.processes


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


SAME_EVERYWHERE: dict[str, tuple[State, str | None, str | None]] = {
    "returns": (State.COMPLETED, None, None),
    "raises": (State.FAILED, "error", "ValueError: no such order"),
    "leaves": (State.FAILED, "error", "SystemExit: 3"),
    "asks_for_too_much": (State.FAILED, "error", "MemoryError"),
    "starts_children": (State.COMPLETED, None, None),
    "blocks_for_a_moment": (State.COMPLETED, None, None),
}
ONLY_IN_PROCESSES: dict[str, tuple[State, str | None, str | None]] = {
    "process_exits": (State.FAILED, "exit_code", "exit code 3"),
    "process_crashes": (State.FAILED, "signal", "SIGSEGV ended the process"),
    "process_forks_and_grows": (State.FAILED, "out_of_memory", "its max_memory is 100MB"),
    "process_computes": (State.FAILED, "cpu_limit", "max_cpu of 300ms"),
    "process_writes_to_the_channel": (State.FAILED, "broken_channel", "written to the channel"),
    "process_closes_everything": (State.FAILED, "broken_channel", "closed the channel"),
    "hard_limit": (State.FAILED, "out_of_memory", "MemoryError"),
    "timed_checks": (State.FAILED, "timeout", "timed out after 0.3 s"),
    "timed_ignores": (State.FAILED, "timeout", "timed out after 0.3 s"),
    "timed_blocks": (State.FAILED, "timeout", "timed out after 0.3 s; its process did not stop in time and was killed"),
    "timed_sleeps_with_the_lock": (State.FAILED, "timeout", "timed out after 0.3 s"),
    "timed_awaits": (State.FAILED, "timeout", "timed out after 0.3 s"),
    "timed_never_yields": (State.FAILED, "timeout", "timed out after 0.3 s"),
    "timed_thread": (State.FAILED, "timeout", "timed out after 0.2 s"),
    "timed_async": (State.FAILED, "timeout", "timed out after 0.2 s"),
}
CANCELLED = (
    "async_awaits", "thread_checks", "process_checks", "process_ignores", "process_blocks", "process_awaits",
    "process_never_yields",
)  # fmt: skip


@pytest.mark.req("EXE-5", "EXE-8", "EXE-9", "EXE-10")
async def test_each_way_to_end_in_each_place(tmp_path: Path) -> None:
    """One worker runs them all, several at once; it and the neighbours are there at the end."""
    expected = dict(ONLY_IN_PROCESSES)
    for what, ending in SAME_EVERYWHERE.items():
        expected |= {f"{place}_{what}": ending for place in ("async", "thread", "process")}
    async with running(concurrency=3) as app:
        cells = [await Cell(app, tmp_path, job).start() for job in (*expected, *CANCELLED)]
        await asyncio.gather(*(_cancel(app, cell) for cell in cells if cell.job in CANCELLED))
        for cell in cells:
            ended = await cell.ended()
            if cell.job in ("async_starts_children", "thread_starts_children"):
                _end_children(ended.result["children"])
            _check_ending(ended, *expected.get(cell.job, (State.CANCELLED, "not needed", None)))
            if cell.job == "process_crashes":
                lines = [line.message for _, line in await app.logs(ended)]
                assert lines == ["it will not end well", "one last word"], "what it said right before is kept"
        for job in ("process_ignores", "process_blocks", "process_never_yields"):
            pid = int((tmp_path / job).read_text())
            await until(lambda pid=pid: is_gone(pid), f"{job}: an interrupted child is replaced")
        assert (await (await Cell(app, tmp_path, "process_returns").start()).ended()).state is State.COMPLETED


async def _cancel(app: Mainspring, cell: Cell) -> None:
    """Once it runs: they begin in any order, a few at once."""
    await cell.begun()
    if cell.job == "process_checks":
        await until(partial(_progress, app, cell.id), "progress while it runs")
    await app.cancel(cell.id, reason="not needed")


async def _progress(app: Mainspring, id: str) -> bool:
    return ((await app.get(id)).progress or {}).get("total") == 2


def _end_children(pids: list[int]) -> None:
    """Of this process: nobody else ends them."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _check_ending(ended: Execution, state: State, reason: str | None, error: str | None) -> None:
    job, (attempt,) = ended.job, ended.attempts
    assert (ended.state, ended.reason) == (state, reason), (job, ended.error)
    assert (error or "") in (ended.error or ""), (job, ended.error)
    if job == "process_crashes":
        assert "handlers.py" in (attempt.traceback or ""), "where it was when the signal came"
        assert "child.py" not in (attempt.traceback or "")
    if job in ("async_raises", "thread_raises", "process_raises"):
        assert "handlers.py" in (attempt.traceback or "").splitlines()[1], "the frames of the engine are not shown"
    own = reason if state is State.FAILED and reason not in ("error", "timeout") else None
    assert attempt.reason == own, job
    assert (attempt.cpu_ms is None) == ("async" in job), job
    assert attempt.memory_mb is None or "async" not in job, job
    assert attempt.memory_mb is None or "thread" not in job, job


@pytest.mark.req("EXE-5", "EXE-10")
async def test_memory_and_cpu_are_measured_and_limited(tmp_path: Path) -> None:
    async with running(concurrency=1) as app:
        first = await (await Cell(app, tmp_path, "process_returns").start()).ended()
        ended = await (await Cell(app, tmp_path, "process_uses_memory").start()).ended()
        after = await (await Cell(app, tmp_path, "process_returns").start()).ended()
        growing = await Cell(app, tmp_path, "process_grows").start()
        _check_growth(await growing.ended(), growing.file)
    (attempt,), (small,) = ended.attempts, after.attempts
    assert attempt.cpu_ms is not None
    assert attempt.memory_mb is not None
    assert small.memory_mb is not None
    own, before = ended.result["own"], ended.result["before"]
    assert 100 <= own <= attempt.cpu_ms + 1, "all that the handler used"
    assert attempt.cpu_ms < own + min(200, before), "and little else: not what its process used before"
    assert 60 < attempt.memory_mb < 200
    assert first.result == after.result, "one child ran all three"
    assert attempt.memory_mb - small.memory_mb > 40, "each attempt has a peak of its own"


def _check_growth(ended: Execution, file: Path) -> None:
    """A child that grows by 50 MB a second is stopped within half a second of passing its limit of 70 MB."""
    assert (ended.state, ended.reason) == (State.FAILED, "out_of_memory")
    assert "its max_memory is 70MB" in (ended.error or "")
    (attempt,) = ended.attempts
    assert attempt.memory_mb is not None
    assert attempt.memory_mb > 70
    lines = [line.split() for line in file.read_text().splitlines() if line.count(" ") == 1]
    grown = [(float(at), int(held)) for at, held in lines]
    passed = next((at for at, held in grown if held > 70_000_000), grown[-1][0])
    pauses = max(later[0] - earlier[0] for earlier, later in pairwise(grown))
    assert grown[-1][0] - passed < 0.5 + pauses, "less than half a second, as far as the machine let it run"


@pytest.mark.req("EXE-9", "EXE-11")
async def test_the_context_works_in_a_child(caplog: pytest.LogCaptureFixture) -> None:
    """Tenants, resources, setup hook, progress, counters, metadata, logs, traces."""
    tracers, spans = TracerProvider(), InMemorySpanExporter()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    with caplog.at_level(logging.INFO):
        async with running(concurrency=2, tracer_provider=tracers, tracing=True) as app:
            parent = await app.enqueue("tenants", {"file": ""})
            assert parent is not None
            assert (await app.wait(parent.id, timeout=DEADLINE)).state is State.COMPLETED
            runs = [await app.get(run.execution_id) for run in await app.tenants.runs(parent)]
            for run in runs:
                _check_context(run, [line for _, line in await app.logs(run.id)], pool_of(app).pids)
    consumed = [span for span in spans.get_finished_spans() if span.kind is SpanKind.CONSUMER]
    attempts = {(span.attributes or {})["messaging.message.id"]: span for span in consumed}
    for run in runs:
        worker = attempts[run.id].get_span_context()
        assert worker is not None
        assert run.result["span"] == f"{worker.trace_id:032x}-{worker.span_id:016x}", "the handler is inside it"
    records = [record for record in caplog.records if record.name == "shop.orders"]
    assert [record.getMessage() for record in records] == ["logged 1", "logged 1"], "the worker's handlers get them"
    assert {record.execution_id for record in records} == {run.id for run in runs}  # type: ignore[attr-defined]
    assert {record.order for record in records} == {7}  # type: ignore[attr-defined]


def _check_context(run: Execution, log: list[Any], children: list[int]) -> None:
    result = run.result
    assert result["pid"] in children
    assert result["made_in"] == result["pid"]
    assert (result["schema"], result["tenant"]) == (f"schema_of_{run.tenant}", run.tenant)
    assert (result["resource"], result["user"], result["attempt"]) == ("hello", "robot", 1)
    assert run.counters["orders"] == 2
    assert run.metadata == {"seen": True}
    assert run.search_keys == {"order_id": ["4711"]}
    assert {(line.logger, line.level, line.message.partition(" (")[0]) for line in log} == {
        ("stdout", "INFO", "printed"),
        ("stderr", "WARNING", "to stderr"),
        ("shop.orders", "WARNING", "logged 1"),
        ("py.warnings", "WARNING", f"UserWarning: warned {run.tenant}"),
        ("mainspring.job", "INFO", "through the context"),
    }
    assert len(log) == 5


@pytest.mark.req("EXE-9")
async def test_children_are_kept_warm_recycled_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(concurrency=2, isolation_recycle_executions=3) as app:
        pool, pids = pool_of(app), []
        assert len(pool.pids) == 1, "one child is there from the start"
        for _ in range(4):
            ended = await (await Cell(app, tmp_path, "process_returns").start()).ended()
            pids.append(ended.result["pid"])
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 1]
        (idle,) = pool.pids
        os.kill(idle, signal.SIGKILL)
        await until(lambda: pool.pids and idle not in pool.pids, "a new child in place of one that was killed")
        children = (await (await Cell(app, tmp_path, "process_starts_children").start()).ended()).result["children"]
        assert not any(map(is_gone, children))
        stopped = await Cell(app, tmp_path, "timed_ignores").start()
        pid = await stopped.begun()
        with suppress(ProcessLookupError):  # on a machine so busy that its time is up already
            os.kill(pid, signal.SIGSTOP)
        assert (await stopped.ended()).reason == "timeout", "a stopped process can be killed all the same"
        monkeypatch.setattr(pool_module, "IDLE_FOR", 0.0)
        pool._sweep()
        assert len(pool.pids) == 1, "one child is kept, those that are not needed end"
        left = [*pool.pids, *(member.pid for member in pool._leaving)]
    assert all(map(is_gone, [*left, *children])), "what a handler has started ends with its child"


@pytest.mark.req("EXE-9")
async def test_a_handler_leaves_nothing_to_the_next_one(tmp_path: Path) -> None:
    """Neither the working folder, nor what signals do, nor the stack of another handler."""
    async with running(concurrency=1) as app:
        others = await (await Cell(app, tmp_path, "signals_others").start()).ended()
        assert others.result == {"forked": signal.SIGTERM, "started": -signal.SIGINT, "pid": others.result["pid"]}
        later = ("meddles", "ignores_its_children", "process_returns")
        ended = [await (await Cell(app, tmp_path, job).start()).ended() for job in later]
        pids = [execution.result["pid"] for execution in (others, *ended)]
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [2, 1, 1], "those that meddled were replaced"
        await (await Cell(app, tmp_path, "signals_others").start()).ended()
        (attempt,) = (await (await Cell(app, tmp_path, "process_exits").start()).ended()).attempts
        assert not attempt.traceback


@pytest.mark.req("EXE-9")
async def test_a_stop_ends_the_children_before_executions_are_handed_back(tmp_path: Path) -> None:
    async with running(concurrency=2, stop_timeout=0.5, stop_reserve=0.2) as app:
        busy = [await Cell(app, tmp_path, job).start() for job in ("process_blocks", "process_ignores")]
        pids = [await cell.begun() for cell in busy]
        await app.stop()
        assert all(map(is_gone, pids))
        for cell in busy:
            handed_back = await app.get(cell.id)
            assert (handed_back.state, handed_back.attempts[0].end) == (State.PENDING, "handed_back")


async def test_an_application_that_a_child_cannot_import_does_not_start() -> None:
    app = build(import_path="tests.integration.processes.broken:app")
    with pytest.raises(ConfigurationError) as refused:
        await app.start()
    await app.close()
    assert "tests.integration.processes.broken:app" in str(refused.value)
    assert "RuntimeError: no such database" in str(refused.value)


async def test_a_setup_hook_that_fails_in_a_child_only() -> None:
    app = build(import_path="tests.integration.processes.handlers:build_unprepared")
    with pytest.raises(ConfigurationError) as refused:
        await app.start()
    await app.close()
    assert "cannot run the setup hooks of the application" in str(refused.value)
    assert "LookupError: no licence" in str(refused.value)


async def test_nothing_is_started_for_an_application_without_isolated_jobs() -> None:
    app = Mainspring("memory://", stop_timeout=1)
    app.job("plain")(lambda: None)
    await app.start()
    try:
        execution = await app.enqueue("plain")
        assert execution is not None
        await app.wait(execution.id, timeout=DEADLINE)
        assert node_of(app)._runner._processes is None
    finally:
        await app.close()


async def test_an_application_that_cannot_have_children_fails_the_attempt_with_the_remedy() -> None:
    """An operator may isolate a job of an application that has no name."""
    app = Mainspring("memory://", stop_timeout=1)
    app.job("plain", max_attempts=1)(lambda: None)
    await app.start()
    try:
        await app.update_job("plain", isolation="process")
        execution = await app.enqueue("plain")
        assert execution is not None
        error = (await app.wait(execution.id, timeout=DEADLINE)).error or ""
        assert "isolation: 'process' is not valid" in error
        assert "Make it at the top level of a module" in error
    finally:
        await app.close()
