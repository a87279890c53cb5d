"""Jobs with tenants: one execution for each, a parent that waits for them, and what operators do with both."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from mainspring import (
    AlreadyRunning,
    Attempt,
    CommandRefused,
    Execution,
    InvalidValue,
    JobContext,
    Mainspring,
    NonRetryable,
    Retention,
    Retry,
    State,
    current_tenant,
)
from mainspring.core.engine import janitor
from mainspring.core.tenants.endings import CheckedParents
from mainspring.core.tenants.fan_out import MOST_HANGING
from mainspring.core.views.execution import row_of
from mainspring.model.events import AttemptEnded, Trouble
from mainspring.model.execution import ExecutionRow
from mainspring.model.store.messages import ExecutionQuery
from tests.support import DEADLINE, Nodes, Seen, ended, until

AT_ONCE = Retry("20ms", multiplier=1)


async def run_job(app: Mainspring, name: str = "nightly", **options: Any) -> Execution:
    return await ended(app, await app.trigger(name, **options))


async def states(app: Mainspring, parent: Execution) -> dict[str, str]:
    return {run.tenant: run.status.value for run in await app.tenants.runs(parent, limit=1_000)}


@pytest.mark.req("TEN-4", "EXE-7")
async def test_tenants_that_end_one_by_one_end_their_parent_without_the_safety_net(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follow-ups of each ending are done before the next tenant ends: each of them must look at the parent."""

    async def never(*_: object) -> CheckedParents:
        return CheckedParents(0, None)

    monkeypatch.setattr(janitor, "check_open_parents", never)
    app = nodes.app()
    gates = {name: asyncio.Event() for name in "abc"}

    @app.job("nightly", tenants=lambda: list(gates))
    async def nightly(ctx: JobContext) -> None:
        await gates[ctx.tenant or ""].wait()

    async with app:
        await app.start()
        parent = await app.trigger("nightly")

        async def state() -> str:
            return (await app.get(parent.id)).state.value

        async def all_run() -> dict[str, str]:
            found = {run.tenant: run.execution_id for run in await app.tenants.runs(parent, status="running")}
            return found if len(found) == len(gates) and await state() == "waiting" else {}

        async def follow_ups_done(tenant: str) -> bool:
            child = await app.get(ids[tenant])
            return child.state.final and not row_of(child).todo

        ids = await until(all_run, "all tenants run, and the parent waits")
        for name, gate in gates.items():
            assert await state() == "waiting"
            gate.set()
            await until(lambda: follow_ups_done(name), f"the follow-ups of {name} are done")  # noqa: B023
        assert await state() == "completed", "the follow-ups of the last tenant include the end of the parent"


