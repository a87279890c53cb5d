"""Workers: what they take, how they are woken, how they stop, and what happens when they are cut off."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from mainspring import Execution, JobContext, Mainspring, Retry
from mainspring.app.adapters import SystemClock
from mainspring.core.ports import Store
from mainspring.core.views.execution import row_of
from mainspring.model.events import AttemptEnded, Fenced, Rescued, Running, SkewNoticed, Stopped
from mainspring.model.store.messages import HeartbeatReply, HeartbeatRequest
from mainspring.stores.memory import MemoryStore
from mainspring.stores.sqlite import SqliteStore
from tests.integration.gate import Gate
from tests.support import DEADLINE, NEVER, Nodes, Seen, ended, own_threads, run_once, until

# --- what a worker takes -------------------------------------------------------------------------------------


@pytest.mark.req("WRK-1")
async def test_a_worker_takes_only_from_its_queues(nodes: Nodes) -> None:
    mail, rest = nodes.app(), nodes.app()
    ran: dict[str, str] = {}

    def serve(app: Mainspring, who: str) -> None:
        @app.job("work")
        async def work(ctx: JobContext) -> None:
            ran[ctx.execution_id] = who

    serve(mail, "mail")
    serve(rest, "rest")
    await mail.start(queues=["mail", "urgent"])
    await rest.start(queues=["default"])
    queues = {"mail": "mail", "urgent": "mail", "default": "rest"}
    made = {queue: await rest.enqueue("work", queue=queue) for queue in queues}
    stays = await rest.enqueue("work", queue="nobody")
    for queue, execution in made.items():
        await ended(rest, execution)
        assert execution is not None
        assert ran[execution.id] == queues[queue]
    assert stays is not None
    assert (await rest.get(stays.id)).state == "pending"
    assert {worker.queues for worker in await rest.workers()} == {("mail", "urgent"), ("default",)}
    await mail.close()
    await rest.close()


@pytest.mark.req("WRK-1")
async def test_an_excluded_handler_is_left_alone(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("bad")(lambda: "bad")
    app.job("good")(lambda: "good")
    await app.start(exclude=["bad"])
    bad = await app.enqueue("bad")
    assert (await run_once(app, "good")).result == "good"
    assert bad is not None
    assert ((await app.get(bad.id)).state, row_of(await app.get(bad.id)).token) == ("pending", 0)
    [worker] = await app.workers()
    assert worker.handlers == ("good",)
    await app.stop()
    await app.start(exclude=[])
    assert (await ended(app, bad)).result == "bad"
    await app.close()


@pytest.mark.req("WRK-1", "NUM-2")
@pytest.mark.parametrize("style", ["async", "thread"])
async def test_concurrency_is_used_and_respected(nodes: Nodes, style: str) -> None:
    app = nodes.app(concurrency=3)
    lock = threading.Lock()
    running, most = 0, 0
    full, let_go = threading.Event(), threading.Event()

    def enter() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 3:
                full.set()

    def leave() -> None:
        nonlocal running
        with lock:
            running -= 1

    @app.job("thread")
    def in_thread() -> None:
        enter()
        assert let_go.wait(DEADLINE)
        leave()

    @app.job("async")
    async def on_loop() -> None:
        enter()
        await until(let_go.is_set)
        leave()

    async with app:
        made = await app.enqueue_many([(style, None)] * 8)
        await until(full.is_set, "three run at once")
        assert (await app.job_view(style)).live.running == 3
        let_go.set()
        for each in made:
            await ended(app, each)
    assert most == 3


@pytest.mark.req("NUM-2")
async def test_a_hundred_executions_run_at_once(nodes: Nodes) -> None:
    app = nodes.app(concurrency=120)
    gate = Gate(app)
    async with app:
        made = await app.enqueue_many([("gate", None)] * 100)
        await until(lambda: len(gate.running) == 100)
        gate.open.set()
        for each in made:
            assert (await ended(app, each)).state == "completed"


LEFT_BEHIND: ContextVar[str] = ContextVar("left_behind", default="")


async def test_what_a_handler_leaves_in_its_context_reaches_no_other(memory_nodes: Nodes) -> None:
    app, seen = memory_nodes.app(concurrency=1), list[str]()

    @app.job("careless")
    async def careless(number: int) -> None:
        seen.append(LEFT_BEHIND.get())
        LEFT_BEHIND.set(f"by {number}")

    await app.enqueue_many([("careless", {"number": number}) for number in range(100)])
    async with app:
        await until(lambda: len(seen) == 100)
    assert set(seen) == {""}


async def test_a_handler_cancelled_by_a_stranger_before_its_first_step_runs_again(memory_nodes: Nodes) -> None:
    app, ran = memory_nodes.app(concurrency=2), list[str]()

    @app.job("stranger")
    async def stranger(victim: str) -> None:
        ran.extend("cancelled" for task in asyncio.all_tasks() if task.get_name() == victim and task.cancel())

    @app.job("victim")
    async def victim() -> None:
        ran.append("ran")

    waiting = await app.enqueue("victim")
    assert waiting is not None
    await app.enqueue("stranger", {"victim": waiting.id}, priority=5)
    async with app:
        execution = await ended(app, waiting)
    assert ran == ["cancelled", "ran"]
    assert [attempt.end for attempt in execution.attempts] == ["completed"], "what never began is no try"


@pytest.mark.req("WRK-6")
async def test_unknown_names_stay_for_newer_nodes(nodes: Nodes) -> None:
    old, new = nodes.app(), nodes.app()
    old.job("known")(lambda: "old")
    new.job("known")(lambda: "new")
    new.job("brand-new")(lambda: "new")
    await new.open()
    fresh = await new.enqueue("brand-new")
    async with old:
        assert (await run_once(old, "known")).state == "completed"
        assert fresh is not None
        row = await old.get(fresh.id)
        assert (row.state, row_of(row).token, row.attempts) == ("pending", 0, [])
        async with new:
            assert (await ended(old, fresh)).result == "new"


@pytest.mark.req("REL-1", "NUM-2")
async def test_nodes_share_the_work_and_each_execution_runs_once(nodes: Nodes) -> None:
    apps = [nodes.app(concurrency=4) for _ in range(3)]
    runs: Counter[str] = Counter()
    for app in apps:

        @app.job("count")
        async def count(ctx: JobContext) -> None:
            runs[ctx.execution_id] += 1
            await asyncio.sleep(0)

        await app.start()
    made = await apps[0].enqueue_many([("count", None)] * 300)
    for each in made:
        await ended(apps[1], each)
    assert set(runs.values()) == {1}
    assert set(runs) == {each.id for each in made if each}
    for app in apps:
        await app.close()


# --- waking up -----------------------------------------------------------------------------------------------


@pytest.mark.req("WRK-2")
async def test_work_of_another_process_is_noticed_long_before_the_poll(nodes: Nodes) -> None:
    worker = nodes.app(poll_interval=NEVER)
    worker.job("greet")(lambda: "hello")
    async with worker, nodes.client() as web:
        for _ in range(3):
            execution = await web.enqueue("greet")
            assert (await ended(web, execution, timeout=NEVER / 3)).result == "hello"


@pytest.mark.req("WRK-2", "OPS-8")
async def test_without_wake_ups_the_poll_finds_it(nodes: Nodes) -> None:
    worker = nodes.app(wakeups=False, poll_interval=0.02)
    worker.job("greet")(lambda: "hello")
    async with worker, nodes.client() as web:
        assert (await ended(web, await web.enqueue("greet"))).result == "hello"


@pytest.mark.req("WRK-2", "OPS-8")
async def test_without_wake_ups_and_polls_nothing_is_found(nodes: Nodes) -> None:
    """The counter-proof: what the two tests above see is the wake-up and the poll, and nothing else."""
    worker = nodes.app(wakeups=False, poll_interval=NEVER)
    worker.job("greet")(lambda: "hello")
    await worker.open()
    first = await worker.enqueue("greet")
    async with worker, nodes.client() as web:
        await ended(web, first)  # the worker has looked once, and settled
        execution = await web.enqueue("greet")
        with pytest.raises(TimeoutError):
            await ended(web, execution, timeout=0.5)


@pytest.mark.req("WRK-2")
async def test_work_due_later_is_started_at_its_time_without_polling(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("later")(lambda: None)
    async with app:
        execution = await app.enqueue("later", start_at=time.time() + 0.3)
        done = await ended(app, execution)
        assert done.started_at is not None
        assert done.started_at >= done.start_at


@pytest.mark.req("WRK-2")
async def test_an_idle_worker_leaves_the_store_alone(memory_nodes: Nodes) -> None:
    class Counting:
        def __init__(self, store: Store) -> None:
            self.calls: Counter[str] = Counter()
            self._store = store

        def __getattr__(self, name: str) -> Any:
            self.calls[name] += 1
            return getattr(self._store, name)

    store = Counting(MemoryStore(SystemClock()))
    app = Mainspring(store, poll_interval=NEVER)  # type: ignore[arg-type]
    app.job("greet")(lambda: None)
    async with app:
        await run_once(app, "greet")
        before = store.calls["exchange"] + store.calls["due_jobs"]
        await asyncio.sleep(0.3)  # the passing of time is what is tested
        assert store.calls["exchange"] + store.calls["due_jobs"] <= before + 1


# --- identity ------------------------------------------------------------------------------------------------


@pytest.mark.req("WRK-7")
async def test_workers_are_listed_with_a_fresh_identity_per_start(nodes: Nodes) -> None:
    app, other = nodes.app(concurrency=4, heartbeat=0.05), nodes.app()
    gate = Gate(app)
    Gate(other, "elsewhere")
    async with other:
        await app.start(queues=["default"])
        execution = await app.enqueue("gate")
        await gate.holds(execution)
        first = next(worker for worker in await other.workers() if "gate" in worker.handlers)
        assert (first.queues, first.concurrency, first.roles) == (("default",), 4, ("scheduler", "worker"))
        assert first.host
        assert first.pid > 0
        assert first.version
        await until(lambda: _busy(other, first.id), "the next beat says that one runs")
        gate.open.set()
        await ended(app, execution)
        await app.stop()
        assert [worker.declares for worker in await other.workers()] == [("elsewhere",)]
        await app.start()
        again = next(worker for worker in await other.workers() if "gate" in worker.handlers)
        assert again.id != first.id
        await app.close()


async def _busy(app: Mainspring, id: str) -> bool:
    return any(worker.running for worker in await app.workers() if worker.id == id)


@pytest.mark.req("OBS-1", "OPS-8")
async def test_the_settings_in_force_are_told_at_the_start(
    memory_nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    app = memory_nodes.app(observers=[seen], lease="40s", heartbeat="4s")
    app.job("greet")(lambda: None)
    with caplog.at_level("INFO", "mainspring"):
        async with app:
            pass
    [running] = seen.of(Running)
    assert {key: running.settings[key] for key in ("lease", "heartbeat", "poll_interval", "stop_timeout")} == {
        "lease": 40.0,
        "heartbeat": 4.0,
        "poll_interval": NEVER,
        "stop_timeout": 5.0,
    }
    assert len(seen.of(Stopped)) == 1
    [line] = [record.getMessage() for record in caplog.records if getattr(record, "event", "") == "running"]
    assert "lease=40" in line
    assert "heartbeat=4" in line


# --- stopping ------------------------------------------------------------------------------------------------


@pytest.mark.req("WRK-5", "NUM-3")
@pytest.mark.parametrize("style", ["async", "thread", "stubborn", "deaf"])
async def test_stop_hands_back_what_does_not_end_without_counting_a_failure(nodes: Nodes, style: str) -> None:
    seen = Seen()
    app = nodes.app(stop_timeout=1.5, observers=[seen])
    running: set[str] = set()
    release = threading.Event()

    @app.job("async")
    async def on_loop(ctx: JobContext) -> None:
        running.add(ctx.execution_id)
        await asyncio.Event().wait()

    @app.job("thread")
    def in_thread(ctx: JobContext) -> None:
        running.add(ctx.execution_id)
        while True:
            ctx.check()
            time.sleep(0.002)

    @app.job("stubborn")
    async def stubborn(ctx: JobContext) -> None:
        running.add(ctx.execution_id)
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    @app.job("deaf")
    def deaf(ctx: JobContext) -> str:
        running.add(ctx.execution_id)
        release.wait(DEADLINE)
        return "too late"

    await app.start()
    made = await app.enqueue_many([(style, None)] * 3)
    await until(lambda: len(running) == 3)
    async with asyncio.timeout(DEADLINE):
        await app.stop()
    for each in made:
        assert each is not None
        row = await app.get(each.id)
        assert (row.state, row.failures, row.worker) == ("pending", 0, None)
        assert [attempt.end for attempt in row.attempts] == ["handed_back"]
    assert [event.handed_back for event in seen.of(Stopped)] == [3]
    release.set()
    await until(lambda: not _mainspring_threads(), "the deaf handlers ended, to no effect")
    assert {(await app.get(each.id)).state for each in made if each} == {"pending"}
    await app.close()


def _mainspring_threads() -> list[str]:
    return [name for name in own_threads("mainspring-") if name[11:].isdigit()]


@pytest.mark.req("WRK-5")
async def test_stop_lets_running_handlers_finish_and_claims_nothing_more(nodes: Nodes) -> None:
    app = nodes.app(stop_timeout=DEADLINE, concurrency=1)
    gate = Gate(app)
    await app.start()
    first = await app.enqueue("gate")
    await gate.holds(first)
    second = await app.enqueue("gate")
    stopping = asyncio.create_task(app.stop())
    await asyncio.sleep(0)
    third = await app.enqueue("gate")
    gate.open.set()
    await stopping
    assert first is not None
    assert (await app.get(first.id)).state == "completed"
    for later in (second, third):
        assert later is not None
        assert ((await app.get(later.id)).state, row_of(await app.get(later.id)).token) == ("pending", 0)
    await app.close()


@pytest.mark.req("WRK-5", "REL-1")
async def test_what_was_handed_back_runs_elsewhere(nodes: Nodes) -> None:
    leaving, staying = nodes.app(stop_timeout=1.5), nodes.app()
    held = Gate(leaving, max_attempts=1)
    staying.job("gate", max_attempts=1)(lambda: "done elsewhere")
    await leaving.start()
    execution = await leaving.enqueue("gate")
    await held.holds(execution)
    async with staying:
        await leaving.stop()
        done = await ended(staying, execution)
        assert (done.state, done.result, done.failures) == ("completed", "done elsewhere", 0)
        assert [attempt.end for attempt in done.attempts] == ["handed_back", "completed"]
        assert len({attempt.worker for attempt in done.attempts}) == 2
    await leaving.close()


@pytest.mark.req("WRK-5")
async def test_stopping_twice_and_stopping_what_never_ran(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("greet")(lambda: None)
    await app.stop()
    await app.close()
    await app.start()
    await app.start()  # the same node
    assert len(await app.workers()) == 1
    await asyncio.gather(app.stop(), app.stop())
    await app.close()
    await app.close()


# --- leases --------------------------------------------------------------------------------------------------


class Unheard:
    """A store that can be made deaf to heartbeats: they fail, or they hang."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.deaf: str | None = None
        self.over = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def heartbeat(self, beat: HeartbeatRequest) -> HeartbeatReply:
        if self.deaf == "hangs":
            self.over.wait(DEADLINE)
        if self.deaf:
            raise OSError("the network is gone")
        return self._store.heartbeat(beat)


