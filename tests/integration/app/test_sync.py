"""The blocking facade: Flask, Django, scripts, threads, forked web workers."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mainspring import JobContext, Mainspring
from tests.support import DEADLINE, Nodes, ended, own_threads, until, until_blocking


def greeter(nodes: Nodes, **options: Any) -> Mainspring:
    app = nodes.app(**options)

    @app.job("greet")
    def greet(ctx: JobContext, name: str) -> str:
        return f"hello {name}"

    return app


@pytest.mark.req("ENQ-1", "OPS-1")
def test_a_script_without_an_event_loop(nodes: Nodes) -> None:
    app = greeter(nodes)
    with app.sync as sync:
        execution = sync.enqueue("greet", {"name": "ada"}, unique="k")
        assert execution is not None
        assert sync.wait(execution, timeout=DEADLINE).result == "hello ada"
        run = sync.trigger("greet", {"name": "bob"}, by="carol")
        assert sync.wait(run, timeout=DEADLINE).triggered_by == "carol"
        assert [each.id for each in sync.executions(job="greet")] == [run.id, execution.id]
        assert [view.name for view in sync.jobs()] == ["greet"]
        assert sync.job_view("greet").stats.completed == 2
        assert sync.update_job("greet", queue="slow").queue == "slow"
        assert sync.revert_job("greet").queue == "default"
        assert len(sync.workers()) == 1
        assert sync.logs(run.id) == []
        assert [audit.action for audit in sync.audits()] == ["revert", "update", "trigger"]
        with sync.lock("import", ttl=5) as lock:
            assert [row.token for row in sync.locks.all()] == [lock.token]
            assert sync.locks.release("import", by="admin") is True
        assert sync.try_lock("window", ttl=60) is True
        assert sync.unlock("window") is True
        sync.enqueue("greet", {"name": "later"}, start_at="2100-01-01T00:00:00Z")
        cancelled = sync.cancel("greet")
        assert cancelled.state == "cancelled"
        assert sync.reactivate("greet").state == "pending"
        sync.remove_job("greet")
        assert sync.jobs() == []
    until_blocking(lambda: own_threads() == [])


@pytest.mark.req("OPS-1")
async def test_inside_an_event_loop_it_says_what_to_do_instead(nodes: Nodes) -> None:
    app = greeter(nodes)
    calls: list[Callable[[], Any]] = [
        lambda: app.sync.enqueue("greet", {"name": "x"}),
        lambda: app.sync.jobs(),
        lambda: app.sync.start(),
        lambda: app.sync.lock("x").__enter__(),
        lambda: app.sync.track("x").__enter__(),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="await the method of app itself instead"):
            call()
    await app.close()


@pytest.mark.req("ENQ-1")
async def test_a_blocking_handler_may_use_the_facade_of_its_own_application(nodes: Nodes) -> None:
    app = greeter(nodes)

    @app.job("parent")
    def parent() -> Any:
        child = app.sync.enqueue("greet", {"name": "child"})
        assert child is not None
        return app.sync.wait(child, timeout=DEADLINE).result

    async with app:
        execution = await app.enqueue(parent)
        assert (await ended(app, execution)).result == "hello child"
        await asyncio.to_thread(app.sync.enqueue, "greet", {"name": "from a thread"})
    await asyncio.to_thread(app.sync.close)
    await until(lambda: own_threads("mainspring-sync") == [])


@pytest.mark.req("ENQ-1")
def test_many_threads_share_one_facade(nodes: Nodes) -> None:
    app = greeter(nodes)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: app.sync.enqueue("greet", {"name": str(n)}), range(200)))
    assert len({each.id for each in made if each}) == 200
    assert len(own_threads("mainspring-sync")) == 1
    assert app.sync.job_view("greet").live.pending == 200
    app.sync.close()


@pytest.mark.req("OPS-1")
def test_it_can_be_closed_and_used_again(sqlite_nodes: Nodes) -> None:
    app = greeter(sqlite_nodes)
    first = app.sync.enqueue("greet", {"name": "a"})
    app.sync.close()
    app.sync.close()
    until_blocking(lambda: own_threads() == [])
    assert first is not None
    assert app.sync.get(first.id).state == "pending"
    app.sync.close()


@pytest.mark.req("OPS-1", "ENQ-1")
def test_enqueue_first_run_afterwards(sqlite_nodes: Nodes) -> None:
    """As in the README: the facade first, then roles on another event loop."""
    app = greeter(sqlite_nodes)
    execution = app.sync.enqueue("greet", {"name": "early"})

    async def serve() -> None:
        async with app:
            assert (await ended(app, execution)).result == "hello early"
            late = await asyncio.to_thread(app.sync.enqueue, "greet", {"name": "late"})
            assert (await ended(app, late)).result == "hello late"

    asyncio.run(serve())
    app.sync.close()


@pytest.mark.req("EXE-8")
def test_a_system_exit_in_a_task_of_a_handler_does_not_end_the_background_loop(nodes: Nodes) -> None:
    app = greeter(nodes)

    @app.job("nested", max_attempts=1)
    async def nested() -> None:
        async def inner() -> None:
            raise SystemExit(3)

        await asyncio.gather(inner())

    with app.sync as sync:
        bad = sync.enqueue("nested")
        assert bad is not None
        failed = sync.wait(bad, timeout=DEADLINE)
        assert (failed.state, failed.error) == ("failed", "SystemExit: 3")
        good = sync.enqueue("greet", {"name": "ada"})
        assert good is not None
        assert sync.wait(good, timeout=DEADLINE).state == "completed"


SCRIPT = """
import asyncio, os, signal
from mainspring import Mainspring

