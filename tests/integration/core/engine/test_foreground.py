"""Runs in the foreground of this process: nothing is stored before they end, and nothing else is disturbed."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring import JobContext, Mainspring, State, every
from mainspring.core.engine.foreground import Foreground, ForegroundRun
from tests.support import Nodes

pytestmark = pytest.mark.req("DEV-2")


def shop(nodes: Nodes) -> Mainspring:
    app = nodes.app()

    @app.job("add", trigger=every(hours=1), overlap="skip", timeout="1ms", search=("a",))
    def add(ctx: JobContext, a: int = 0, b: int = 2) -> int:
        ctx.progress(1, 2, "half way")
        ctx.logger.info("adding")
        ctx.count(sums=1)
        if a < 0:
            raise ValueError("too little")
        return a + b

    @app.job("next", after="add")
    def follow(ctx: JobContext) -> None: ...

    return app


async def prepared(app: Mainspring, seen: list[Any], **params: int) -> tuple[Foreground, ForegroundRun]:
    foreground = await app._runtime.foreground()
    job = await (await app._runtime.engine()).job_cache.read("add")
    how: dict[str, Any] = {"window": None, "tenant": None, "by": "ada"}
    return foreground, foreground.prepare(job, params, on_progress=lambda *each: seen.append(each), **how)


async def test_a_run_is_recorded_once_it_has_ended(nodes: Nodes) -> None:
    app, seen = shop(nodes), list[Any]()
    await app.open()
    before = await app.job_view("add")
    foreground, run = await prepared(app, seen, a=40)
    foreground.begin(run)
    run.run()
    assert (run.value, seen) == (42, [(1, 2, "half way")])
    assert await app.executions() == []  # a process that died now would leave nothing

    await foreground.record(foreground.end(run))
    [found] = await app.executions(search="a=40")
    assert (found.state, found.result, found.trigger, found.triggered_by) == (State.COMPLETED, 42, "manual", "ada")
    assert (found.counters, [entry.message for _, entry in await app.logs(found)]) == ({"sums": 1}, ["adding"])
    assert (await app.job_view("add")).next_run_at == before.next_run_at
    await app.close()


async def test_a_failure_is_final_and_no_other_job_follows(nodes: Nodes) -> None:
    app = shop(nodes)
    await app.start()
    for a in (-1, 1):
        foreground, run = await prepared(app, [], a=a)
        foreground.begin(run)
        run.run()
        await foreground.record(foreground.end(run))
    done, failed = await app.executions()
    assert (done.state, failed.state, failed.error) == (State.COMPLETED, State.FAILED, "ValueError: too little")
    assert await app.executions(status="pending") == []
    assert await app.executions("next") == []
    await app.close()


async def test_an_interrupt_is_recorded_as_cancelled(memory_nodes: Nodes) -> None:
    app = shop(memory_nodes)
    await app.open()
    foreground, run = await prepared(app, [], a=1)
    foreground.begin(run)

    def interrupted() -> None:
        raise KeyboardInterrupt

    run.call = interrupted
    run.run()
    await foreground.record(foreground.end(run))
    [found] = await app.executions()
    assert (found.state, found.reason, run.interrupted) == (State.CANCELLED, "interrupted by its user", True)
    await app.close()
