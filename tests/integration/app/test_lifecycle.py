"""Starting and stopping with the host application, switches, and observers that fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mainspring import InvalidValue, JobContext, Mainspring, StoreError, every
from mainspring.app.adapters import SystemClock
from mainspring.model.events import AttemptEnded, Running, Trouble
from mainspring.stores.memory import MemoryStore
from mainspring.stores.sqlite import SqliteStore
from tests.integration.gate import Gate
from tests.support import Nodes, Seen, ended, own_threads, run_once, until, until_blocking

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


class Host:
    """A web framework as far as its life is concerned: FastAPI(lifespan=...), served by an ASGI server."""

    def __init__(self, lifespan: Lifespan) -> None:
        self._lifespan = lifespan
        self.sent: list[str] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        await receive()
        try:
            async with self._lifespan(self):
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.shutdown.complete"})


@asynccontextmanager
async def served(host: Host) -> AsyncIterator[list[dict[str, Any]]]:
    """The server's part: start up, serve, shut down."""
    to_host: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    sent: list[dict[str, Any]] = []
    started = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)
        started.set()

    task = asyncio.create_task(host({"type": "lifespan"}, to_host.get, send))
    to_host.put_nowait({"type": "lifespan.startup"})
    await started.wait()
    yield sent
    to_host.put_nowait({"type": "lifespan.shutdown"})
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.req("OPS-1")
async def test_it_lives_as_long_as_its_host(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("greet")(lambda: "hello")
    async with served(Host(app.lifespan)) as sent:
        assert (await run_once(app, "greet")).result == "hello"
        assert len(await app.workers()) == 1
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    async with nodes.client() as look:
        assert await look.workers() == []


@pytest.mark.req("OPS-1", "REG-7")
async def test_a_host_whose_jobs_are_wrong_does_not_start(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("report", cron="${reports.cron}")(lambda: None)
    async with served(Host(app.lifespan)) as sent:
        assert sent[0]["type"] == "lifespan.startup.failed"
        assert "reports.cron" in sent[0]["message"]
    await until(lambda: own_threads() == [])


@pytest.mark.req("OPS-1")
async def test_an_application_without_jobs_starts_nothing_and_opens_no_file(sqlite_nodes: Nodes) -> None:
    seen = Seen()
    app = sqlite_nodes.app(observers=[seen])
    tasks = asyncio.all_tasks()
    async with app:
        assert asyncio.all_tasks() == tasks
        assert own_threads() == []
        assert not sqlite_nodes.file.exists()
    assert seen.events == []
    assert list(sqlite_nodes.folder.iterdir()) == []


@pytest.mark.req("OPS-1")
def test_nor_does_it_in_blocking_code(sqlite_nodes: Nodes) -> None:
    with sqlite_nodes.app().sync:
        assert not sqlite_nodes.file.exists()
    until_blocking(lambda: own_threads() == [])


@pytest.mark.req("OPS-1")
@pytest.mark.parametrize("how", ["argument", "environment", "file"])
async def test_it_can_be_switched_off(
    sqlite_nodes: Nodes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    options: dict[str, Any] = {}
    if how == "argument":
        options = {"enabled": False}
    elif how == "environment":
        monkeypatch.setenv("MAINSPRING_ENABLED", "no")
    else:
        (tmp_path / "off.toml").write_text("enabled = false\n")
        options = {"config_file": str(tmp_path / "off.toml")}
    app = sqlite_nodes.app(**options)
    app.job("greet", trigger=every(seconds=1))(lambda: None)
    async with app:
        assert own_threads() == []
        assert not sqlite_nodes.file.exists()
        waiting = await app.enqueue("greet")  # a client it still is
        assert waiting is not None
        assert (await app.get(waiting.id)).state == "pending"
        assert await app.workers() == []


@pytest.mark.req("OPS-1", "OPS-2")
async def test_roles_and_settings_from_the_environment(memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_ROLES", "worker")
    monkeypatch.setenv("MAINSPRING_QUEUES", "a,b")
    monkeypatch.setenv("MAINSPRING_CONCURRENCY", "7")
    monkeypatch.setenv("MAINSPRING_LEASE", "90s")
    seen = Seen()
    app = memory_nodes.app(observers=[seen])
    app.job("greet")(lambda: None)
    await app.start(concurrency=3)  # an argument is stronger
    [worker] = await app.workers()
    assert (worker.roles, worker.queues, worker.concurrency) == (("worker",), ("a", "b"), 3)
    [running] = seen.of(Running)
    assert (running.settings["lease"], running.settings["heartbeat"]) == (90.0, 30.0)
    await app.close()


@pytest.mark.req("OPS-3", "OPS-1")
async def test_starting_and_stopping_under_load_disturbs_nothing(nodes: Nodes) -> None:
    """Ticks, endings and beats that come while it stops find the store open."""
    seen = Seen()
    app = nodes.app(observers=[seen], heartbeat=0.01, rescue_interval=0.01, fold_interval=0.01, poll_interval=0.01)

    @app.job("busy")
    async def busy() -> None:
        await asyncio.sleep(0)

    app.job("tick", trigger=every(seconds=1))(lambda: None)
    for _ in range(5):
        async with app:
            enough = len(seen.of(AttemptEnded)) + 4
            await app.enqueue_many([(busy, None)] * 30)
            await until(lambda enough=enough: len(seen.of(AttemptEnded)) >= enough, "some of them ended")
    async with app:
        await until(lambda: _idle(app, "busy"))
        assert (await app.job_view("busy")).stats.completed == 150
        assert (await app.job_view("busy")).stats.failed == 0
    assert seen.of(Trouble) == []
    await until(lambda: own_threads() == [])


async def _idle(app: Mainspring, name: str) -> bool:
    return (await app.job_view(name)).live.total == 0


@pytest.mark.req("OPS-1")
async def test_an_error_inside_the_host_still_stops_it(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("greet")(lambda: None)
    with pytest.raises(ZeroDivisionError):
        async with app:
            _ = 1 / 0
    await until(lambda: own_threads() == [])


@pytest.mark.req("OPS-7")
async def test_a_store_that_was_given_is_not_closed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "given.db", SystemClock())
    for _ in range(2):
        app = Mainspring(store)
        app.job("greet")(lambda: None)
        async with app:
            await run_once(app, "greet")
        assert len(await store.jobs()) == 1
    await store.close()


@pytest.mark.req("OPS-7")
async def test_a_path_is_a_database_too(tmp_path: Path) -> None:
    app = Mainspring(tmp_path / "my jobs.db")
    app.job("greet")(lambda: "hello")
    async with app:
        assert (await run_once(app, "greet")).result == "hello"
    assert (tmp_path / "my jobs.db").exists()


@pytest.mark.req("OPS-1")
async def test_a_store_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, and long enough to be read as one" * 20)
    for path, reason in (
        (tmp_path, "this is a directory"),
        (tmp_path / "missing" / "jobs.db", "does not exist; create it first"),
        (tmp_path / "text.db", "is not an SQLite database"),
    ):
        app = Mainspring(f"sqlite:///{path}")
        app.job("greet")(lambda: None)
        for use in (app.start, lambda app=app: app.enqueue("greet"), app.jobs):
            with pytest.raises(StoreError, match=reason):
                await use()  # type: ignore[operator]
        await app.close()
    await until(lambda: own_threads() == [])


@pytest.mark.req("OPS-1")
async def test_a_database_that_cannot_be_reached() -> None:
    app = Mainspring("mongodb://127.0.0.1:1/jobs?serverSelectionTimeoutMS=200", start_timeout=0)
    app.job("greet")(lambda: None)
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1/jobs.*check that the server runs and can be reached"):
        await app.start()
    await app.close()


# --- observers -----------------------------------------------------------------------------------------------


@dataclass
class Unhashable:
    """Equal by value, so without a hash; and it fails."""

    error: type[BaseException] = RuntimeError

    def __call__(self, event: Any) -> None:
        raise self.error("observer")

    def __repr__(self) -> str:
        raise RuntimeError("and it cannot even be named")


@pytest.mark.req("OBS-7")
async def test_observers_that_fail_stop_nothing(nodes: Nodes) -> None:
    calls: list[Any] = []

    def broken(event: Any) -> None:
        calls.append(event)
        raise ValueError("broken observer")

    seen = Seen()
    app = nodes.app(observers=[broken, Unhashable(), seen])
    app.observe(Unhashable(KeyError))
    app.job("greet", trigger=every(hours=1), overlap="skip")(lambda: "hello")
    async with app:
        for _ in range(3):
            assert (await ended(app, await app.trigger("greet"))).result == "hello"
        gate_free = await app.job_view("greet")
        assert gate_free.stats.completed == 3
    assert len(seen.of(AttemptEnded)) == 3
    assert len(calls) == len(seen.events)


@pytest.mark.req("OBS-7")
async def test_a_failing_observer_is_complained_of_once(memory_nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: Any) -> None:
        raise ValueError("broken observer")

    app = memory_nodes.app(observers=[broken])
    app.job("greet")(lambda: None)
    async with app:
        for _ in range(3):
            await run_once(app, "greet")
    complaints = [record for record in caplog.records if record.name == "mainspring.observe"]
    assert len(complaints) == 1
    assert "jobs go on without it" in complaints[0].getMessage()


class BrokenHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("the log disk is full")


@pytest.mark.req("OBS-7")
async def test_logging_that_fails_stops_no_job(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("chatty", max_attempts=1)
    def chatty(ctx: JobContext) -> str:
        ctx.logger.info("in the thread")
        ctx.logger.error("with a wrong format %d", "x")
        return "done"

    @app.job("chatty-async", max_attempts=1)
    async def chatty_async(ctx: JobContext) -> str:
        try:
            raise ValueError("inside")
        except ValueError:
            ctx.logger.exception("on the loop")
        return "done"

    handler = BrokenHandler()
    loggers = [logging.getLogger(name) for name in ("mainspring", "mainspring.job")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    try:
        async with app:
            for name in ("chatty", "chatty-async"):
                done = await run_once(app, name)
                assert (done.state, done.result) == ("completed", "done")
            [(_, line)] = await app.logs(done.id)
            assert "on the loop\nTraceback" in line.message
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)


# --- odd uses ------------------------------------------------------------------------------------------------


@pytest.mark.req("OPS-1")
async def test_several_tasks_may_open_it_at_once(sqlite_nodes: Nodes) -> None:
    app = sqlite_nodes.app()
    app.job("greet")(lambda: None)
    opening = [asyncio.create_task(app.enqueue("greet")) for _ in range(20)]
    await asyncio.sleep(0)
    opening[3].cancel()  # whoever gives up must not lock the others out
    opening[0].cancel()
    results = await asyncio.gather(*opening, return_exceptions=True)
    assert sum(isinstance(each, asyncio.CancelledError) for each in results) == 2
    async with asyncio.timeout(60):
        assert (await app.job_view("greet")).live.pending >= 18
    await asyncio.gather(app.start(), app.start(), app.start())
    assert len(await app.workers()) == 1
    await app.close()


@pytest.mark.req("OPS-1")
async def test_the_same_application_object_lives_many_lives(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app)
    gate.open.set()
    for _ in range(3):
        async with app:
            assert (await run_once(app, "gate")).state == "completed"


@pytest.mark.req("OPS-1")
async def test_two_applications_on_one_memory_store_see_each_other() -> None:
    store = MemoryStore(SystemClock())
    one, two = Mainspring(store), Mainspring(store)
    one.job("greet")(lambda: "hello")
    async with one:
        assert (await ended(two, await two.enqueue("greet"))).result == "hello"
    with pytest.raises(InvalidValue, match=r"database: 7 is not valid; allowed: an address .*, a path, or a store"):
        Mainspring(7)  # type: ignore[arg-type]