@pytest.mark.req("TEN-1", "TEN-3", "TEN-4", "EXE-7")
async def test_the_handler_runs_once_for_each_tenant(nodes: Nodes) -> None:
    seen, entered = Seen(), list[str]()

    @contextmanager
    def schema(tenant: str) -> Iterator[None]:
        entered.append(f"into {tenant}")
        try:
            yield
        finally:
            entered.append(f"out of {tenant}")

    app = nodes.app(observers=[seen], tenant_context=schema, username="night shift", channel="batch")
    ran: list[tuple[Any, ...]] = []

    async def everybody(ctx: JobContext) -> list[str]:
        assert (ctx.job, ctx.tenant) == ("nightly", None)
        return ["acme", "böhm & co", "zeta"]

    @app.job("nightly", tenants=everybody, tenant_retry=AT_ONCE, params={"n": 1})
    async def nightly(ctx: JobContext, n: int) -> str:
        assert current_tenant.get() == ctx.tenant
        ran.append((ctx.tenant, ctx.username, ctx.channel, n))
        if ctx.tenant == "acme" and ctx.attempt < 3:
            raise OSError("not yet")
        return f"did {ctx.tenant}"

    async with app:
        parent = await run_job(app, params={"n": 7})
        assert (parent.state, parent.result) == (State.COMPLETED, {"total": 3, "success": 3, "failed": 0})
        assert parent.counters == parent.result
        assert [attempt.end for attempt in parent.attempts] == ["fanned_out"]
        assert Counter(ran) == {
            ("acme", "night shift", "batch", 7): 3,
            ("böhm & co", "night shift", "batch", 7): 1,
            ("zeta", "night shift", "batch", 7): 1,
        }
        assert sorted(entered) == sorted(f"{way} {name}" for name, *_ in ran for way in ("into", "out of"))
        records = {run.tenant: run for run in await app.tenants.runs(parent)}
        assert {name: run.attempts for name, run in records.items()} == {"acme": 3, "böhm & co": 1, "zeta": 1}
        child = await app.get(records["acme"].execution_id)
        assert (child.parent_id, child.trace_id, child.trigger) == (parent.id, parent.trace_id, "manual")
        assert (child.result, child.share, row_of(child).rules.max_attempts) == ("did acme", "acme", 3)
        assert records["acme"].duration_ms == child.duration_ms is not None
        assert (await app.job_view("nightly")).last_status == "completed"
        newest = await app.executions("nightly", limit=1)
        assert [each.id for each in newest] == [parent.id], "the parent comes before its tenants"
    assert current_tenant.get() is None
    final = [event for event in seen.of(AttemptEnded) if event.execution.id == parent.id and event.state.final]
    assert [event.state for event in final] == [State.COMPLETED]


@pytest.mark.req("TEN-1")
@pytest.mark.parametrize("limits", [{}, {"tenant_concurrency": 2}], ids=["free", "limited"])
async def test_tenants_start_in_the_order_of_their_list(nodes: Nodes, limits: dict[str, Any]) -> None:
    app = nodes.app(concurrency=1)
    started: list[str] = []
    listed = [f"{word}-{number}" for number in range(6) for word in ("zeta", "acme", "mid")]
    broken = ["zeta-1", "acme-2", "zeta-5", "mid-5"]

    @app.job("nightly", tenants=lambda: listed, **limits)
    async def nightly(ctx: JobContext) -> None:
        started.append(ctx.tenant or "")
        if ctx.trigger != "retry" and ctx.tenant in broken:
            raise NonRetryable("broken")

    async with app:
        parent = await run_job(app)
        assert (parent.state, started) == (State.PARTIAL, listed)
        expected = [*broken, *(each for each in listed if each not in broken)]
        assert [each.tenant for each in await app.tenants.runs(parent)] == expected, "the failed ones first"
        started.clear()
        await ended(app, await app.tenants.retry_failed(parent))
        assert started == broken
        started.clear()
        chosen = ["zeta-3", "mid-0", "acme-5", "mid-4"]
        await run_job(app, tenants=chosen)
        assert started == chosen


@pytest.mark.req("TEN-2", "TEN-3", "TEN-4")
async def test_a_tenant_that_fails_stops_nobody_and_is_run_again_alone(nodes: Nodes) -> None:
    app = nodes.app(concurrency=1)
    broken, ran = {"b", "d"}, list[str]()

    @app.job("nightly", tenants=["a", "b", "c", "d"], tenant_max_attempts=2, tenant_retry=AT_ONCE)
    async def nightly(ctx: JobContext) -> None:
        assert ctx.tenant is not None
        ran.append(ctx.tenant)
        if ctx.tenant in broken:
            raise ValueError(f"{ctx.tenant} is broken")

    async with app:
        parent = await run_job(app)
        assert (parent.state, parent.reason) == (State.PARTIAL, "children")
        assert parent.result == {"total": 4, "success": 2, "failed": 2}
        assert parent.error == "2 of 4 tenants did not complete"
        first = (await app.tenants.runs(parent, limit=2))[:2]
        assert {(run.tenant, run.status, run.attempts, run.error) for run in first} == {
            ("b", State.FAILED, 2, "ValueError: b is broken"),
            ("d", State.FAILED, 2, "ValueError: d is broken"),
        }
        assert {run.tenant for run in await app.tenants.runs(parent, offset=2)} == {"a", "c"}
        assert len(await app.tenants.runs(parent, status="failed")) == 2
        broken.clear()
        ran.clear()
        again = await app.tenants.retry_failed(parent, by="ada")
        done = await ended(app, again)
        assert (done.trigger, done.retry_of, done.triggered_by) == ("retry", parent.id, "ada")
        assert (done.state, done.result, sorted(ran)) == (
            State.COMPLETED,
            {"total": 2, "success": 2, "failed": 0},
            ["b", "d"],
        )
        [record] = await app.audits(f"execution:{parent.id}")
        assert (record.actor, record.action, record.after) == ("ada", "retry_failed", again.id)
        with pytest.raises(CommandRefused, match="completed"):
            await app.tenants.retry_failed(done)
        child = (await app.tenants.runs(done))[0].execution_id
        with pytest.raises(CommandRefused, match="several tenants"):
            await app.tenants.retry_failed(child)


