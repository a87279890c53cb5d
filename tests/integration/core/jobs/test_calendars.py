"""Hours and calendars through the application, several schedulers and the command line, on each store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import CommandRefused, Execution, Hours, InvalidValue, Mainspring, cron, daily_at, hourly_at
from mainspring.core.engine.scheduler import Scheduler
from mainspring.core.forecast.forecast import forecast
from mainspring.core.jobs.calendars import CalendarNotFound
from mainspring.core.views.execution import row_of
from mainspring.core.views.job import job_of
from mainspring.model.calendars.calendar import Calendar, calendar
from mainspring.model.events import OutsideHours, Trouble
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.store.messages import ClaimRequest, JobWrite
from mainspring.model.time.instants import to_datetime, to_micros
from mainspring.testing.clock import FakeClock
from tests.acceptance.command_line import CommandLine
from tests.support import Nodes

START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
HOUR = 3_600.0
OFFICE = Hours("09:00-17:00", days="mon-fri")


class World:
    """Three schedulers that are stepped by hand, always all at once."""

    def __init__(self, nodes: Nodes) -> None:
        self.clock = FakeClock(START)
        self.events: list[Any] = []
        self.app = nodes.app(clock=self.clock)
        self.schedulers: list[Scheduler] = []

    async def __aenter__(self) -> World:
        await self.app.open()
        store = self.store
        self.schedulers = [Scheduler(store, self.clock, random.Random(n), self.events.append, 10.0) for n in range(3)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.app.close()

    @property
    def store(self) -> Any:
        assert self.app._runtime.parts is not None
        return self.app._runtime.parts.store

    async def pass_time(self, seconds: float, step: float = 600.0) -> None:
        until = self.clock.now() + int(seconds * 1_000_000)
        while self.clock.now() < until:
            self.clock.advance(min(step, (until - self.clock.now()) / 1_000_000))
            await asyncio.gather(*(scheduler.step() for scheduler in self.schedulers))

    async def runs(self, job: str) -> list[tuple[float, float]]:
        """Tick and due time in hours since the start, oldest first."""
        found = [each for each in await self.all(job) if row_of(each).tick is not None]
        return sorted((_hours(row_of(each).tick), _hours(row_of(each).due)) for each in found)

    async def all(self, job: str) -> list[Execution]:
        return await self.app.executions(job, limit=1_000)

    def told(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def _hours(at: int | None) -> float:
    assert at is not None
    return round((to_datetime(at) - START) / timedelta(hours=1), 3)


@pytest.fixture
def world(nodes: Nodes) -> World:
    return World(nodes)


# --- ticks --------------------------------------------------------------------------------------------------------


@pytest.mark.req("WIN-8")
async def test_several_schedulers_make_each_open_tick_once_and_no_other(world: World) -> None:
    world.app.job("report", trigger=hourly_at(0), hours=OFFICE)(lambda: None)
    async with world:
        await world.pass_time(48 * HOUR)
        expected = [float(hour) for day in (0, 24) for hour in range(day + 9, day + 17)]
        states = {each.state.value for each in await world.all("report")}
        assert sorted({tick for tick, _ in await world.runs("report")}) == expected
        assert len(await world.all("report")) == len(expected)
        assert states == {"pending", "skipped"}  # the first one waits for a worker, and overlap skips the others
        assert len(world.told(OutsideHours)) == 3


@pytest.mark.req("WIN-8")
@pytest.mark.parametrize("overlap", ["skip", "allow", "queue", "cancel_running"])
async def test_one_execution_waits_for_each_opening(world: World, overlap: str) -> None:
    world.app.job("report", trigger=cron("*/10 * * * *"), hours=OFFICE, outside="wait", overlap=overlap)(lambda: None)
    async with world:
        await world.pass_time(8 * HOUR)
        (waiting,) = await world.all("report")
        assert (_hours(row_of(waiting).tick), _hours(row_of(waiting).due), waiting.state) == (
            round(10 / 60, 3),
            9.0,
            "pending",
        )
        asked = ClaimRequest(owner="w", handlers=frozenset({"report"}), queues=None, limit=10, lease=60.0)
        assert (await world.store.exchange([], asked)).claimed == ()
        by_hand = await world.app.trigger("report")  # an operator may, whatever waits
        assert by_hand.state == "pending"
        (ran,) = (await world.store.exchange([], asked)).claimed
        await world.app.cancel_execution(ran.id)
        await world.pass_time(HOUR + 1)
        claimed = (await world.store.exchange([], asked)).claimed
        assert waiting.id in [each.id for each in claimed] if overlap == "allow" else claimed == ()


async def test_what_waits_runs_at_the_opening(world: World) -> None:
    world.app.job("report", trigger=daily_at("03:00"), hours=OFFICE, outside="wait", window="yesterday")(lambda: None)
    async with world:
        await world.pass_time(9 * HOUR)
        asked = ClaimRequest(owner="w", handlers=frozenset({"report"}), queues=None, limit=10, lease=60.0)
        (run,) = (await world.store.exchange([], asked)).claimed
        assert (_hours(run.tick), _hours(run.due)) == (3.0, 9.0)
        assert to_datetime(run.window_begin or 0) == START - timedelta(days=1)


@pytest.mark.req("WIN-8")
async def test_a_changed_calendar_is_in_force_within_seconds_and_nothing_is_replanned(world: World) -> None:
    world.app.calendars.declare("freeze", [])
    world.app.job("report", trigger=hourly_at(0), hours=Hours(closed="freeze"), overlap="allow")(lambda: None)
    async with world:
        await world.pass_time(2 * HOUR)
        before = job_of(await world.app.job_view("report"))
        view = await world.app.calendars.set("freeze", ["2026-01-05"], by="ada")
        assert (view.entries, view.origin, view.by) == (["2026-01-05"], "operator", "ada")
        assert job_of(await world.app.job_view("report")) == before
        closing = (await world.app.job_view("report")).closing
        assert closing is not None
        assert closing.words() == "closed until 2026-01-06 00:00 UTC, by calendar freeze"
        assert (await world.app.job_view("report")).next_run_at == START + timedelta(days=1)
        await world.pass_time(8 * HOUR)
        await world.app.calendars.revert("freeze")
        await world.pass_time(2 * HOUR)
        assert [tick for tick, _ in await world.runs("report")] == [1.0, 2.0, 11.0, 12.0]


async def test_calendars_are_read_once_for_a_pass_and_not_at_all_where_no_job_names_one(memory_nodes: Nodes) -> None:
    world = World(memory_nodes)
    world.app.calendars.declare("freeze", [])
    for name in ("a", "b", "c"):
        world.app.job(name, trigger=hourly_at(0), hours=OFFICE)(lambda: None)
    async with world:
        read: list[Any] = []
        real = world.store.entries

        async def counted(*arguments: Any) -> Any:
            read.append(arguments)
            return await real(*arguments)

        world.store.entries = counted
        await world.pass_time(HOUR, HOUR)
        assert read == []
        for name in ("a", "b", "c"):
            await world.app.update_job(name, hours=Hours(closed="freeze"))
        read.clear()
        await world.pass_time(HOUR, HOUR)
        assert len(read) == len(world.schedulers)


@pytest.mark.req("WIN-8")
async def test_a_job_whose_calendar_is_gone_is_held_back_loudly_and_loses_nothing(world: World) -> None:
    world.app.calendars.declare("freeze", [])
    world.app.job("report", trigger=hourly_at(0), hours=Hours(closed="freeze"), missed="latest")(lambda: None)
    world.app.job("other", trigger=hourly_at(0))(lambda: None)
    async with world:
        gone = EntryWrite(entry=Entry(kind="calendar", key="freeze"), remove=True)
        assert await world.store.write_entries([gone]) == [True]
        await world.pass_time(2 * HOUR)
        assert await world.runs("report") == []
        assert len({tick for tick, _ in await world.runs("other")}) == 2
        assert "calendar 'freeze' does not exist; jobs that name it do not run: report" in world.told(Trouble)[0].error
        assert "does not exist" in str((await world.app.job_view("report")).closing)
        await world.app.calendars.set("freeze", [])
        await world.pass_time(120, 30)
        assert [tick for tick, _ in await world.runs("report")] == [1.0, 2.0]
        assert sorted(each.reason or "" for each in await world.all("report")) == ["", "missed"]


async def test_hours_of_a_newer_release_hold_the_job_back_and_nothing_else(world: World) -> None:
    world.app.job("odd", trigger=hourly_at(0), hours=OFFICE)(lambda: None)
    world.app.job("other", trigger=hourly_at(0))(lambda: None)
    async with world:
        odd = job_of(await world.app.job_view("odd"))
        newer = odd.with_changes(overrides='{"hours":{"moon":"full"}}')
        assert (await world.store.write_jobs([JobWrite(job=newer, seen_version=odd.version)]))[0].won
        await world.pass_time(10 * HOUR)
        assert await world.runs("odd") == []
        assert len({tick for tick, _ in await world.runs("other")}) == 10
        assert "moon" in world.told(Trouble)[0].error
        assert {view.name: view.hours for view in await world.app.jobs()} == {"odd": None, "other": None}


# --- declaring and editing ----------------------------------------------------------------------------------------


@pytest.mark.req("WIN-8")
async def test_what_code_declares_follows_the_code_and_what_an_operator_set_stays(sqlite_nodes: Nodes) -> None:
    first = sqlite_nodes.app()
    first.calendars.declare("holidays", ["12-25"])
    first.job("report", trigger=hourly_at(0), hours=Hours(closed="holidays"))(lambda: None)
    async with first:
        pass
    second = sqlite_nodes.app()
    second.calendars.declare("holidays", ["12-25", "12-26"])
    second.job("report", trigger=hourly_at(0), hours=Hours(closed="holidays"))(lambda: None)
    await second.open()  # a look changes nothing
    assert (await second.calendars.get("holidays")).entries == ["12-25"]
    await second.close()
    async with second:
        assert (await second.calendars.get("holidays")).entries == ["12-25", "12-26"]
        await second.calendars.set("holidays", ["2026-05-01"], by="ada")
    async with second:
        assert (await second.calendars.get("holidays")).entries == ["2026-05-01"]
        assert (await second.calendars.revert("holidays", by="ada")).entries == ["12-25", "12-26"]
        actions = [(audit.action, audit.actor) for audit in await second.audits("calendar:holidays")]
        assert actions == [("revert_calendar", "ada"), ("set_calendar", "ada")]


async def test_unknown_calendars_are_refused_where_they_can_be_known(nodes: Nodes) -> None:
    app = nodes.app()
    app.calendars.declare("holidays", [])
    app.job("report", trigger=hourly_at(0), hours=Hours(closed="hollidays"))(lambda: None)
    with pytest.raises(InvalidValue, match=r"hours of job 'report': 'hollidays'.*Did you mean 'holidays'"):
        await app.start()
    await app.close()
    other = nodes.app()
    other.job("other", trigger=hourly_at(0))(lambda: None)
    await other.open()
    with pytest.raises(InvalidValue, match=r"Declare it: app.calendar\('blackout'"):
        await other.update_job("other", hours=Hours(closed="blackout"))
    await other.calendars.set("blackout", ["2026-05-01"])
    assert (await other.update_job("other", hours={"closed": ["blackout"]}, outside="wait")).hours is not None
    assert (await other.update_job("other", hours=None)).hours is None
    await other.close()


async def test_a_calendar_that_a_job_names_is_not_removed(nodes: Nodes) -> None:
    app = nodes.app()
    app.calendars.declare("holidays", ["12-25"])
    app.job("report", trigger=hourly_at(0), hours=Hours(closed="holidays"))(lambda: None)
    await app.open()
    with pytest.raises(CommandRefused, match="it is named by report"):
        await app.calendars.remove("holidays")
    assert await app.calendars.jobs("holidays") == ["report"]
    await app.update_job("report", hours=None)
    await app.calendars.remove("holidays", by="ada")
    assert [audit.action for audit in await app.audits("calendar:holidays")] == ["remove_calendar"]
    with pytest.raises(CalendarNotFound, match="no calendar named 'holidays'"):
        await app.calendars.get("holidays")
    await app.calendars.set("own", ["sat-sun"])
    with pytest.raises(CommandRefused, match="code declares it"):
        await app.calendars.revert("own")
    await app.close()


async def test_two_operators_at_once_lose_no_edit_unnoticed(nodes: Nodes) -> None:
    app = nodes.app()
    await app.open()
    await asyncio.gather(*(app.calendars.set("busy", [f"2026-05-{day:02}"], by="ada") for day in range(1, 6)))
    assert len(await app.audits("calendar:busy")) == 5
    assert len((await app.calendars.get("busy")).entries) == 1
    await app.close()


def test_hours_need_a_schedule() -> None:
    app = Mainspring("memory://")
    with pytest.raises(InvalidValue, match="hours of a job that has a trigger"):
        app.job("mail", hours="09:00-17:00")(lambda: None)
    with pytest.raises(InvalidValue, match="outside"):
        app.job("mail", cron="@daily", hours="09:00-17:00", outside="later")(lambda: None)


# --- forecasts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outside", ["skip", "wait"])
def test_a_forecast_keeps_to_hours_and_calendars(outside: str) -> None:
    app = Mainspring("memory://", timezone="America/New_York")
    hours = Hours("09:00-17:00", days="mon-fri", closed="holidays")
    app.job("report", trigger=cron("0 3,12 * * *"), hours=hours, outside=outside)(lambda: None)
    known: dict[str, Calendar] = {"holidays": calendar("holidays", ["2026-03-09"])}
    specs = app._runtime.registry.declared_jobs(None, "America/New_York")
    begin, end = datetime(2026, 3, 5, 5, tzinfo=UTC), datetime(2026, 3, 11, 4, tzinfo=UTC)
    found = forecast(specs, to_micros(begin), to_micros(end), "America/New_York", {}, None, known)
    runs = [f"{to_datetime(at):%d %H}" for at in found.jobs[0].ticks]
    skipping = ["05 17", "06 17", "10 16"]  # noon, before and after the clocks go forward
    waiting = ["05 14", "05 17", "06 14", "06 17", "10 13", "10 16"]
    assert runs == (skipping if outside == "skip" else waiting)


# --- the command line ---------------------------------------------------------------------------------------------

ICS = """BEGIN:VCALENDAR
BEGIN:VEVENT
SUMMARY:New year
DTSTART;VALUE=DATE:20270101
END:VEVENT
END:VCALENDAR
"""
SHOP = """
from mainspring import Hours, Mainspring

