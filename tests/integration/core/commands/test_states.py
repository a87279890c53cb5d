"""States and commands of jobs and executions, retries, tracked work, through the application object."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import (
    AlreadyRunning,
    CommandRefused,
    Execution,
    ExecutionNotFound,
    InvalidValue,
    JobContext,
    JobNotFound,
    JobState,
    Mainspring,
    NonRetryable,
    Retry,
    RetryAfter,
    Skip,
    StoreUnavailable,
    every,
)
from mainspring.app.adapters import SystemClock
from mainspring.core.commands import trigger
from mainspring.core.commands.trigger import RetryClaims
from mainspring.core.engine import inline
from mainspring.core.rules import transitions
from mainspring.core.views.execution import row_of
from mainspring.core.views.job import job_of
from mainspring.model.events import AttemptEnded, Recovered, Started, StoreLost, Trouble
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from tests.integration.gate import Gate
from tests.support import FAST, NEVER, Nodes, Seen, ended, run_once, until

AT_ONCE = Retry(initial=0)


async def state(app: Mainspring, name: str) -> JobState:
    return (await app.job_view(name)).state


# --- the states of a job -------------------------------------------------------------------------------------


@pytest.mark.req("EXE-1")
async def test_an_on_demand_job_is_pending_running_completed_failed(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, max_attempts=1)
    async with app:
        assert await state(app, "gate") == "pending"
        later = await app.enqueue("gate", start_at="2100-01-01T00:00:00Z")
        assert await state(app, "gate") == "pending"
        await app.cancel(later)
        first = await app.enqueue("gate")
        await gate.holds(first)
        assert await state(app, "gate") == "running"
        gate.open.set()
        await ended(app, first)
        assert await state(app, "gate") == "completed"
        gate.fail = True
        await run_once(app, "gate")
        view = await app.job_view("gate")
        assert (view.state, view.last_status, view.error_message) == ("failed", "failed", "ValueError: as asked")


@pytest.mark.req("EXE-1", "API-4")
async def test_pause_while_running_lets_the_run_finish_and_stops_new_ticks(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, trigger=every(hours=1))
    async with app:
        run = await app.trigger("gate")
        await gate.holds(run)
        paused = await app.pause("gate", by="ada", note="migration")
        assert (paused.state, paused.is_paused, paused.paused_by) == ("running", True, "ada")
        assert (paused.next_run_at, paused.pause_note) == (None, "migration")
        gate.open.set()
        assert (await ended(app, run)).state == "completed"
        view = await app.job_view("gate")
        assert (view.state, view.last_status) == ("paused", "completed")
        assert (await run_once_by_trigger(app, "gate")).state == "completed"  # a paused job can still be triggered
        resumed = await app.resume("gate", by="ada")
        assert (resumed.state, resumed.is_paused, resumed.paused_at) == ("scheduled", False, None)
        assert resumed.next_run_at is not None


async def run_once_by_trigger(app: Mainspring, name: str) -> Any:
    return await ended(app, await app.trigger(name))


@pytest.mark.req("EXE-1", "API-4")
async def test_cancelling_a_job_stops_what_it_has_alive_and_reactivating_plans_it(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, trigger=every(hours=1), overlap="allow")
    async with app:
        running = await app.trigger("gate")
        await gate.holds(running)
        waiting = await app.enqueue("gate", start_at="2100-01-01T00:00:00Z")
        cancelled = await app.cancel("gate", by="ada")
        assert (cancelled.state, cancelled.next_run_at) == ("cancelled", None)  # type: ignore[union-attr]
        assert cancelled.cancelled_at is not None  # type: ignore[union-attr]
        for each in (running, waiting):
            done = await ended(app, each)
            assert (done.state, done.reason) == ("cancelled", "the job was cancelled by ada")
        with pytest.raises(CommandRefused, match="cannot trigger job 'gate': it is cancelled"):
            await app.trigger("gate")
        active = await app.reactivate("gate", by="ada")
        assert (active.state, active.cancelled_at) == ("scheduled", None)
        gate.open.set()
        assert (await run_once_by_trigger(app, "gate")).state == "completed"


@pytest.mark.req("EXE-1")
async def test_a_recurring_job_whose_run_failed_is_scheduled_with_its_last_status_beside(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("nightly", trigger=every(hours=1), max_attempts=1)
    async def nightly() -> None:
        raise ValueError("no data")

    async with app:
        failed = await run_once_by_trigger(app, "nightly")
        view = await app.job_view("nightly")
        assert (view.state, view.last_status, view.current_retry_count) == ("scheduled", "failed", 1)
        again = await app.retry("nightly", by="ada")
        assert again.retry_of == failed.id
        await ended(app, again)


@pytest.mark.req("EXE-1")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("resume", "cannot resume job 'j': it is scheduled; resume is possible when paused"),
        ("reactivate", "cannot reactivate job 'j': it is scheduled; reactivate is possible when cancelled"),
        (
            "retry",
            "cannot retry job 'j': it is scheduled and its last run has not ended; retry is possible when",
        ),
    ],
)
async def test_a_command_that_does_not_fit_names_both_states(nodes: Nodes, command: str, message: str) -> None:
    app = nodes.app()

    @app.job("j", trigger=every(hours=1))
    async def j() -> None: ...

    await app.open()
    with pytest.raises(CommandRefused) as refused:
        await getattr(app, command)("j")
    assert message in str(refused.value)
    await app.pause("j")
    with pytest.raises(CommandRefused, match="cannot pause job 'j': it is paused; pause is possible when"):
        await app.pause("j")
    await app.cancel("j")
    with pytest.raises(CommandRefused, match="cannot cancel job 'j': it is cancelled"):
        await app.cancel("j")
    assert [audit.action for audit in await app.audits("job:j")] == ["cancel", "pause"]  # refusals leave no record
    await app.close()


@pytest.mark.req("EXE-1")
async def test_unknown_names_and_ids(nodes: Nodes) -> None:
    async with nodes.client() as app:
        for command in (app.pause, app.resume, app.cancel, app.reactivate, app.retry, app.trigger, app.job_view):
            with pytest.raises(JobNotFound, match="no job named 'nope'"):
                await command("nope")
        missing = "00000000-0000-7000-8000-000000000000"
        for look in (app.get, app.cancel, app.retry, app.logs, app.cancel_execution):
            with pytest.raises(ExecutionNotFound, match=f"no execution with id '{missing}'"):
                await look(missing)
        with pytest.raises(ExecutionNotFound):
            await app.wait(missing, timeout=1)


@pytest.mark.req("EXE-1", "SEC-3")
async def test_commands_at_once_lose_no_update(nodes: Nodes) -> None:
    apps = [nodes.app() for _ in range(2)]
    for app in apps:
        app.job("j", trigger=every(hours=1))(lambda: None)
        await app.open()
    edits = [app.update_job("j", by=f"op{n}", metadata={"n": n}) for n, app in enumerate(apps * 5)]
    edits += [app.update_job("j", by=f"q{n}", queue=f"q{n}") for n, app in enumerate(apps * 5)]
    await asyncio.gather(*edits)
    view = await apps[0].job_view("j")
    assert view.version == 21
    assert sorted(view.overrides) == ["metadata", "queue"]
    assert len(await apps[0].audits("job:j")) == 20
    for app in apps:
        await app.close()


# --- executions ----------------------------------------------------------------------------------------------


@pytest.mark.req("EXE-2", "API-4")
async def test_a_manual_retry_is_a_new_execution_with_the_same_parameters_and_window(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("sum", max_attempts=1, window="yesterday", trigger=every(hours=1))
    async def total(ctx: JobContext, shop: int = 1) -> int:
        if ctx.trigger != "retry":
            raise ValueError("not yet")
        return shop

    async with app:
        window = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
        failed = await ended(app, await app.trigger("sum", {"shop": 7}, window=window))
        again = await app.retry(failed, by="ada")
        assert again.id != failed.id
        done = await ended(app, again)
        assert (done.state, done.result, done.trigger, done.retry_of) == ("completed", 7, "retry", failed.id)
        assert (done.params, done.window) == (failed.params, failed.window)
        assert (done.triggered_by, done.failures, (await app.get(failed.id)).state) == ("ada", 0, "failed")
        with pytest.raises(CommandRefused, match=f"cannot retry execution {done.id}: it is completed"):
            await app.retry(done)
        with pytest.raises(CommandRefused, match=f"cannot cancel execution {done.id}: it is completed"):
            await app.cancel(done)


@pytest.mark.req("EXE-2")
async def test_a_cancelled_execution_can_be_retried_and_two_at_once_respect_the_overlap(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, overlap="skip")
    async with app:
        first = await app.enqueue("gate")
        await gate.holds(first)
        await app.cancel(first, by="ada", reason="wrong day")
        gone = await ended(app, first)
        assert (gone.state, gone.reason) == ("cancelled", "wrong day")
        again = await app.retry(gone)
        await gate.holds(again)
        with pytest.raises(AlreadyRunning, match=f"job 'gate' is already running as execution {again.id}"):
            await app.retry(gone)
        gate.open.set()
        await ended(app, again)


@pytest.mark.req("EXE-2", "API-4")
async def test_several_who_retry_at_the_same_instant_make_one_execution(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("fails", max_attempts=1)
    async def fails() -> None:
        raise ValueError

    async with app:
        failed = await ended(app, await app.enqueue("fails"))
        await app.stop()  # so that none ends before the last was asked for
        asked = await asyncio.gather(
            *(app.retry(failed if n % 2 else "fails") for n in range(8)), return_exceptions=True
        )
        made = [each for each in asked if isinstance(each, Execution)]
        assert [each.id for each in await app.executions(status="pending")] == [made[0].id]
        assert [type(each) for each in asked if each not in made] == [CommandRefused] * 7
        with pytest.raises(CommandRefused, match=f"it is being retried already, as execution {made[0].id}"):
            await app.retry(failed)


@pytest.mark.req("EXE-2", "API-4")
@pytest.mark.parametrize("overlap", ["allow", "skip"])
async def test_who_retries_hears_of_a_retry_that_has_come_and_gone_meanwhile(
    nodes: Nodes, overlap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = nodes.app()

    @app.job("fails", max_attempts=1, overlap=overlap)
    async def fails() -> None:
        raise ValueError

    async with app:
        failed = await ended(app, await app.enqueue("fails"))
        look, others = RetryClaims.count, list[Execution | None]()

        async def slow(self: RetryClaims, id: str) -> int:
            seen = await look(self, id)
            if not others:  # somebody else asks, and is done, while the first one is on its way
                others.append(None)
                others[0] = await ended(app, await app.retry(failed))
            return seen

        monkeypatch.setattr(RetryClaims, "count", slow)
        with pytest.raises(CommandRefused, match="it is being retried already, as execution") as refused:
            await app.retry(failed)
        assert others[0].id in str(refused.value)
        retried = f"already retried, just now, as execution {others[0].id}, which is failed"
        with pytest.raises(CommandRefused, match=retried):
            await app.retry(failed)  # asked at the same time; this request took longer
        monkeypatch.setattr(trigger, "AT_ONCE", 0)
        assert (await app.retry(failed)).retry_of == failed.id  # whoever asks later knows of that retry


@pytest.mark.req("EXE-6")
async def test_executions_of_a_job_are_numbered(nodes: Nodes) -> None:
    app = nodes.app(fold_interval=0.02)

    @app.job("j")
    async def j() -> None: ...

    async with app:
        made = [await run_once(app, j) for _ in range(3)]
        await until(lambda: _all_numbered(app), "numbers are filled in shortly after")
        assert [(await app.get(each.id)).number for each in made] == [1, 2, 3]


async def _all_numbered(app: Mainspring) -> bool:
    return all(each.number is not None for each in await app.executions())


# --- retries -------------------------------------------------------------------------------------------------


@pytest.mark.req("EXE-3", "EXE-4", "EXE-5")
async def test_an_exception_is_retried_and_every_attempt_is_kept(nodes: Nodes) -> None:
    seen = Seen()
    app = nodes.app(observers=[seen])
    numbers: list[int] = []
    keys: set[str] = set()

    @app.job("flaky", max_attempts=5, retry=AT_ONCE)
    async def flaky(ctx: JobContext) -> str:
        numbers.append(ctx.attempt)
        keys.add(ctx.idempotency_key)
        if ctx.attempt < 3:
            raise ConnectionError(f"try {ctx.attempt}")
        return "made it"

    async with app:
        done = await run_once(app, flaky)
    assert (done.state, done.result, done.failures, done.error) == ("completed", "made it", 2, None)
    assert numbers == [1, 2, 3]
    assert keys == {done.id}
    assert [(each.number, each.end, each.error) for each in done.attempts] == [
        (1, "failed", "ConnectionError: try 1"),
        (2, "failed", "ConnectionError: try 2"),
        (3, "completed", None),
    ]
    assert [event.retry_in for event in seen.of(AttemptEnded)] == [0.0, 0.0, None]
    assert len(seen.of(Started)) == 3


@pytest.mark.req("EXE-4")
async def test_max_attempts_counts_all_tries(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("broken", max_attempts=3, retry=AT_ONCE)
    def broken() -> None:
        raise ValueError("always")

    async with app:
        done = await run_once(app, broken)
    assert (done.state, done.failures, done.reason, len(done.attempts)) == ("failed", 3, "error", 3)
    assert done.error == "ValueError: always"


@pytest.mark.req("EXE-4")
async def test_defaults_of_retry(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()
    app.job("enqueued")(lambda: None)
    app.job("scheduled", trigger=every(hours=1))(lambda: None)
    await app.open()
    specs = [job_of(await app.job_view(name)).spec for name in ("enqueued", "scheduled")]
    assert [(spec.max_attempts, spec.overlap) for spec in specs] == [(10, "allow"), (3, "skip")]
    assert [specs[0].retry.delay(n) for n in range(1, 6)] == [2, 4, 8, 16, 32]
    assert [Retry("patient").delay(n) for n in range(1, 8)] == [60, 120, 240, 480, 960, 1920, 3600]
    assert [Retry("tenant").delay(n) for n in range(1, 6)] == [5, 10, 20, 40, 60]
    await app.close()


class CardDeclined(Exception):
    pass


class Stolen(CardDeclined):
    pass


@pytest.mark.req("EXE-3")
@pytest.mark.parametrize("blocking", [False, True])
async def test_not_retryable_fails_at_once(nodes: Nodes, blocking: bool) -> None:
    app = nodes.app()
    errors: dict[str, type[Exception]] = {"raised": NonRetryable, "listed": Stolen, "builtin": KeyError}

    def pay(kind: str) -> None:
        raise errors[kind]("no")

    async def pay_async(kind: str) -> None:
        pay(kind)

    chosen = pay if blocking else pay_async
    app.job("pay", retry=AT_ONCE, non_retryable=[CardDeclined, "LookupError"])(chosen)
    async with app:
        for kind in errors:
            done = await run_once(app, "pay", {"kind": kind})
            assert (done.state, done.failures, len(done.attempts)) == ("failed", 1, 1), kind


@pytest.mark.req("EXE-3")
async def test_retry_after_counts_no_failure_and_a_normal_return_is_done(nodes: Nodes) -> None:
    app = nodes.app()
    calls = 0

    @app.job("polite", max_attempts=1)
    async def polite(ctx: JobContext) -> int:
        nonlocal calls
        calls += 1
        assert ctx.attempt == 1
        if calls < 4:
            raise RetryAfter(0, "rate limited")
        return calls

    async with app:
        done = await run_once(app, polite)
    assert (done.state, done.result, done.failures) == ("completed", 4, 0)
    assert [each.end for each in done.attempts] == ["snoozed"] * 3 + ["completed"]
    assert done.attempts[0].error == "RetryAfter: rate limited"


@pytest.mark.req("EXE-3")
async def test_retry_after_waits_as_long_as_asked(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("polite")
    async def polite() -> None:
        raise RetryAfter("1h")

    async with app:
        execution = await app.enqueue(polite)
        assert execution is not None
        row = await until(lambda: _snoozed(app, execution.id))
        assert (row.state, row.failures) == ("pending", 0)
        assert 3_590 < (row.start_at - row.created_at).total_seconds() < 3_630


async def _snoozed(app: Mainspring, id: str) -> Any:
    row = await app.get(id)
    return row if row.attempts else None


# --- payloads that no longer fit -----------------------------------------------------------------------------


@pytest.mark.req("EXE-14")
@pytest.mark.parametrize("alone", [True, False])
async def test_a_rolling_deploy_hands_back_what_this_release_cannot_read(
    nodes: Nodes, alone: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer release declares a further parameter. A worker of the older one may claim its work first."""
    monkeypatch.setattr(transitions, "MISMATCH_FIRST_DELAY", 0.05)
    if not alone:
        monkeypatch.setattr(transitions, "MISMATCH_PATIENCE_ALONE", 0.0)
    older, newer, second = nodes.app(poll_interval=FAST), nodes.app(poll_interval=FAST), nodes.app(poll_interval=NEVER)

    @older.job("greet", max_attempts=1)
    async def greet_older() -> str:
        return "hello"

    second.job("greet", max_attempts=1)(lambda: "not reached: it polls too rarely")

    @newer.job("greet", max_attempts=1)
    async def greet(name: str) -> str:
        return f"hello {name}"

    await newer.open()
    async with older:
        if not alone:
            await second.start(wakeups=False)
        execution = await newer.enqueue(greet, {"name": "ada"})
        assert execution is not None
        seen = await until(lambda: handed_back(older, execution.id))
        assert (seen.state, seen.reason, seen.failures) == ("pending", "payload_mismatch", 0)
        assert {each.end for each in seen.attempts} == {"handed_back"}
        assert "name" in (seen.error or "")
        async with newer:
            done = await ended(newer, execution)
        await second.close()
    assert (done.state, done.result, done.failures, done.reason) == ("completed", "hello ada", 0, None)
    assert 2 <= len(done.attempts) < 30, "no hot loop"
    lines = [each for each in caplog.records if getattr(each, "event", "") == "job_handed_back"]
    assert {each.levelname for each in lines} == {"WARNING"}