@pytest.mark.req("TEN-3")
async def test_a_single_tenant_is_retried_beside_its_parent(nodes: Nodes) -> None:
    """The parent has ended, and stays as it ended. The retry holds no key of the job."""
    app, broken, gate = nodes.app(), {"b"}, asyncio.Event()

    @app.job("nightly", tenants=["a", "b"], tenant_max_attempts=1, overlap="skip")
    async def nightly(ctx: JobContext) -> None:
        if ctx.tenant in broken:
            raise ValueError
        if ctx.execution.retry_of is not None:
            await gate.wait()

    async with app:
        parent = await run_job(app)
        [failed] = await app.tenants.runs(parent, status="failed")
        broken.clear()
        retried = await app.retry(failed.execution_id)
        assert (retried.tenant, retried.parent_id, row_of(retried).overlap_key) == ("b", None, None)
        beside = await run_job(app)
        gate.set()
        assert (await ended(app, retried)).state is State.COMPLETED
        assert beside.state is State.COMPLETED
        assert (await app.get(parent.id)).state is State.PARTIAL


@pytest.mark.req("TEN-2")
async def test_without_continue_on_failure_those_that_have_not_started_are_cancelled(nodes: Nodes) -> None:
    app = nodes.app(concurrency=2)
    ran: list[str] = []

    @app.job("nightly", tenants=[f"t{n}" for n in range(40)], continue_on_failure=False, tenant_max_attempts=1)
    async def nightly(ctx: JobContext) -> None:
        assert ctx.tenant is not None
        ran.append(ctx.tenant)
        if len(ran) == 1:
            await until(lambda: len(ran) > 1)
            raise ValueError("the first one")
        await until(lambda: _stopped(app))

    async with app:
        parent = await run_job(app)
        found = Counter((await states(app, parent)).values())
        assert (found["failed"], found.total()) == (1, 40)
        assert found["cancelled"] > 0
        assert parent.state is State.PARTIAL
        assert parent.counters["cancelled"] == found["cancelled"]
        stopped = await app.tenants.runs(parent, status="cancelled")
        assert {run.reason for run in stopped} == {f"tenant {ran[0]} failed"}
        assert {run.tenant for run in stopped}.isdisjoint(ran)


async def _stopped(app: Mainspring) -> bool:
    return bool(await app.executions("nightly", status="cancelled", limit=1))


