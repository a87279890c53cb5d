"""What operators set on queues, handlers, on-demand jobs and workers, in one process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mainspring import CommandRefused, InvalidValue, Mainspring, State, StoreUnavailable
from mainspring.core.controls import commands, watch
from mainspring.core.controls.commands import WorkerNotFound, read_controls
from mainspring.core.controls.holds import settle_hold
from mainspring.core.controls.walks import Walker
from mainspring.core.views.execution import row_of
from mainspring.model.controls import key_of
from mainspring.model.store.messages import ExecutionQuery
from tests.support import Nodes, ended, until


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second pass of a walk does not wait for processes that write by what was set before: there is only one."""

    async def at_once(_: Walker) -> int:
        return 0

    monkeypatch.setattr(Walker, "_linger", at_once)


class Work:
    """Jobs that note when they run, and how many do at once."""

    def __init__(self, app: Mainspring) -> None:
        self.app, self.done, self.most, self.gates = (
            app,
            list[int](),
            0,
            {name: asyncio.Event() for name in ("first", "second")},
        )
        self._now = 0
        app.job("send", queue="mail", max_attempts=2, retry="50ms")(self.send)
        app.job("other")(self.other)

    async def send(self, n: int = 0, gate: str = "") -> None:
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await (self.gates[gate].wait() if gate else asyncio.sleep(0.01))
        finally:
            self._now -= 1
        self.done.append(n)

    async def other(self) -> None: ...

    async def waits(self, subject: Any, name: str) -> None:
        """Until the node obeys this control."""
        watch = self._watch()
        known = {"queue": lambda: watch.in_force.paused_queues, "handler": lambda: watch.in_force.paused_handlers}
        await until(lambda: name in known[subject]())

    async def holds(self, count: int) -> None:
        await until(lambda: len(self._watch().in_force.held_jobs) == count)

    def _watch(self) -> Any:
        assert self.app._runtime.parts is not None
        assert self.app._runtime.parts.node is not None
        return self.app._runtime.parts.node.controls