async def handed_back(app: Mainspring, id: str) -> Any:
    execution = await app.get(id)
    return execution if execution.attempts and execution.state == "pending" else None


@pytest.mark.req("EXE-14")
async def test_a_stored_payload_that_no_longer_fits_fails_that_execution_alone(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transitions, "MISMATCH_PATIENCE_ALONE", 0.05)
    old = nodes.app()

    @old.job("greet", max_attempts=2, retry=AT_ONCE)
    async def greet_old(name: str) -> str:
        return name

    await old.open()
    stale = await old.enqueue(greet_old, {"name": "ada"})
    await old.close()

    new = nodes.app()

    @new.job("greet", max_attempts=2, retry=AT_ONCE)
    async def greet(first_name: str) -> str:
        return first_name

    async with new:
        failed = await ended(new, stale)
        assert (failed.state, failed.reason, failed.failures) == ("failed", "payload_mismatch", 2)  # retryable
        assert [each.end for each in failed.attempts] == ["handed_back", "failed", "failed"]
        assert "first_name" in (failed.error or "")
        assert (await run_once(new, greet, {"first_name": "bob"})).result == "bob"


# --- work that runs inline -----------------------------------------------------------------------------------


@pytest.mark.req("EXE-13", "OBS-2")
async def test_tracked_work_is_recorded_while_it_runs_and_when_it_ends(nodes: Nodes) -> None:
    seen = Seen()
    async with nodes.client(observers=[seen]) as app:
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        async with app.track(
            "import",
            trigger="api",
            triggered_by="ada",
            params={"file": "a.csv"},
            traceparent=f"00-{trace}-00f067aa0ba902b7-01",
        ) as ctx:
            [running] = await app.executions(running=True)
            assert (running.id, running.job, running.state) == (ctx.execution_id, "import", "running")
            assert await state(app, "import") == "running"
            ctx.count(rows=3)
            ctx.progress(1, 2, "half")
            ctx.logger.info("reading %s", "a.csv")
            ctx.metadata["encoding"] = "utf-8"
        done = await app.get(ctx.execution_id)
        assert (done.state, done.trigger, done.triggered_by, done.trace_id) == ("completed", "api", "ada", trace)
        assert (done.params, done.counters, done.metadata) == (
            {"file": "a.csv"},
            {"rows": 3},
            {"encoding": "utf-8"},
        )
        assert {"done": 1, "total": 2, "message": "half", "percent": 50.0}.items() <= (done.progress or {}).items()
        assert [line.message for _, line in await app.logs(done.id)] == ["reading a.csv"]
        assert done.duration_ms is not None
        assert await state(app, "import") == "completed"
        assert [type(event).__name__ for event in seen.events] == ["Started", "AttemptEnded"]


