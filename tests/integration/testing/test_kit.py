"""The testing kit, as somebody uses it who tests jobs of their own."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import InvalidValue, JobContext, JobNotFound, Mainspring, Retry, RetryAfter, cron, daily_at, every
from mainspring.model.policies import Retention
from mainspring.testing import BlockingKit, FakeClock, Kit, harness, stepping

pytestmark = pytest.mark.req("OPS-6")


class Shop:
    """An application as users write it: a database of its own, a resource, jobs that enqueue others."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "shop.db"
        self.app = Mainspring(f"sqlite:///{self.file}", resources={"mailer": "the real one"}, timezone="Europe/Paris")
        self.ran: list[Any] = []
        app = self.app

        @app.job("nightly", trigger=daily_at("02:30"), window="yesterday")
        async def nightly(ctx: JobContext) -> str:
            self.ran.append(ctx.scheduled_at)
            await app.enqueue(mail, {"to": "ada"}, start_at="10m", unique="ada")
            return str(ctx.window.begin) if ctx.window else ""

        @app.job("mail", queue="mails", priority=3)
        def mail(ctx: JobContext, to: str, copies: int = 1) -> dict[str, Any]:
            self.ran.append(to)
            return {"sent": copies, "by": str(ctx.resources.mailer)}

        @app.job("flaky", retry=Retry("1m"), max_attempts=4)
        def flaky(ctx: JobContext, good_at: int = 3) -> int:
            self.ran.append(ctx.attempt)
            if ctx.attempt < good_at:
                raise OSError(f"no answer at attempt {ctx.attempt}")
            return ctx.attempt

        self.nightly, self.mail, self.flaky = nightly, mail, flaky


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# --- time -------------------------------------------------------------------------------------------------------


def test_every_tick_on_the_way_happens_at_its_own_time(shop: Shop) -> None:
    with harness(shop.app, start="2026-03-28T00:00") as kit:
        kit.advance("3d")
    paris = [f"{at:%d %H:%M}" if isinstance(at, datetime) else at for at in shop.ran]
    # 02:30 in Paris is 01:30 in winter, does not exist on the 29th, and is 00:30 in summer
    assert paris == ["28 01:30", "ada", "29 01:00", "ada", "30 00:30", "ada"]


async def test_an_async_test_awaits_the_same_calls(shop: Shop) -> None:
    async with harness(shop.app, start="2026-05-01T00:00") as kit:
        await kit.advance("2h30m")
        kit.assert_ran(shop.nightly, at="2026-05-01T02:30", count=1)
        await kit.advance_to("2026-05-01T02:39:59")
        assert kit.executions(shop.mail, state="completed") == []
        await kit.advance(timedelta(seconds=1))
        kit.assert_ran(shop.mail, {"to": "ada"}, result={"sent": 1, "by": "the real one"})
        assert kit.now == datetime(2026, 5, 1, 0, 40, tzinfo=UTC)
        assert kit.next_run("nightly") == datetime(2026, 5, 2, 0, 30, tzinfo=UTC)


def test_retries_happen_after_their_backoff_and_nothing_sleeps(shop: Shop) -> None:
    began = time.monotonic()
    with harness(shop.app, raise_errors=False) as kit:
        execution = shop.app.sync.enqueue(shop.flaky)
        assert execution is not None
        kit.advance("59s")
        assert [row.state for row in kit.executions(shop.flaky)] == ["pending"]
        kit.advance("1h")
        (ended,) = kit.assert_ran(shop.flaky, result=3)
        assert [f"{attempt.started_at:%H:%M}" for attempt in ended.attempts] == ["00:00", "00:01", "00:03"]
    assert time.monotonic() - began < 60


def test_running_until_idle_leaps_to_the_next_try_but_not_to_the_next_tick(shop: Shop) -> None:
    with harness(shop.app, raise_errors=False) as kit:
        shop.app.sync.enqueue(shop.flaky, {"good_at": 99})
        shop.app.sync.enqueue(shop.mail, {"to": "bob"}, start_at="1d")
        kit.run_until_idle()
        kit.assert_failed(shop.flaky, error="no answer at attempt 4", count=1)
        assert shop.ran == [1, 2, 3, 4]
        assert kit.now == datetime(2026, 1, 1, 0, 7, tzinfo=UTC)
        assert [row.state for row in kit.executions(shop.mail)] == ["pending"]


def test_a_snooze_is_no_error() -> None:
    app, tries = Mainspring("memory://"), []

    @app.job("poll")
    def poll() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise RetryAfter("5m")

    with harness(app) as kit:
        app.sync.enqueue(poll)
        kit.run_until_idle()
        kit.assert_ran(poll, count=1)
        assert kit.clock.monotonic() == 600