@asynccontextmanager
async def cut_off_app(
    nodes: Nodes, seen: Seen, rescue_interval: float = 60
) -> AsyncIterator[tuple[Mainspring, Unheard]]:
    clock = SystemClock()
    inner: Any = MemoryStore(clock) if nodes.kind == "memory" else SqliteStore(nodes.file, clock)
    store = Unheard(inner)
    app = Mainspring(
        store,  # type: ignore[arg-type]
        lease=0.5,
        heartbeat=0.05,
        rescue_interval=rescue_interval,
        poll_interval=0.1,
        stop_timeout=1,
        observers=[seen],
    )
    try:
        yield app, store
    finally:
        store.deaf = None
        store.over.set()
        await app.close()
        await inner.close()


@pytest.mark.req("WRK-8")
@pytest.mark.parametrize("beat", ["fails", "hangs"])
@pytest.mark.parametrize("style", ["async", "thread"])
async def test_a_worker_that_is_not_heard_for_a_lease_stops_its_handlers(nodes: Nodes, style: str, beat: str) -> None:
    seen = Seen()
    running, stopped = threading.Event(), threading.Event()
    async with cut_off_app(nodes, seen) as (app, store):

        @app.job("async", max_attempts=1)
        async def on_loop() -> None:
            running.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        @app.job("thread", max_attempts=1)
        def in_thread(ctx: JobContext) -> None:
            running.set()
            while not ctx.cancelled:
                time.sleep(0.002)
            stopped.set()

        await app.start()
        execution = await app.enqueue(style)
        await until(running.is_set)
        store.deaf = beat
        await until(stopped.is_set, "the handler is stopped")
        await until(lambda: seen.of(AttemptEnded), "nobody has taken it over: its own word counts")
        told = await app.get(execution.id)
        assert (told.state, told.failures, told.crashes) == ("completed" if style == "thread" else "pending", 0, 0)
        assert not seen.of(Fenced) + seen.of(Rescued)
        running.clear()
        store.deaf = None
        store.over.set()
        if style == "async":
            await until(running.is_set, "heard again, it claims again")