@pytest.mark.req("TEN-1")
async def test_the_first_list_counts_whatever_the_provider_says_later(nodes: Nodes) -> None:
    """The try that lists fails before anything is stored: the next one lists again. Once it is stored, it stays."""
    app = nodes.app()
    listings = [ConnectionError("no way to the registry"), ["a", "b"], ["b", "c"]]
    gate = asyncio.Event()

    def whoever() -> list[str]:
        assert threading.current_thread() is not threading.main_thread(), "a plain function holds up nobody"
        found = listings.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    @app.job("nightly", tenants=whoever, retry=AT_ONCE, overlap="allow")
    async def nightly(ctx: JobContext) -> None:
        await gate.wait()

    async with app:
        first = await app.trigger("nightly")
        await until(lambda: _begun(app, first, 2))
        second = await app.trigger("nightly")
        await until(lambda: _begun(app, second, 2))
        gate.set()
        for parent, tenants in ((first, {"a", "b"}), (second, {"b", "c"})):
            done = await ended(app, parent)
            assert (done.state, set(await states(app, done))) == (State.COMPLETED, tenants)
        tries = (await app.get(first.id)).attempts
        assert [(each.end, each.error) for each in tries] == [
            ("failed", "ConnectionError: no way to the registry"),
            ("fanned_out", None),
        ]


async def _begun(app: Mainspring, parent: Execution, count: int) -> bool:
    return len(await app.tenants.runs(parent, status="running")) == count


@pytest.mark.req("TEN-1")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (["a", "a"], "named twice"),
        (["a", ""], "1 to 200 characters"),
        (["a", 3], "printable text"),
        (["a\n"], "printable text"),
        ("acme", "as a list"),
        (None, "as a list"),
    ],
    ids=str,
)
async def test_an_answer_that_makes_no_sense_fails_the_try(memory_nodes: Nodes, answer: Any, words: str) -> None:
    app = memory_nodes.app()

    @app.job("nightly", tenants=lambda: answer, max_attempts=1)
    async def nightly(ctx: JobContext) -> None:
        raise AssertionError("it has no tenants")

    async with app:
        parent = await run_job(app)
        assert (parent.state, parent.reason) == (State.FAILED, "error")
        assert words in (parent.error or "")
        assert await app.tenants.runs(parent) == []
        with pytest.raises(CommandRefused, match="retry it as a whole"):
            await app.tenants.retry_failed(parent)


@pytest.mark.req("TEN-1", "EXE-8")
async def test_a_listing_that_wants_the_process_to_end_fails_its_try_and_nothing_else(memory_nodes: Nodes) -> None:
    app = memory_nodes.app()

    def leave() -> list[str]:
        raise SystemExit(3)

    async def leave_too() -> list[str]:
        raise SystemExit(4)

    app.job("plain", tenants=leave, max_attempts=1)(lambda: None)
    app.job("async", tenants=leave_too, max_attempts=1)(lambda: None)
    async with app:
        for name, code in (("plain", 3), ("async", 4)):
            parent = await run_job(app, name)
            assert (parent.state, parent.error) == (State.FAILED, f"SystemExit: {code}")


@pytest.mark.req("TEN-1")
async def test_no_tenants_is_done_at_once(nodes: Nodes) -> None:
    app = nodes.app()

    @app.job("nightly", tenants=[])
    async def nightly(ctx: JobContext) -> None: ...

    async with app:
        parent = await run_job(app)
        assert (parent.state, parent.counters) == (State.COMPLETED, {"total": 0, "success": 0, "failed": 0})


@pytest.mark.req("TEN-1")
@pytest.mark.parametrize("plain", [False, True])
async def test_a_listing_that_takes_too_long_is_stopped(memory_nodes: Nodes, plain: bool) -> None:
    """By the timeout of its job, by a cancel, and by the end of its worker."""
    app, end, asked = memory_nodes.app(), threading.Event(), list[bool]()

    async def slow() -> list[str]:
        asked.append(plain)
        await asyncio.Event().wait()
        return []

    def slow_in_thread() -> list[str]:
        asked.append(plain)
        end.wait(DEADLINE)
        return ["too late"]

    provider = slow_in_thread if plain else slow
    app.job("hasty", tenants=provider, timeout="50ms", max_attempts=1)(lambda: None)
    app.job("nightly", tenants=provider)(lambda: None)
    async with app:
        parent = await run_job(app, "hasty")
        assert (parent.state, parent.reason, parent.error) == (State.FAILED, "timeout", "timed out after 0.05 s")
        cancelled = await app.trigger("nightly")
        await until(lambda: len(asked) == 2)
        await app.cancel_execution(cancelled.id)
        assert (await ended(app, cancelled)).state is State.CANCELLED
        last = await app.trigger("nightly")
        await until(lambda: len(asked) == 3)
        await app.stop(timeout=2)
        left = await app.get(last.id)
        assert (left.state, [each.end for each in left.attempts]) == (State.PENDING, ["handed_back"])
        assert await app.tenants.runs(cancelled) == await app.tenants.runs(parent) == []
        end.set()