app = Mainspring("sqlite:///shop.db")
app.calendars.declare("holidays", ["12-25"])

@app.job("report", cron="0 * * * *", hours=Hours("09:00-09:01", days="mon", closed="holidays"))
async def report(ctx): ...
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "days.ics").write_bytes(ICS.encode())
    yield command_line
    command_line.close()


@pytest.mark.req("WIN-8")
def test_calendars_on_the_command_line(cli: CommandLine) -> None:
    app = ("--app", "shop:app")
    assert "holidays" in cli.text("calendars", "list", *app)
    made = cli.text("calendars", "set", "holidays", "--file", "days.ics", "--date", "12-26", *app)
    assert "2 entries" in made
    shown = cli.json("calendars", "show", "holidays", *app)
    assert shown["entries"] == [{"entry": "2027-01-01", "label": "New year"}, {"entry": "12-26", "label": ""}]
    assert (shown["jobs"], shown["origin"]) == (["report"], "operator")
    assert "New year" in cli.text("calendars", "show", "holidays", *app)
    cli.text("calendars", "remove", "holidays", *app, code=1)
    assert "1 entry" in cli.text("calendars", "revert", "holidays", *app)
    assert "hours" in cli.text("jobs", "show", "report", *app)
    cli.text("calendars", "set", "own", "--date", "someday", *app, code=2)
    cli.text("calendars", "set", "own", *app, code=2)
    cli.text("calendars", "set", "own", "--file", "shop.py", *app, code=2)