@pytest.mark.req("EXE-13")
async def test_tracked_work_that_fails_is_recorded_and_raises_on(nodes: Nodes) -> None:
    async with nodes.client() as app:
        with pytest.raises(ZeroDivisionError):
            async with app.track("import") as ctx:
                _ = 1 / 0
        failed = await app.get(ctx.execution_id)
        assert (failed.state, failed.error) == ("failed", "ZeroDivisionError: division by zero")
        assert "_ = 1 / 0" in (failed.attempts[0].traceback or "")

        began = asyncio.Event()

        async def work() -> None:
            async with app.track("import"):
                began.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await began.wait()
        [running] = await app.executions(running=True)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await app.get(running.id)).state == "cancelled"


@pytest.mark.req("EXE-13")
def test_tracked_work_from_blocking_code(nodes: Nodes) -> None:
    app = nodes.app()
    with app.sync.track("import", triggered_by="cron") as ctx:
        ctx.count(rows=1)
    assert app.sync.get(ctx.execution_id).counters == {"rows": 1}
    with pytest.raises(KeyError), app.sync.track("import") as ctx:
        raise KeyError("missing")
    failed = app.sync.get(ctx.execution_id)
    assert (failed.state, failed.error) == ("failed", "KeyError: 'missing'")
    assert 'raise KeyError("missing")' in (failed.attempts[0].traceback or "")
    app.sync.close()