@pytest.mark.req("TEN-1")
async def test_a_listing_that_hangs_takes_no_thread_from_handlers_and_is_told_of(memory_nodes: Nodes) -> None:
    heard: list[Trouble] = []
    app, end = memory_nodes.app(concurrency=1), threading.Event()
    app.observe(lambda event: heard.append(event) if isinstance(event, Trouble) else None)

    def hangs() -> list[str]:
        end.wait(DEADLINE)
        return ["too late"]

    app.job("stuck", tenants=hangs, timeout="20ms", max_attempts=MOST_HANGING + 1, retry=AT_ONCE)(lambda: None)
    app.job("plain")(lambda: threading.current_thread().name)
    async with app:
        parent = await run_job(app, "stuck")
        threads = [f"mainspring-tenants-stuck-{number}" for number in range(1, MOST_HANGING + 1)]
        assert [each.end for each in parent.attempts] == ["timeout"] * MOST_HANGING + ["failed"]
        assert all(name in (parent.error or "") for name in threads), parent.error
        assert [each.where for each in heard] == ["tenants of job stuck"] * MOST_HANGING
        assert [name in each.error for name, each in zip(threads, heard, strict=True)] == [True] * MOST_HANGING
        assert (await run_job(app, "plain")).state is State.COMPLETED, "its only thread is free"
        end.set()
        await until(lambda: not [each for each in threading.enumerate() if each.name in threads])


@pytest.mark.req("TEN-1")
@pytest.mark.parametrize("declares", [False, True])
async def test_a_process_that_cannot_say_who_they_are(memory_nodes: Nodes, declares: bool) -> None:
    """It has the handler, but not this job: it leaves the parent to others. It has the job, which has no tenants any
    more: nobody will ever know."""
    web, worker = memory_nodes.app(), memory_nodes.app()
    for app in (web, worker):
        app.job("work", params={})(lambda: None)
    web.schedule("nightly", "work", tenants=["a"], retry=AT_ONCE)
    if declares:
        worker.schedule("nightly", "work")
    made = await web.trigger("nightly")
    async with worker:
        if declares:
            parent = await ended(worker, made)
            assert (parent.state, len(parent.attempts)) == (State.FAILED, 1)
            assert "no longer declared with tenants=" in (parent.error or "")
        else:
            tries = await until(lambda: _tries(worker, made))
            assert [each.end for each in tries] == ["snoozed"]
            assert "not the declaration of job 'nightly'" in (tries[0].error or "")
    await web.close()


async def _tries(app: Mainspring, execution: Execution) -> list[Attempt]:
    return (await app.get(execution.id)).attempts