def test_a_fixed_delay_is_counted_from_the_end_of_each_run() -> None:
    app = Mainspring("memory://")
    app.job("crawl", trigger=every(minutes=20, delay=True))(lambda: None)
    with harness(app) as kit:
        kit.advance("1h")
        kit.assert_ran("crawl", count=3)


def test_operators_commands_count(shop: Shop) -> None:
    with harness(shop.app, start="2026-05-01T00:00") as kit:
        shop.app.sync.pause("nightly", resume_at="2026-05-03T12:00Z")
        kit.advance("3d12h")
        kit.assert_ran("nightly", count=1, at="2026-05-04T02:30")
        enqueued = shop.app.sync.enqueue(shop.mail, {"to": "eve"}, start_at="1h")
        assert enqueued is not None
        shop.app.sync.cancel(enqueued)
        kit.advance("2h")
        assert "eve" not in shop.ran


def test_time_moves_forward_only(shop: Shop) -> None:
    with harness(shop.app) as kit:
        kit.advance("1d")
        with pytest.raises(InvalidValue, match="Time moves forward only"):
            kit.advance_to("2026-01-01T12:00Z")
        with pytest.raises(InvalidValue, match=r"advance: 'soon' is not valid"):
            kit.advance("soon")


class Importer:
    """A handler that is an object, which enqueues through the blocking facade."""

    name = "import"

    def __init__(self, app: Mainspring) -> None:
        self.app = app

    def perform(self, data: dict[str, Any], execution: Any) -> int:
        for number in range(data["files"]):
            self.app.sync.enqueue("mail", {"to": f"file-{number}"})
        return int(data["files"])


def test_plain_handlers_and_objects_may_enqueue(shop: Shop) -> None:
    shop.app.register(Importer(shop.app))
    with harness(shop.app) as kit:
        shop.app.sync.enqueue(Importer, {"files": 3})
        kit.run_until_idle()
        kit.assert_ran("import", result=3)
        kit.assert_ran(shop.mail, count=3)


async def test_plain_handlers_and_objects_may_enqueue_in_an_async_test_too(shop: Shop) -> None:
    shop.app.register(Importer(shop.app))
    async with harness(shop.app) as kit:
        await shop.app.enqueue(Importer, {"files": 3})
        await kit.run_until_idle()
        kit.assert_ran(shop.mail, count=3)


def test_a_handler_that_cancels_its_own_execution(shop: Shop) -> None:
    @shop.app.job("giving-up")
    async def giving_up(ctx: JobContext) -> None:
        await shop.app.cancel(ctx.execution)
        raise OSError("never mind")

    with harness(shop.app, raise_errors=False) as kit:
        shop.app.sync.enqueue(giving_up)
        kit.run_until_idle()
        assert [row.state for row in kit.executions(giving_up)] == ["cancelled"]


# --- what handlers raise ----------------------------------------------------------------------------------------


def test_what_a_handler_raises_fails_the_test(shop: Shop) -> None:
    with harness(shop.app) as kit:
        shop.app.sync.enqueue(shop.flaky)
        with pytest.raises(OSError, match="no answer at attempt 1") as raised:
            kit.run_until_idle()
        assert "attempt 1 of 4" in raised.value.__notes__[0]
        assert raised.traceback[-1].name == "flaky"
        with pytest.raises(OSError, match="attempt 2"):
            kit.advance("1h")
        kit.raise_errors = False
        kit.advance("1h")
        kit.assert_ran(shop.flaky)


async def test_what_an_async_handler_raises_too(shop: Shop) -> None:
    @shop.app.job("broken")
    async def broken() -> None:
        raise KeyError("order")

    async with harness(shop.app) as kit:
        await shop.app.enqueue(broken)
        with pytest.raises(KeyError, match="order"):
            await kit.run_until_idle()


def test_a_timeout_fails_the_test(shop: Shop) -> None:
    @shop.app.job("slow", timeout="20ms")
    async def slow() -> None:
        await asyncio.sleep(600)

    with harness(shop.app) as kit:
        shop.app.sync.enqueue(slow)
        with pytest.raises(TimeoutError, match=r"timed out after 0\.02 s"):
            kit.run_until_idle()


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_handler_that_never_ends_is_named(shop: Shop, kind: str) -> None:
    async def slow() -> None:
        await asyncio.sleep(600)

    def plain(ctx: JobContext) -> None:
        while not ctx.cancelled:
            time.sleep(0.01)

    shop.app.job("slow")(slow if kind == "async" else plain)
    with harness(shop.app, patience=0.1) as kit:
        shop.app.sync.enqueue("slow")
        with pytest.raises(AssertionError, match=r"handler of 'slow' has not ended after 0\.1 s of real time"):
            kit.run_until_idle()


