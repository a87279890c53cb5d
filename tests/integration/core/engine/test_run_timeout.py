"""`run_timeout` through the engine: retries, waits, tenants; on this node and on others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import msgspec
import pytest

from mainspring import JobContext, Mainspring, Retry, State
from mainspring.app.adapters import SystemClock
from mainspring.core.commands.tenant_retries import TenantRun
from mainspring.core.engine.janitor import Janitor
from mainspring.core.render.entities import execution_json
from mainspring.core.rules import transitions
from mainspring.core.rules.new_execution import new_execution
from mainspring.core.views.job import job_of
from mainspring.model.events import AttemptEnded
from mainspring.model.execution import AttemptRecord, Outcome, encode_attempts
from mainspring.model.store.messages import ClaimRequest
from mainspring.model.time.instants import SECOND
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock, harness
from tests.support import DEADLINE, Nodes, ended, until

pytestmark = pytest.mark.req("OPS-2")


async def test_a_run_that_takes_too_long_is_stopped_and_fails(nodes: Nodes) -> None:
    app = nodes.app()
    left: list[float | None] = []

    @app.job("stuck", run_timeout="400ms", retry=Retry("10ms", multiplier=1))
    async def stuck(ctx: JobContext) -> None:
        left.append(ctx.remaining)
        if len(left) == 1:
            raise OSError("try again")
        await asyncio.Event().wait()

    async with app:
        over = await ended(app, await app.enqueue("stuck"))
        assert (over.state, over.reason) == (State.FAILED, "run_timeout")
        assert over.error == "the run took longer than its run_timeout of 400ms"
        assert [attempt.end for attempt in over.attempts] == ["failed", "timeout"]
        first, second = left
        assert first is not None
        assert second is not None
        assert 0 < second < first <= 0.4, "the second attempt has what the first one left"
        assert over.duration_ms is not None
        assert over.duration_ms >= 380


async def test_a_retry_that_would_come_too_late_does_not_come(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("flaky", run_timeout="1m", retry=Retry("2m"))
    async def flaky() -> None:
        raise OSError("gone")

    async with app:
        over = await ended(app, await app.enqueue("flaky"))
        assert (over.state, over.reason, len(over.attempts)) == (State.FAILED, "run_timeout", 1)
        assert over.error == "the run took longer than its run_timeout of 1m; its last error was OSError: gone"


async def test_a_parent_whose_time_is_up_fails_and_its_tenants_are_cancelled(nodes: Nodes) -> None:
    app = nodes.app()
    stopped: list[str | None] = []

    @app.job("nightly", tenants=["quick", "stuck", "never"], tenant_concurrency=1, run_timeout="600ms")
    async def nightly(ctx: JobContext) -> None:
        if ctx.tenant == "stuck":
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(ctx.tenant)

    async with app:
        parent = await ended(app, await app.trigger("nightly"))
        assert (parent.state, parent.reason) == (State.FAILED, "run_timeout")
        assert parent.error == "the run took longer than its run_timeout of 600ms"
        await until(lambda: stopped)

        async def all_ended() -> list[TenantRun]:
            runs = await app.tenants.runs(parent)
            return runs if all(run.status.final for run in runs) else []

        runs = await until(all_ended)
        assert {run.tenant: run.status for run in runs} == {
            "quick": State.COMPLETED,
            "stuck": State.CANCELLED,
            "never": State.CANCELLED,
        }
        reasons = {run.reason for run in runs if run.status is State.CANCELLED}
        assert reasons == {"its parent failed: run_timeout"}


async def test_any_node_ends_what_waits_past_its_time() -> None:
    """The parent waits for a tenant whose retry comes too late."""
    app = Mainspring("memory://")

    @app.job("nightly", cron="0 3 * * *", tenants=["a"], run_timeout="2h", tenant_retry=Retry("3h"))
    async def nightly() -> None:
        raise OSError("not yet")

    async with harness(app, start="2026-03-01T00:00Z", raise_errors=False) as kit:
        await kit.advance("4h")
        [parent] = [each for each in await app.executions("nightly") if each.parent_id is None]
        assert parent.state == "waiting"
        _, reasons = await app.why("nightly")
        [waits] = [each for each in reasons if each.code == "waiting_on_children"]
        assert waits.details["run_timeout_at"] == "2026-03-01T05:00:00Z"
        assert execution_json(parent)["run_timeout_at"] == "2026-03-01T05:00:00Z"
        await kit.advance("1h")
        over = await app.get(parent.id)
        assert (over.state, over.reason) == (State.FAILED, "run_timeout")
        assert {run.status for run in await app.tenants.runs(parent)} == {State.CANCELLED}


async def test_a_retry_that_is_claimed_too_late_does_not_begin() -> None:
    store = MemoryStore(SystemClock())
    app = Mainspring(store)
    ran: list[int] = []
    app.job("flaky", run_timeout="1m")(lambda: ran.append(1))
    await app.open()
    [job] = await store.jobs(["flaky"])
    now = await store.now()
    tried = encode_attempts([AttemptRecord(1, "w", now - 90 * SECOND, now - 80 * SECOND, "failed", "OSError: gone")])
    retry = msgspec.structs.replace(
        new_execution(job, trigger="enqueue", now=now - 90 * SECOND, chance=Random(0)),
        started=now - 90 * SECOND,
        failures=1,
        attempts_json=tried,
        error="OSError: gone",
    )
    await store.add([retry])
    async with app:
        over = await app.wait(retry.id, timeout=DEADLINE)
    assert (over.state, over.reason, len(over.attempts), ran) == (State.FAILED, "run_timeout", 1, [])


async def test_the_janitor_ends_a_retry_that_no_worker_claims() -> None:
    clock = FakeClock("2026-03-01T00:00Z")
    store = MemoryStore(clock)
    app = Mainspring(store, clock=clock)
    app.job("flaky", run_timeout="1m", retry=Retry("10s"))(lambda: None)
    await app.open()
    made = await app.enqueue("flaky")
    assert made is not None
    request = ClaimRequest(owner="w", handlers=frozenset({"flaky"}), queues=None, limit=1, lease=30.0)
    [claimed] = (await store.exchange([], request)).claimed
    outcome = Outcome(end="failed", started=clock.now(), ended=clock.now(), worker="w", error="OSError: gone")
    assert (await store.exchange([transitions.after_attempt(claimed, outcome)], None)).applied[0]
    events: list[object] = []
    janitor = Janitor(store, clock, Random(0), events.append)
    for seconds, state in ((59, State.PENDING), (1, State.FAILED)):
        clock.advance(seconds)
        await janitor.retain_once()
        found = await app.get(made.id)
        assert found.state is state
    assert (found.reason, found.error) == (
        "run_timeout",
        "the run took longer than its run_timeout of 1m; its last error was OSError: gone",
    )
    assert [(event.state, event.reason) for event in events if isinstance(event, AttemptEnded)] == [
        (State.FAILED, "run_timeout")
    ]
    await app.close()


async def test_the_setting_is_the_default_and_the_job_wins(tmp_path: Path) -> None:
    file = tmp_path / "mainspring.toml"
    file.write_text('database_url = "memory://"\n[lock]\ntimeout = "6h"\n')
    app = Mainspring(config_file=str(file))
    app.job("plain")(lambda: None)
    app.job("own", run_timeout="5m")(lambda: None)
    async with harness(app):
        views = {view.name: job_of(view).spec.run_timeout for view in await app.jobs()}
        assert views == {"plain": 21_600.0, "own": 300.0}