@pytest.mark.req("TEN-1")
async def test_operators_run_it_for_some_or_for_one(nodes: Nodes) -> None:
    app = nodes.app()
    ran: list[str | None] = []

    @app.job("nightly", tenants=lambda: ["a", "b", "c"])  # a function is not asked about names that somebody gives
    async def nightly(ctx: JobContext) -> None:
        ran.append(ctx.tenant)

    app.job("listed", tenants=["acme", "globex"])(nightly)

    @app.job("plain")
    async def plain(ctx: JobContext) -> None:
        ran.append(ctx.tenant)

    async with app:
        some = await run_job(app, tenants=["b", "x"])
        assert (some.result, sorted(map(str, ran))) == ({"total": 2, "success": 2, "failed": 0}, ["b", "x"])
        ran.clear()
        one = await run_job(app, tenant="c")
        assert (one.tenant, one.parent_id, one.state, ran) == ("c", None, State.COMPLETED, ["c"])
        queued = await ended(app, await app.enqueue("nightly", tenant="d"))
        assert (queued.tenant, row_of(queued).rules.max_attempts, ran) == ("d", 3, ["c", "d"])
        assert (await run_job(app, "plain", tenant="e")).tenant == "e"
        with pytest.raises(InvalidValue, match="has no tenants"):
            await app.trigger("plain", tenants=["a"])
        with pytest.raises(InvalidValue, match="at least one"):
            await app.trigger("nightly", tenants=[])
        with pytest.raises(InvalidValue, match="either tenant or tenants"):
            await app.trigger("nightly", tenant="a", tenants=["b"])
        for misspelt in (
            app.trigger("listed", tenants=["acme", "globx"]),
            app.trigger("listed", tenant="globx"),
            app.enqueue("listed", tenant="globx"),
        ):
            with pytest.raises(InvalidValue, match="Did you mean 'globex'"):
                await misspelt
        assert await app.executions("listed") == []


@pytest.mark.req("TEN-1", "WIN-1")
async def test_a_parent_that_waits_holds_the_key_of_its_job(nodes: Nodes) -> None:
    app, gate = nodes.app(), asyncio.Event()

    @app.job("nightly", tenants=["a", "b"], overlap="skip")
    async def nightly(ctx: JobContext) -> None:
        await gate.wait()

    async with app:
        parent = await app.trigger("nightly")
        await until(lambda: _begun(app, parent, 2))
        with pytest.raises(AlreadyRunning):
            await app.trigger("nightly", tenants=["b"])
        gate.set()
        assert (await ended(app, parent)).state is State.COMPLETED
        assert (await run_job(app, tenants=["b"])).state is State.COMPLETED


@pytest.mark.req("TEN-1", "WIN-1")
async def test_a_parent_that_waits_makes_way_and_takes_its_tenants_along(nodes: Nodes) -> None:
    app, gate = nodes.app(fold_interval=0.1), asyncio.Event()

    @app.job("nightly", tenants=["a", "b"], overlap="cancel_running")
    async def nightly(ctx: JobContext) -> None:
        await gate.wait()

    async with app:
        first = await app.trigger("nightly")
        await until(lambda: _begun(app, first, 2))
        second = await app.trigger("nightly")
        over = await ended(app, first)
        assert (over.state, over.reason) == (State.CANCELLED, f"superseded by {second.id}")
        await until(lambda: _all_are(app, first, "cancelled"))
        gate.set()
        assert (await ended(app, second)).state is State.COMPLETED


async def _all_are(app: Mainspring, parent: Execution, state: str) -> bool:
    return set((await states(app, parent)).values()) == {state}


@pytest.mark.req("TEN-2", "EXE-5")
async def test_cancelling_a_parent_stops_its_tenants(nodes: Nodes) -> None:
    app = nodes.app(concurrency=2, fold_interval=0.1)

    @app.job("nightly", tenants=[f"t{n}" for n in range(6)])
    async def nightly(ctx: JobContext) -> None:
        await asyncio.Event().wait()

    async with app:
        parent = await app.trigger("nightly")
        await until(lambda: _begun(app, parent, 2))
        await app.cancel_execution(parent.id, by="ada")
        assert (await ended(app, parent)).state is State.CANCELLED
        await until(lambda: _all_are(app, parent, "cancelled"))
        reasons = {run.reason for run in await app.tenants.runs(parent)}
        assert reasons == {"its parent was cancelled: cancelled by ada"}
        again = await app.tenants.retry_failed(parent)
        await until(lambda: _begun(app, again, 2))
        await app.cancel("nightly", by="ada")
        assert (await ended(app, again)).state is State.CANCELLED
        await until(lambda: _all_are(app, again, "cancelled"))