@pytest.mark.req("QUE-1", "SEC-3")
async def test_a_paused_queue_and_a_paused_handler_begin_nothing(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    work = Work(app)
    async with app:
        paused = await app.queues.pause("mail", note="server down", by="ada")
        assert paused.pause is not None
        assert (paused.pause.by, paused.pause.note, paused.paused) == ("ada", "server down", True)
        await work.waits("queue", "mail")
        waiting = await app.enqueue("send", {"n": 1})
        await ended(app, await app.enqueue("other"))
        (reason,) = await app.why_waiting(await app.get(waiting.id))
        assert reason.code == "queue_paused"
        assert reason.message.startswith("its queue 'mail' is paused by ada since ")
        assert reason.message.endswith(": server down")
        assert [each.code for each in (await app.why("send"))[1] if each.blocking] == ["queue_paused"]
        await app.queues.resume("mail", by="bob")
        await ended(app, waiting)
        with pytest.raises(CommandRefused, match="queue 'mail': it is not paused"):
            await app.queues.resume("mail")

        await app.handlers.pause("send", resume_after="200ms")
        await work.waits("handler", "send")
        (handler,) = [each for each in await app.handlers.all() if each.paused]
        assert handler.name == "send"
        await ended(app, await app.enqueue("send", {"n": 2}))  # the pause ends by itself
        assert work.done == [1, 2]
        await until(lambda: _stored(app, 0))
        records = [(each.action, each.target, each.actor) for each in reversed(await app.audits())]
        assert records == [
            ("pause_queue", "queue:mail", "ada"),
            ("resume_queue", "queue:mail", "bob"),
            ("pause_handler", "handler:send", "system"),
            ("resume_handler", "handler:send", "system"),
        ]
        with pytest.raises(CommandRefused, match="Mainspring's own"):
            await app.handlers.pause("mainspring.webhooks")
        with pytest.raises(InvalidValue, match="resume_at"):
            await app.queues.pause("mail", resume_at="2001-01-01T00:00:00Z")


async def _stored(app: Mainspring, count: int) -> bool:
    assert app._runtime.parts is not None
    return len(await read_controls(app._runtime.parts.store)) == count


@pytest.mark.req("QUE-1", "EXE-1")
async def test_what_is_enqueued_for_a_paused_job_waits_and_then_runs_in_order(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(concurrency=1)
    work = Work(app)
    async with app:
        assert (await app.pause("send", note="wrong template", by="ada")).state == "paused"
        await work.holds(1)
        made = [await app.enqueue("send", {"n": n}) for n in range(25)]
        store = app._runtime.parts.store
        pending = ExecutionQuery(job="send", states=frozenset({State.PENDING}))
        await until(lambda: _all_held(store, pending, 25))
        seen = await app.get(made[0].id)
        assert (row_of(seen).claims, seen.attempts, (seen.start_at - seen.created_at).days) == (1, [], 0)
        (reason,) = await app.why_waiting(seen)
        assert reason.message.startswith("its job is paused by ada since ")
        assert [each.code for each in (await app.why("send"))[1] if each.blocking] == ["paused"]
        assert (await app.queues.get("mail")).next_due_at is None
        await app.resume("send", by="ada")
        for each in made:
            assert (await ended(app, each)).state is State.COMPLETED
        assert work.done == list(range(25))
        await until(lambda: _stored(app, 0))  # after the second pass

        await app.pause("send")
        await work.holds(1)
        last = await app.enqueue("send", {"n": 99})
        await until(lambda: _all_held(store, pending, 1))
        await app.cancel("send")
        assert (await app.get(last.id)).state is State.CANCELLED


@pytest.mark.req("QUE-1")
async def test_a_process_that_has_not_heard_of_the_resume_holds_nothing(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    work = Work(app)
    async with app, memory_nodes.client() as operator:
        await operator.pause("send")
        await work.holds(1)
        await work._watch()._watch.stop()
        await operator.resume("send")
        await ended(app, await operator.enqueue("send", {"n": 1}))
        assert work.done == [1]


@pytest.mark.req("QUE-1")
async def test_a_resume_that_a_pause_has_overtaken_releases_nothing(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the job may be that of a queue as well, whose ceiling is no business of the job."""
    app = memory_nodes.app()
    work = Work(app)
    async with app:
        await app.pause("send")
        await work.holds(1)
        (job,) = await app._runtime.parts.store.jobs(["send"])
        walked: list[str] = []

        async def walk(_: Walker, known: Any, now: int) -> float:
            walked.append(known.name)
            return 60.0

        monkeypatch.setattr(Walker, "apply_ceiling", walk)
        monkeypatch.setattr(Walker, "release", walk)
        await settle_hold(app._runtime.parts.store, job, job.with_changes(paused=None))
        await work._watch().tidy()
        assert not walked


@pytest.mark.req("QUE-1")
async def test_all_controls_are_read_however_many_there_are(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "STEP", 2)
    async with memory_nodes.client() as operator:
        for count in range(1, 6):
            await operator.handlers.pause(f"handler-{count}")
            assert await _stored(operator, count)


async def _all_held(store: Any, query: ExecutionQuery, count: int) -> bool:
    return sum(row.held for row in await store.find(query)) == count


@pytest.mark.req("QUE-2")
async def test_a_ceiling_is_set_raised_lowered_and_removed_at_run_time(memory_nodes: Nodes) -> None:
    app = memory_nodes.app(concurrency=10)
    work = Work(app)
    async with app:
        held = [await app.enqueue("send", {"n": n, "gate": "first"}) for n in range(3)]
        await until(lambda: work.most == 3)
        await app.queues.limit("mail", concurrency=2, by="ada")
        await until(lambda: "mail" in work._watch().in_force.ceilings)
        made = [await app.enqueue("send", {"n": n, "gate": "second"}) for n in range(3, 12)]
        work.gates["first"].set()
        for each in held:
            await ended(app, each)
        await until(lambda: _parked(app))
        first = await app.get(made[-1].id)
        (reason,) = [each for each in await app.why_waiting(first) if each.code == "limit_reached"]
        assert "of its queue 'mail' at most 2 may run at once, a ceiling that an operator set" in reason.message
        mail = await app.queues.get("mail")
        assert (mail.concurrency, mail.rate) == (2, None)
        scale = await app.queues.scale("mail")
        assert (scale.running, scale.due, scale.wanted) == (2, 0, 1)
        await app.queues.limit("mail", concurrency=4)
        work.most = 0
        await until(lambda: work._now == 4)
        await app.queues.limit("mail")
        await until(lambda: work._now == 9)
        work.gates["second"].set()
        for each in made:
            await ended(app, each)
        await until(lambda: _stored(app, 0))
        assert {row_of(await app.get(each.id)).limits for each in made[-2:]} <= {None, "[]"}
        with pytest.raises(InvalidValue, match="rate"):
            await app.queues.limit("mail", rate="fast")


async def _parked(app: Mainspring) -> bool:
    assert app._runtime.parts is not None
    app._runtime.parts.queues.cache.forget()
    mail = await app.queues.get("mail")
    return mail.running == 2 and mail.parked == 7


@pytest.mark.req("QUE-2", "WRK-7")
async def test_a_drained_worker_takes_no_more_work(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    Work(app)
    async with app:
        (worker,) = await app.workers()
        assert await app.drain_worker(worker.id[:14], note="going away", by="ada") == worker.id
        await until(lambda: _draining(app, True))
        waiting = await app.enqueue("send")
        assert [each.code for each in await app.why_waiting(await app.get(waiting.id))] == ["draining"]
        await app.undrain_worker(worker.id[-12:])
        await ended(app, waiting)
        with pytest.raises(WorkerNotFound, match="no running process"):
            await app.drain_worker("nobody")
        assert key_of("worker", worker.id) in {each.target for each in await app.audits()}

        await app.drain_worker(worker.id)
        await until(lambda: _draining(app, True))
        store = app._runtime.parts.store
        await store.remove_worker(worker.id)  # it was silent for so long that it is listed no more
        await app._runtime.parts.node.controls.tidy()
        assert [each.name for each in await read_controls(store)] == [worker.id]
    assert not await read_controls(store), "a worker that leaves takes its drain along"


async def _draining(app: Mainspring, wanted: bool) -> bool:
    return [worker.draining for worker in await app.workers()] == [wanted]


@pytest.mark.req("QUE-1")
async def test_a_process_that_starts_begins_nothing_that_is_paused(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slowly(store: Any) -> Any:
        await asyncio.sleep(0.05)  # longer than a claim takes
        return await read_controls(store)

    monkeypatch.setattr(watch, "read_controls", slowly)
    app = memory_nodes.app()
    work = Work(app)
    async with memory_nodes.client() as operator:
        await operator.queues.pause("mail")
        for _ in range(2):
            async with app:
                waiting = await app.enqueue("send")
                await ended(app, await app.enqueue("other"))
                assert (await app.get(waiting.id)).state is State.PENDING
            app = memory_nodes.app()
            work = Work(app)
        assert not work.done


@pytest.mark.req("QUE-1")
async def test_nothing_begins_until_a_process_knows_what_is_paused(
    memory_nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, away = 0, True

    async def sometimes(store: Any) -> Any:
        nonlocal asked
        asked += 1
        if away:
            raise StoreUnavailable("the server is away")
        return await read_controls(store)

    monkeypatch.setattr(watch, "read_controls", sometimes)
    app = memory_nodes.app()
    work = Work(app)
    async with memory_nodes.client() as operator:
        await operator.queues.pause("mail")
        async with app:
            waiting, other = await app.enqueue("send"), await app.enqueue("other")
            await until(lambda: asked >= 3)
            assert (await app.get(other.id)).state is State.PENDING
            away = False
            await ended(app, other)
            assert (await app.get(waiting.id)).state is State.PENDING
        assert not work.done