@pytest.mark.req("EXE-13")
async def test_tracked_work_of_a_known_job_excludes_nobody_and_wrong_words_are_refused(nodes: Nodes) -> None:
    app = nodes.app()
    gate = Gate(app, overlap="skip")
    async with app:
        run = await app.enqueue("gate")
        await gate.holds(run)
        async with app.track("gate") as ctx:
            assert (await app.get(ctx.execution_id)).state == "running"
        assert (await app.get(ctx.execution_id)).state == "completed"
        gate.open.set()
        await ended(app, run)
        for wrong in ({"trigger": "whim"}, {"params": {"a": object()}}, {"params": [1]}, {"triggered_by": 7}):
            with pytest.raises(InvalidValue, match=next(iter(wrong))):
                async with app.track("gate", **wrong):
                    raise AssertionError("never entered")
        with pytest.raises(InvalidValue, match="name: 'not a name' is not valid"):
            async with app.track("not a name"):
                raise AssertionError("never entered")


@pytest.mark.req("EXE-13", "WRK-3")
async def test_tracked_work_keeps_its_lease_for_as_long_as_it_takes(nodes: Nodes) -> None:
    """Three leases, in steps smaller than one: time passes when the beat before has got through."""
    clock = FakeClock()
    async with nodes.client(clock=clock, lease=10, heartbeat=0.02) as client:
        watch = nodes.app(clock=clock, lease=10, rescue_interval=0.01)
        Gate(watch)
        async with watch, client.track("import") as ctx:
            for _ in range(6):
                clock.advance(5)
                await until(lambda: _renewed(client, ctx.execution_id, clock.now() + 9_000_000), "it is renewed")
        assert (await client.get(ctx.execution_id)).state == "completed"