@pytest.mark.req("TEN-1", "WIN-5")
async def test_each_window_of_a_backfill_runs_for_every_tenant(nodes: Nodes) -> None:
    app = nodes.app(fold_interval=0.1)
    ran: Counter[tuple[Any, str | None]] = Counter()

    @app.job("report", cron="0 3 * * *", window="yesterday", tenants=["a", "b", "c"], tenant_max_attempts=1)
    async def report(ctx: JobContext) -> None:
        ran[ctx.begin_date, ctx.tenant] += 1
        if ctx.tenant == "c" and ctx.begin_date and ctx.begin_date.day == 2:
            raise ValueError("not that day")

    async with app:
        made = await app.backfill("report", "2026-03-01", "2026-03-05", concurrency=2)
        over = await app.backfills.wait(made.id, timeout=DEADLINE)
        assert (over.state, over.completed, over.failed) == ("partial", 3, 1)
        assert (ran.total(), set(ran.values())) == (12, {1})
        windows = await app.windows("report", "2026-03-01", "2026-03-05")
        assert (windows.counts["done"], windows.counts["failed"]) == (3, 1)
        parents = await app.executions("report", trigger="backfill", status=["completed", "partial"], limit=50)
        assert sum(each.tenant is None and each.parent_id == made.id for each in parents) == 4


@pytest.mark.req("TEN-3", "FLW-2")
async def test_no_more_tenants_at_once_than_allowed(nodes: Nodes) -> None:
    app = nodes.app(concurrency=8)
    running, most = 0, 0

    @app.job("nightly", tenants=[f"t{n}" for n in range(12)], tenant_concurrency=2)
    async def nightly(ctx: JobContext) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    async with app:
        parent = await run_job(app)
        assert (parent.result["success"], most) == (12, 2)


@pytest.mark.req("TEN-1")
async def test_contexts_of_plain_and_async_handlers(memory_nodes: Nodes) -> None:
    app, entered = memory_nodes.app(), list[tuple[str, str | None]]()

    @asynccontextmanager
    async def waiting(ctx: JobContext) -> AsyncIterator[None]:
        entered.append(("async", ctx.tenant))
        yield

    @contextmanager
    def plain(tenant: str) -> Iterator[None]:
        entered.append(("plain", tenant))
        yield

    options: dict[str, Any] = {"tenants": ["a"], "tenant_max_attempts": 1}

    @app.job("async-in-async", tenant_context=waiting, **options)
    async def first(ctx: JobContext) -> None: ...

    @app.job("plain-in-async", tenant_context=plain, **options)
    async def second(ctx: JobContext) -> None: ...

    @app.job("plain-in-thread", tenant_context=plain, **options)
    def third(ctx: JobContext) -> None:
        assert current_tenant.get() == "a"

    @app.job("async-in-thread", tenant_context=waiting, **options)
    def fourth(ctx: JobContext) -> None: ...

    @app.job("no-context", tenant_context=lambda tenant: None, **options)
    def fifth(ctx: JobContext) -> None: ...

    async with app:
        for name, kind in (("async-in-async", "async"), ("plain-in-async", "plain"), ("plain-in-thread", "plain")):
            assert (await run_job(app, name)).state is State.COMPLETED
            assert entered.pop() == (kind, "a")
        for name, words in (("async-in-thread", "async def"), ("no-context", "not a context manager")):
            parent = await run_job(app, name)
            [run] = await app.tenants.runs(parent)
            assert run.status is State.FAILED
            assert NonRetryable.__name__ in (run.error or "")
            assert words in (run.error or "")