app = Mainspring("sqlite:///jobs.db")

@app.job("nested", max_attempts=1)
async def nested():
    async def inner():
        raise KIND
    async with asyncio.TaskGroup() as group:
        group.create_task(inner())

@app.job("after")
def after():
    os.kill(os.getpid(), signal.SIGTERM)

first = app.sync.enqueue(nested)
second = app.sync.enqueue(after)
app.run(concurrency=1)
print(app.sync.get(first.id).state, app.sync.get(first.id).error)
print(app.sync.get(second.id).state)
"""


@pytest.mark.req("EXE-8", "WRK-5")
@pytest.mark.parametrize("kind", ["SystemExit(3)", "KeyboardInterrupt()"])
def test_a_system_exit_in_a_task_of_a_handler_does_not_end_the_process(tmp_path: Path, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("KIND", kind)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[0].startswith("failed ")
    assert kind.partition("(")[0] in lines[0] or "TaskGroup" in lines[0]
    assert lines[1] == "completed"


# --- fork: gunicorn --preload --------------------------------------------------------------------------------


def in_child(work: Callable[[], str]) -> str:
    """What `work` returns, or the error it raises, in a forked child."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def run() -> None:
        try:
            send.send(work())
        except BaseException as error:
            send.send(f"{type(error).__name__}: {error}")

    child = context.Process(target=run)
    child.start()
    send.close()
    try:
        assert receive.poll(DEADLINE), "the child hangs"
        return str(receive.recv())
    finally:
        child.join(DEADLINE)
        if child.is_alive():
            child.kill()
            child.join()


@pytest.mark.req("ENQ-1", "OPS-1")
def test_the_parent_used_the_facade_before_the_fork(sqlite_nodes: Nodes) -> None:
    app = greeter(sqlite_nodes)
    mine = app.sync.enqueue("greet", {"name": "parent"})
    assert mine is not None

    def work() -> str:
        execution = app.sync.enqueue("greet", {"name": "child"})
        assert execution is not None
        assert len(app.sync.executions()) >= 2
        app.sync.close()
        return execution.id

    ids = {in_child(work) for _ in range(3)}
    assert len(ids) == 3
    assert {each.id for each in app.sync.executions()} == ids | {mine.id}
    with app.sync as sync:
        for id in ids:
            assert sync.wait(id, timeout=DEADLINE).result == "hello child"


@pytest.mark.req("ENQ-1", "OPS-1")
def test_the_parent_runs_roles_while_it_forks(sqlite_nodes: Nodes) -> None:
    """The child must not believe that it runs a scheduler and a worker, and must be able to start its own."""
    app = greeter(sqlite_nodes)

    @app.job("where")
    def where() -> int:
        return os.getpid()

    with app.sync as sync:

        def client() -> str:
            with app.sync.track("inline") as ctx:
                pass
            assert app.sync.get(ctx.execution_id).state == "completed"
            execution = app.sync.enqueue("greet", {"name": "child"})
            assert execution is not None
            app.sync.close()
            return execution.id

        def worker() -> str:
            app.sync.start(queues=["child"])
            app.sync.enqueue("where", queue="child")
            execution = app.sync.enqueue("where", queue="child")
            assert execution is not None
            result = app.sync.wait(execution, timeout=DEADLINE / 2).result
            assert result == os.getpid(), result
            app.sync.close()
            return "started its own"

        assert sync.wait(in_child(client), timeout=DEADLINE).result == "hello child"
        sync.stop()
        sync.start(queues=["default"])
        assert in_child(worker) == "started its own"
        mine = sync.enqueue("where")
        assert mine is not None
        assert sync.wait(mine, timeout=DEADLINE).result == os.getpid()


@pytest.mark.req("OPS-1")
def test_an_application_that_was_never_used_forks_without_ado(nodes: Nodes) -> None:
    app = greeter(nodes)
    _ = app.sync

    def work() -> str:
        with app.sync as sync:
            execution = sync.enqueue("greet", {"name": "child"})
            assert execution is not None
            return str(sync.wait(execution, timeout=DEADLINE / 2).result)

    assert in_child(work) == "hello child"


@pytest.mark.req("WRK-5")
def test_blocking_stop_hands_back_what_runs(sqlite_nodes: Nodes) -> None:
    app = greeter(sqlite_nodes)
    running = threading.Event()

    @app.job("long")
    def long(ctx: JobContext) -> None:
        running.set()
        while True:
            ctx.check()
            time.sleep(0.002)

    app.sync.start(stop_timeout=1)
    execution = app.sync.enqueue("long")
    assert execution is not None
    until_blocking(running.is_set)
    app.sync.stop()
    row = app.sync.get(execution.id)
    assert (row.state, row.failures, [each.end for each in row.attempts]) == ("pending", 0, ["handed_back"])
    app.sync.close()


async def test_until_fails_loudly() -> None:
    with pytest.raises(AssertionError, match="never became true: the moon is full"):
        await until(lambda: False, "the moon is full", deadline=0.02)