async def _renewed(app: Mainspring, id: str, past: int) -> bool:
    row = await app.get(id)
    assert row.state == "running"
    return (row_of(row).lease or 0) > past


class Away(MemoryStore):
    """A store that cannot be reached while `away` is true."""

    away = True

    def __getattribute__(self, name: str) -> Any:
        return self._no_answer if name in _CALLS and self.away else super().__getattribute__(name)

    def _no_answer(self, *args: Any, **kwargs: Any) -> Any:
        raise StoreUnavailable("nobody answers")


_CALLS = {"open", "now", "jobs", "write_jobs", "add", "exchange", "report", "execution", "find", "heartbeat", "links"}


@pytest.mark.req("EXE-13")
@pytest.mark.parametrize("gone", ["from the start", "at the beginning", "at the end", "until the application closes"])
async def test_tracked_work_runs_and_is_recorded_though_the_store_was_away(gone: str) -> None:
    store, seen = Away(SystemClock()), Seen()
    app = Mainspring(store, observers=[seen])
    if gone != "from the start":
        store.away = False
        await app.open()
        store.away = gone != "at the end"
    for error in (None, ZeroDivisionError("by hand"), Skip("nothing to do")):
        store.away = store.away or gone == "from the start"
        began = datetime.now(UTC)
        with contextlib.suppress(ZeroDivisionError, Skip):
            async with app.track("import", triggered_by="ada", params={"file": "a.csv"}) as ctx:
                ctx.count(rows=3)
                ctx.logger.info("reading")
                store.away = True
                if error is not None:
                    raise error
        over = datetime.now(UTC)
        if gone == "until the application closes":
            continue
        store.away = False
        done = await until(lambda id=ctx.execution_id: found(app, id))
        expected = {None: "completed", Skip: "skipped"}.get(error and type(error), "failed")  # type: ignore[arg-type]
        assert (done.id, done.state, done.triggered_by) == (ctx.execution_id, expected, "ada")
        assert (done.params, done.counters) == ({"file": "a.csv"}, {"rows": 3})
        assert [line.message for _, line in await app.logs(done.id)] == ["reading"]
        assert done.started_at is not None
        assert done.finished_at is not None
        assert began <= done.started_at <= done.finished_at <= over
        assert await until(lambda: len(seen.of(StoreLost)) == len(seen.of(Recovered)))
    assert {each.where for each in seen.of(StoreLost)} == {"tracked work"}
    if gone != "until the application closes":
        await app.close()
        assert len(seen.of(AttemptEnded)) == 3
        return
    assert len(seen.of(StoreLost)) == 1
    store.away = False
    await app.close()
    late = Mainspring(store)
    ends = [each.state.value for each in await late.executions("import")]
    assert sorted(ends) == ["completed", "failed", "skipped"]
    await late.close()


async def found(app: Mainspring, id: str) -> Execution | None:
    try:
        execution = await app.get(id)
    except ExecutionNotFound:
        return None
    return execution if execution.state.final else None


@pytest.mark.req("EXE-13")
async def test_records_that_the_store_never_took_are_logged_when_the_application_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inline, "MOST_LATE", 2)
    store, seen = Away(SystemClock()), Seen()
    app = Mainspring(store, observers=[seen])
    ids = []
    for _ in range(3):
        async with app.track("import") as ctx:
            ids.append(ctx.execution_id)
    await app.close()
    lost = [event.error for event in seen.of(Trouble)]
    assert lost == [f"the store took no record of the completed execution {id} of job 'import'" for id in ids]