@pytest.mark.req("TEN-4", "HIS-2")
async def test_a_parent_counts_all_its_tenants_however_little_is_kept(nodes: Nodes) -> None:
    app, gate = nodes.app(concurrency=2, retention_interval=0.05), asyncio.Event()
    kept, others = Retention(newest=0, days=0, on_demand_success_days=0, at_most=1), list[str]()

    @app.job("nightly", tenants=[f"t{n:02}" for n in range(12)], retention=kept)
    async def nightly(ctx: JobContext) -> None:
        if ctx.tenant == "t11":
            await gate.wait()

    @app.job("other", retention=kept)
    async def other(ctx: JobContext) -> None:
        others.append(ctx.execution_id)

    async with app:
        parent = await app.trigger("nightly")
        await until(lambda: _completed(app, parent, 11))
        for _ in range(2):  # not waited for one by one: the first may be gone before anybody has seen its end
            await app.enqueue("other")
        await until(lambda: len(others) == 2)
        await until(lambda: _are_left(app, "other", 1), "retention has been at work meanwhile")
        gate.set()
        assert (await ended(app, parent)).result == {"total": 12, "success": 12, "failed": 0}


async def _completed(app: Mainspring, parent: Execution, count: int) -> bool:
    return len(await app.tenants.runs(parent, status="completed")) == count


async def _are_left(app: Mainspring, job: str, most: int) -> bool:
    return len(await app.executions(job)) <= most


@pytest.mark.req("TEN-1")
async def test_names_may_be_yielded_one_by_one_and_hold_up_nobody(memory_nodes: Nodes) -> None:
    app, where = memory_nodes.app(), list[str]()

    def plain() -> Iterator[str]:
        where.append(threading.current_thread().name)
        yield from ("a", "b")

    async def awaited() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    async def run(ctx: JobContext) -> None: ...

    for name, provider in (("plain", plain), ("awaited", awaited), ("forgotten", lambda: asyncio.sleep(0))):
        app.schedule(name, run, tenants=provider, tenant_max_attempts=1)
    async with app:
        for name in ("plain", "awaited"):
            assert (await ended(app, await app.trigger(name))).result == {"total": 2, "success": 2, "failed": 0}
        forgotten = await ended(app, await app.trigger("forgotten"))
    assert where != [threading.current_thread().name]
    assert "declare it with async def" in str(forgotten.error)


@pytest.mark.req("TEN-4")
def test_the_blocking_facade_reads_and_retries_too(sqlite_nodes: Nodes) -> None:
    app, broken = sqlite_nodes.app(), {"a"}

    @app.job("nightly", tenants=["a", "b"], tenant_max_attempts=1)
    def nightly(ctx: JobContext) -> None:
        if ctx.tenant in broken:
            raise ValueError

    with app.sync as facade:
        parent = facade.wait(facade.trigger("nightly"), timeout=DEADLINE)
        assert [run.tenant for run in facade.tenants.runs(parent)] == ["a", "b"]
        broken.clear()
        assert facade.wait(facade.tenants.retry_failed(parent), timeout=DEADLINE).result["total"] == 1


@pytest.mark.req("TEN-3")
async def test_a_tenant_that_ends_while_the_list_is_read_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Mainspring("memory://")
    release = asyncio.Event()

    @app.job("nightly", tenants=["a", "b"])
    async def nightly(ctx: JobContext) -> None:
        if ctx.tenant == "b":
            await release.wait()
            raise NonRetryable("no")

    async with app:
        parent = await app.trigger("nightly")
        await until(lambda: _states(app, parent, {"a": "completed", "b": "running"}))
        store = (await app._runtime.engine()).tenants._store
        find, looked = store.find, list[ExecutionQuery]()

        async def late_find(query: ExecutionQuery) -> list[ExecutionRow]:
            looked.append(query)
            if len(looked) == 1:  # b was counted as running, and ends before the running ones are read
                release.set()
                await app.wait(parent)
            return await find(query)

        monkeypatch.setattr(store, "find", late_find)
        runs = await app.tenants.runs(parent)
        assert {run.tenant: run.status for run in runs} == {"a": State.COMPLETED, "b": State.FAILED}
        assert looked


async def _states(app: Mainspring, parent: Execution, wanted: dict[str, str]) -> bool:
    return {run.tenant: run.status.value for run in await app.tenants.runs(parent)} == wanted