@pytest.mark.req("WRK-3")
async def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(nodes: Nodes) -> None:
    seen = Seen()
    app = nodes.app(lease=1.0, heartbeat=0.05, observers=[seen])
    watch = nodes.app(lease=1.0, rescue_interval=0.05, roles=["scheduler"], observers=[seen])
    watch.job("block")(lambda: None)

    @app.job("block")
    async def block() -> str:
        time.sleep(1.5)  # the very mistake
        return "kept"

    def rescue_elsewhere() -> None:
        asyncio.run(_hold(watch, finished))

    await app.open()  # the database is there before the other one comes
    finished = threading.Event()
    other = threading.Thread(target=rescue_elsewhere)
    other.start()
    async with app:
        done = await run_once(app, block)
    finished.set()
    await asyncio.to_thread(other.join)
    assert (done.state, done.result, done.crashes, row_of(done).claims) == ("completed", "kept", 0, 1)
    assert seen.of(Rescued) == []
    assert seen.of(SkewNoticed) == []


async def _hold(app: Mainspring, finished: threading.Event) -> None:
    async with app:
        await until(finished.is_set)


@pytest.mark.req("WRK-4", "EXE-4")
async def test_work_of_a_worker_that_vanished_is_rescued_and_counted_as_a_failure(nodes: Nodes) -> None:
    """The worker row and the leases of a process that was killed: recorded as running, never beaten again."""
    seen = Seen()
    async with nodes.client(lease=0.2) as dead:
        manager = dead.track("import")
        ctx = await manager.__aenter__()
        await dead._runtime.parts.inline.stop()  # type: ignore[union-attr]  # the process is killed
        app = nodes.app(lease=0.2, rescue_interval=0.05, observers=[seen])
        app.job("import")(lambda: None)
        async with app:
            done = await app.wait(ctx.execution_id, timeout=DEADLINE)
            assert (done.state, done.reason, done.failures, done.crashes) == ("failed", "worker_lost", 1, 1)
            [rescued] = await until(lambda: seen.of(Rescued), "it is told of")
            assert rescued.silent_ms >= 0
            assert (await app.job_view("import")).stats.rescued == 1
        await manager.__aexit__(None, None, None)
        assert (await dead.get(ctx.execution_id)).state == "failed"