def test_work_without_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, "MANY", 20)
    app = Mainspring("memory://")

    @app.job("again")
    async def again() -> None:
        await app.enqueue(again)

    @app.job("later")
    def later() -> None:
        raise RetryAfter("1m")

    with harness(app) as kit:
        app.sync.enqueue(later)
        with pytest.raises(AssertionError, match=r"not idle after 20 runs: later is retried again and again"):
            kit.run_until_idle()
        app.sync.enqueue(again)
        with pytest.raises(AssertionError, match=r"more than 20 runs at one instant, the last of 'again'"):
            kit.advance(0)


# --- asking and asserting ---------------------------------------------------------------------------------------


def test_what_was_enqueued_can_be_asserted_before_and_after_it_ran(shop: Shop) -> None:
    with harness(shop.app) as kit:
        shop.app.sync.enqueue(shop.mail, {"to": "ada", "copies": 2}, start_at="10m", unique="ada", queue="slow")
        shop.app.sync.enqueue(shop.mail, {"to": "bob"})
        assert shop.app.sync.enqueue(shop.mail, {"to": "ada"}, unique="ada") is None
        for _ in range(2):
            (made,) = kit.assert_enqueued(shop.mail, {"to": "ada"}, start_at="10m", unique="ada", queue="slow")
            assert made.params == {"to": "ada", "copies": 2}
            kit.assert_enqueued("mail", start_at="2026-01-01T01:10", count=1)  # in the application's zone
            kit.assert_enqueued(shop.mail, count=2)
            kit.assert_enqueued(shop.mail, priority=3, count=2)
            kit.assert_not_enqueued(shop.mail, {"to": "eve"})
            kit.assert_not_enqueued(shop.nightly)
            kit.advance("30m")
        kit.assert_ran(shop.mail, count=2)


def test_a_failed_assertion_shows_what_there_was_instead(shop: Shop) -> None:
    with harness(shop.app, raise_errors=False) as kit:
        with pytest.raises(AssertionError) as nothing:
            kit.assert_enqueued(shop.mail)
        assert str(nothing.value) == "'mail' was not enqueued\nenqueued were:\n  (nothing)"
        shop.app.sync.enqueue(shop.mail, {"to": "ada"}, start_at="90s", unique="ada")
        shop.app.sync.enqueue(shop.flaky, {"good_at": 99})
        kit.advance("30m")
        with pytest.raises(AssertionError) as other:
            kit.assert_enqueued(shop.mail, {"to": "bob"}, unique="bob", count=2)
        assert str(other.value).splitlines()[:3] == [
            "'mail' with params={'to': 'bob'}, unique='bob' was not enqueued, expected: twice",
            "enqueued were:",
            "  mail  params={'to': 'ada'}  completed  start_at=2026-01-01T00:01:30Z (+1m30s)  unique='ada'"
            "  queue='mails'  priority=3",
        ]
        with pytest.raises(AssertionError) as failed:
            kit.assert_ran(shop.flaky)
        assert "'flaky' has not completed\nexecutions are:\n  flaky" in str(failed.value)
        assert "OSError: no answer at attempt 4" in str(failed.value)
        with pytest.raises(AssertionError, match="was enqueued once, expected: never"):
            kit.assert_not_enqueued(shop.mail)
        with pytest.raises(AssertionError, match="has not failed for good with an error that says 'disk full'"):
            kit.assert_failed(shop.flaky, error="disk full")
        with pytest.raises(AssertionError, match=r"mail .* completed  result={'sent': 1, 'by': 'the real one'}"):
            kit.assert_ran(shop.mail, result={"sent": 2})
        with pytest.raises(AssertionError, match="has completed once with result"):
            kit.assert_ran(shop.mail, count=0, result={"sent": 1, "by": "the real one"})


def test_a_misspelt_name_never_passes(shop: Shop) -> None:
    with harness(shop.app) as kit:
        with pytest.raises(JobNotFound, match="did you mean 'nightly'"):
            kit.assert_not_enqueued("nihgtly")
        with pytest.raises(JobNotFound):
            kit.executions("males")
        with pytest.raises(InvalidValue, match="'complete' is not valid"):
            kit.executions(state="complete")
        with pytest.raises(InvalidValue, match="count"):
            kit.assert_not_enqueued("mail", count=2)


def test_successes_that_are_not_kept_in_production_are_seen(shop: Shop) -> None:
    shop.app.job("ping", retention=Retention(keep_success=False))(lambda: "pong")
    with harness(shop.app) as kit:
        shop.app.sync.enqueue("ping")
        kit.run_until_idle()
        kit.assert_ran("ping", result="pong")