# --- cancelling across processes -----------------------------------------------------------------------------


@pytest.mark.req("WRK-9")
async def test_a_cancel_reaches_the_worker_of_another_process(nodes: Nodes) -> None:
    worker = nodes.app()
    gate = Gate(worker)
    async with worker, nodes.client() as operator:
        execution = await operator.enqueue("gate")
        await gate.holds(execution)
        asked = await operator.cancel(execution, by="ada")  # type: ignore[arg-type]
        assert isinstance(asked, Execution)
        assert asked.cancel_requested_at is not None
        done = await ended(operator, execution)
        assert (done.state, done.reason) == ("cancelled", "cancelled by ada")
        assert gate.running == []


@pytest.mark.req("WRK-9")
async def test_without_wake_ups_a_cancel_arrives_with_the_heartbeat(nodes: Nodes) -> None:
    worker = nodes.app(wakeups=False, poll_interval=0.02, heartbeat=0.05)
    gate = Gate(worker)
    async with worker, nodes.client() as operator:
        execution = await operator.enqueue("gate")
        await gate.holds(execution)
        await operator.cancel(execution)  # type: ignore[arg-type]
        assert (await ended(operator, execution)).state == "cancelled"


@pytest.mark.req("WRK-9", "EXE-9")
async def test_a_cancel_during_a_backoff_ends_it(nodes: Nodes) -> None:
    app = nodes.app()
    tries = 0

    @app.job("flaky", retry=Retry(initial="1h"))
    async def flaky() -> None:
        nonlocal tries
        tries += 1
        raise ValueError("no")

    async with app:
        execution = await app.enqueue(flaky)
        assert execution is not None
        await until(lambda: _tried(app, execution.id))
        await app.cancel(execution, reason="given up")
        done = await ended(app, execution)
        assert (done.state, done.reason, done.failures, tries) == ("cancelled", "given up", 1, 1)
        assert done.error == "ValueError: no"


async def _tried(app: Mainspring, id: str) -> bool:
    return bool((await app.get(id)).attempts)