def test_overlap_is_that_of_production(shop: Shop) -> None:
    @shop.app.job("hourly", trigger=cron("0 * * * *"), retry=Retry("90m"), max_attempts=2)
    def hourly(ctx: JobContext) -> None:
        if ctx.attempt == 1:
            raise OSError("busy")

    with harness(shop.app, start="2026-05-05T00:30Z", raise_errors=False) as kit:
        kit.advance("1h30m")
        states = [(row.state.value, row.reason) for row in kit.executions(hourly)]
        assert states == [("pending", None), ("skipped", "overlap")]


# --- the application --------------------------------------------------------------------------------------------


def test_the_application_is_as_before_afterwards(shop: Shop) -> None:
    app = shop.app
    before = (app._runtime.clock, app.settings, app._runtime.resources, dict(app._runtime.resources))
    with harness(app, resources={"mailer": "a fake"}) as kit:
        app.provide("database", "another fake")
        assert kit.app is app
        app.sync.enqueue(shop.mail, {"to": "ada"})
        kit.run_until_idle()
        kit.assert_ran(shop.mail, result={"sent": 1, "by": "a fake"})
    assert (app._runtime.clock, app.settings, app._runtime.resources, dict(app._runtime.resources)) == before
    assert not shop.file.exists()
    assert asyncio.run(_stored(app)) == []
    assert shop.file.exists()


async def _stored(app: Mainspring) -> list[Any]:
    try:
        return await app.executions()
    finally:
        await app.close()


def test_every_test_begins_with_nothing(shop: Shop) -> None:
    for _ in range(2):
        with harness(shop.app) as kit:
            assert kit.executions() == []
            shop.app.sync.enqueue(shop.mail, {"to": "ada"})
            kit.run_until_idle()
            kit.assert_ran(shop.mail, count=1)


def test_the_same_seed_gives_the_same_run(shop: Shop) -> None:
    def ids(seed: int) -> list[str]:
        with harness(shop.app, seed=seed) as kit:
            shop.app.sync.enqueue(shop.mail, {"to": "ada"})
            kit.advance("2d")
            return [execution.id for execution in kit.executions()]

    assert ids(1) == ids(1) != ids(2)


async def test_code_that_starts_the_application_starts_no_second_worker(shop: Shop) -> None:
    """As the lifespan of a web framework does."""
    async with harness(shop.app) as kit:
        async with shop.app:
            await shop.app.enqueue(shop.mail, {"to": "ada"})
            assert await shop.app.workers() == []
        kit.assert_enqueued(shop.mail)
        await kit.run_until_idle()
        kit.assert_ran(shop.mail)


async def test_nothing_reaches_a_server() -> None:
    """Nobody listens at these addresses."""
    app = Mainspring(
        "postgresql://nobody@127.0.0.1:1/none", locks="redis", redis_wakeups=True, redis_url="redis://127.0.0.1:1"
    )

    @app.job("careful")
    async def careful() -> None:
        async with app.lock("one-at-a-time"):
            pass

    async with harness(app) as kit:
        await app.enqueue(careful)
        await kit.run_until_idle()
        kit.assert_ran(careful)


async def test_a_running_application_is_refused(shop: Shop) -> None:
    async with shop.app:
        with pytest.raises(RuntimeError, match="the application runs already"):
            await harness(shop.app).__aenter__()


async def test_the_wrong_kind_of_with_says_which_is_right(shop: Shop) -> None:
    with pytest.raises(RuntimeError, match="write `async with harness"), harness(shop.app):
        pass


def test_bad_arguments_are_told(shop: Shop) -> None:
    with pytest.raises(InvalidValue, match="Import the object that your jobs are declared on"):
        harness(shop)  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="nothing beside clock="):
        harness(shop.app, clock=FakeClock(), start="2026-01-01T00:00Z")


async def test_work_that_is_tracked_inline_is_seen(shop: Shop) -> None:
    async with harness(shop.app) as kit:
        async with shop.app.track("import", triggered_by="ada") as ctx:
            ctx.count(rows=3)
        (tracked,) = kit.executions("import")
        assert (tracked.state, tracked.counters) == ("completed", {"rows": 3})


def test_what_handlers_report_is_kept(shop: Shop) -> None:
    @shop.app.job("import")
    def bring_in(ctx: JobContext) -> None:
        ctx.count(rows=3)
        ctx.logger.info("three rows")

    with harness(shop.app) as kit:
        shop.app.sync.enqueue(bring_in)
        kit.run_until_idle()
        (ended,) = kit.assert_ran(bring_in)
        assert ended.counters == {"rows": 3}
        assert [line.message for _, line in shop.app.sync.logs(ended.id)] == ["three rows"]


def test_both_kits_can_do_the_same() -> None:
    assert {name for name in dir(Kit) if not name.startswith("_")} == {
        name for name in dir(BlockingKit) if not name.startswith("_") and name != "close"
    }
