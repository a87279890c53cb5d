"""`mainspring simulate`: its ticks are those of the real scheduler, its skips those of the real keys."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import Limit, Mainspring, any_of, cron, daily_at, every, hourly_at, monthly_at, once, weekly_at
from mainspring.core.forecast import ticks as simulated_ticks
from mainspring.core.forecast.forecast import Forecast, forecast
from mainspring.core.forecast.overlaps import overlaps
from mainspring.core.rules import ticks, transitions
from mainspring.core.views.execution import row_of
from mainspring.model.execution import ExecutionRow, Outcome
from mainspring.model.store.messages import ClaimRequest
from mainspring.model.time.instants import SECOND, Micros, to_datetime, to_micros
from mainspring.model.triggers import Trigger
from mainspring.stores.memory import MemoryStore
from mainspring.testing import FakeClock, harness
from tests.acceptance.command_line import CommandLine

SHOP = """
from mainspring import Mainspring, cron, daily_at, every

app = Mainspring("sqlite:///shop.db", timezone="Europe/Paris")

@app.job("report", trigger=daily_at("02:30"))
async def report(ctx): ...

@app.job("careful", trigger=cron("30 2 * * *", gap="skip", overlap="both"))
async def careful(ctx): ...

@app.job("crawl", trigger=every(minutes=30))
async def crawl(ctx): ...

@app.job("mail")
async def mail(ctx): ...
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    yield command_line
    command_line.close()


def simulated(app: Mainspring, begin: str, end: str, **durations: float) -> Forecast:
    specs = app._runtime.registry.declared_jobs(app.settings.lookup, app.settings.timezone)
    first, last = (to_micros(datetime.fromisoformat(at)) for at in (begin, end))
    return forecast(specs, first, last, app.settings.timezone, durations)


def nothing() -> None: ...


# --- the same as the engine -------------------------------------------------------------------------------------

TRIGGERS: dict[str, Trigger] = {
    "wall-clock": cron("*/20 * * * *"),
    "hourly": hourly_at(17),
    "six-fields": cron("15 45 */3 * * *"),
    "daily": daily_at("02:30"),
    "shifted": cron("30 2 * * *", gap="shift", overlap="second"),
    "skipped": cron("30 2 * * *", gap="skip", overlap="both"),
    "working-days": cron("0 9,17 * * MON-FRI"),
    "weekly": weekly_at("sun", "02:15"),
    "monthly": monthly_at(31, "23:59"),
    "rate": every(minutes=50),
    "rate-with-start": every(hours=5, start="2020-02-02T02:02:02Z"),
    "odd-rate": every(seconds=1000.5),
    "delay": every(minutes=70, delay=True),
    "once": once("2026-03-29T00:45:00Z"),
    "once-long-gone": once("2020-01-01T00:00:00Z"),
    "any-of": any_of(daily_at("02:30"), hourly_at(5), every(hours=7)),
    "spread": hourly_at(0).spread("30m"),
    "jitter": any_of(daily_at("02:30"), hourly_at(0)).jitter("2h"),
    "except": hourly_at(40).excluding("2026-03-29"),
}


@pytest.mark.req("TIM-4", "OPS-6")
@pytest.mark.parametrize(
    ("zone", "begin", "end"),
    [
        ("Europe/Paris", "2026-03-26T12:00:30+00:00", "2026-04-01T00:00:00+00:00"),
        ("America/New_York", "2026-10-29T12:00:30+00:00", "2026-11-04T00:00:00+00:00"),
        ("Australia/Lord_Howe", "2026-04-02T03:00:30+00:00", "2026-04-07T00:00:00+00:00"),
    ],
)
def test_every_simulated_tick_is_one_of_the_real_scheduler(zone: str, begin: str, end: str) -> None:
    app = Mainspring("memory://", timezone=zone)
    for name, trigger in TRIGGERS.items():
        app.job(name, trigger=trigger)(nothing)
    with harness(app, start=begin) as kit:
        kit.advance_to(end)
        real = {name: [row_of(row).started for row in kit.executions(name, state="completed")] for name in TRIGGERS}
    last = to_micros(datetime.fromisoformat(end))
    found = {job.name: list(job.ticks) for job in simulated(app, begin, end).jobs}
    assert found == {name: [at for at in starts if at is not None and at < last] for name, starts in real.items()}
    assert sum(map(len, found.values())) > 800


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize("span", [("2026-03-01", "2026-04-18"), ("2026-10-10", "2026-11-16")], ids=["spring", "autumn"])
def test_stretches_laid_out_at_once_are_what_the_scheduler_decides_tick_by_tick(
    span: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(span[0])
    app = Mainspring("memory://")
    for number in range(40):
        zone = chance.choice(["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Africa/Casablanca"])
        more = {"limits": [Limit("stock", concurrency=2)]} if number % 4 == 0 else {}
        app.job(f"job-{number}", trigger=drawn(chance), tz=zone, **more)(nothing)
    begin, end = (f"{day}T00:00:00+00:00" for day in span)
    quick = {job.name: list(job.ticks) for job in simulated(app, begin, end).jobs}
    monkeypatch.setattr(simulated_ticks, "is_plain", lambda spec: False)
    assert quick == {job.name: list(job.ticks) for job in simulated(app, begin, end).jobs}
    assert len(quick) == 40


def drawn(chance: Random) -> Trigger:
    minute, hour = chance.randrange(60), chance.randrange(24)
    hours = chance.choice([f"{hour}", f"*/{chance.randrange(2, 12)}", f"{hour},{(hour + 5) % 24}"])
    days = chance.choice(["* * *", "* * MON-FRI", "13 * FRI", "L * *", "*/5 * *", "? * SAT#2", "1-7 JAN,JUL MON-SUN"])
    calendar = cron(f"{minute} {hours} {days}")
    interval = every(minutes=chance.randrange(120, 2000))
    holidays = hourly_at(minute).excluding("2026-03-29", "2026-12-25", cron(f"{minute} 12 * * *"))
    monthly = monthly_at(30, f"{hour:02}:05")
    whole = chance.choice([calendar, calendar, interval, any_of(calendar, interval), monthly, holidays])
    return chance.choice([whole, whole, whole.spread("20m"), whole.jitter("3h")])


def test_where_the_scheduler_knows_better_it_is_asked_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Mainspring("memory://")
    app.job("hourly", trigger=hourly_at(0))(nothing)
    span = ("2026-05-01T00:00:00+00:00", "2026-05-03T00:00:00+00:00")
    right = list(simulated(app, *span).jobs[0].ticks)
    wrong = [right[0] + number * 1800 * SECOND for number in range(96)]
    monkeypatch.setattr(simulated_ticks, "_in_steady_time", lambda *_: wrong)
    assert list(simulated(app, *span).jobs[0].ticks) == right


def test_a_job_with_a_field_unknown_to_the_quick_way_is_decided_tick_by_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Mainspring("memory://")
    app.job("hourly", trigger=hourly_at(0), queue="slow")(nothing)
    decided: list[Micros] = []
    real = ticks.materialise

    def counted(job: Any, now: Micros, chance: Any, calendars: Any) -> Any:
        decided.append(now)
        return real(job, now, chance, calendars)

    monkeypatch.setattr(ticks, "materialise", counted)
    span = ("2026-05-01T00:00:00+00:00", "2026-05-03T00:00:00+00:00")
    assert simulated(app, *span).runs == 48
    assert len(decided) < 5
    decided.clear()
    monkeypatch.setattr(simulated_ticks, "WITHOUT_EFFECT", simulated_ticks.WITHOUT_EFFECT - {"queue"})
    assert simulated(app, *span).runs == len(decided) == 48


# --- overlaps ---------------------------------------------------------------------------------------------------


class RealKeys:
    """The outcomes that a store's keys give, when every run takes equally long and a worker is always free."""

    def __init__(self, app: Mainspring, begin: Micros, duration: Micros) -> None:
        self.clock, self.duration, self.chance = FakeClock(begin), duration, Random(3)
        self.store = MemoryStore(self.clock)
        ((name, spec),) = app._runtime.registry.declared_jobs(app.settings.lookup, "UTC")
        self.job = simulated_ticks.planned(name, spec, begin, self.chance)
        self.running: list[tuple[Micros, ExecutionRow]] = []

    async def outcomes(self, end: Micros) -> dict[Micros, str]:
        found = {}
        while self.job.next_run is not None and self.job.next_run < end:
            tick = self.job.next_run
            await self._end_runs_until(tick)
            self._move_to(tick)
            others = len(self.running)
            write = ticks.materialise(self.job, tick, self.chance)
            (added,) = await self.store.add(write.executions)
            self.job = write.job
            began = await self._begin_runs()
            if added.outcome == "skipped":
                found[tick] = "skipped"
            elif write.executions[0].id not in began:
                found[tick] = "waits"
            elif others:
                found[tick] = "beside"
        return found

    async def _end_runs_until(self, tick: Micros) -> None:
        while self.running and self.running[0][0] <= tick:
            at, execution = self.running.pop(0)
            self._move_to(at)
            outcome = Outcome(end="completed", started=at, ended=at, worker="w")
            await self.store.exchange([transitions.after_attempt(execution, outcome)], None)
            await self._begin_runs()

    async def _begin_runs(self) -> set[str]:
        request = ClaimRequest(owner="w", handlers=frozenset({self.job.name}), queues=None, limit=100, lease=1e6)
        claimed = (await self.store.exchange([], request)).claimed
        self.running += [(self.clock.now() + self.duration, execution) for execution in claimed]
        return {execution.id for execution in claimed}

    def _move_to(self, at: Micros) -> None:
        self.clock.advance((at - self.clock.now()) / SECOND)


@pytest.mark.req("WIN-1")
@pytest.mark.parametrize("minutes", [10, 20, 29, 45, 61, 200])
@pytest.mark.parametrize("policy", [{"overlap": "skip"}, {"overlap": "queue"}, {"overlap": "allow"}, {"limit": 2}])
async def test_predicted_overlaps_are_those_of_the_real_keys(policy: dict[str, Any], minutes: int) -> None:
    options = {"overlap": "allow", "overlap_limit": policy["limit"]} if "limit" in policy else policy
    app = Mainspring("memory://")
    app.job("crawl", trigger=cron("*/20,50 * * * *"), **options)(nothing)
    begin, end = "2026-05-01T00:00:30+00:00", "2026-05-01T12:00:00+00:00"
    first, last = (to_micros(datetime.fromisoformat(at)) for at in (begin, end))
    real = await RealKeys(app, first, minutes * 60 * SECOND).outcomes(last)
    (job,) = simulated(app, begin, end, crawl=minutes * 60.0).jobs
    assert job.overlaps.outcomes == real
    assert (minutes > 10) == bool(real)


POLICIES = st.sampled_from([{"overlap": "skip"}, {"overlap": "queue"}, {"overlap": "allow"}]) | st.integers(1, 4).map(
    lambda limit: {"overlap": "allow", "overlap_limit": limit}
)


@pytest.mark.req("WIN-1")
@given(policy=POLICIES, minutes=st.sets(st.integers(0, 59), min_size=1, max_size=8), seconds=st.integers(1, 10_000))
async def test_any_policy_overlaps_as_the_keys_of_the_engine_say(
    policy: dict[str, Any], minutes: set[int], seconds: int
) -> None:
    app = Mainspring("memory://")
    app.job("crawl", trigger=cron(f"{','.join(map(str, sorted(minutes)))} * * * *"), **policy)(nothing)
    begin, end = "2026-05-01T00:00:30+00:00", "2026-05-01T04:00:00+00:00"
    first, last = (to_micros(datetime.fromisoformat(at)) for at in (begin, end))
    (job,) = simulated(app, begin, end, crawl=float(seconds)).jobs
    assert job.overlaps.outcomes == await RealKeys(app, first, seconds * SECOND).outcomes(last)


def test_a_run_that_cancels_the_one_before_it() -> None:
    app = Mainspring("memory://")
    app.job("crawl", trigger=every(minutes=30), overlap="cancel_running")(nothing)
    (job,) = simulated(app, "2026-05-01T00:00:00+00:00", "2026-05-01T02:01:00+00:00", crawl=2700.0).jobs
    assert list(job.overlaps.outcomes.values()) == ["cancels"] * 3


def test_a_fixed_delay_waits_for_the_end_of_each_run() -> None:
    app = Mainspring("memory://")
    app.job("crawl", trigger=every(minutes=30, delay=True))(nothing)
    (job,) = simulated(app, "2026-05-01T00:00:00+00:00", "2026-05-01T03:00:00+00:00", crawl=900.0).jobs
    assert [f"{to_datetime(tick):%H:%M}" for tick in job.ticks] == ["00:30", "01:15", "02:00", "02:45"]
    assert not job.overlaps.outcomes


def test_no_ticks_have_no_overlaps() -> None:
    app = Mainspring("memory://")
    app.job("never", trigger=once("2020-01-01T00:00:00Z"), missed="skip")(nothing)
    (job,) = simulated(app, "2026-05-01T00:00:00+00:00", "2026-05-02T00:00:00+00:00", never=60.0).jobs
    assert (len(job.ticks), overlaps(job.job, job.ticks, SECOND).most_at_once) == (0, 0)


# --- the command ------------------------------------------------------------------------------------------------

SPRING = ("--from", "2026-03-29", "--to", "2026-03-30")


@pytest.mark.req("OPS-6", "TIM-4")
def test_the_shape_for_programs(cli: CommandLine, tmp_path: Path) -> None:
    told = cli.json("simulate", "shop:app", *SPRING, "--duration", "crawl=45m")
    assert (told["from"], told["to"], told["timezone"]) == (
        "2026-03-28T23:00:00Z",
        "2026-03-29T22:00:00Z",
        "Europe/Paris",
    )
    assert told["on_demand"] == ["mail"]
    assert told["totals"] == {
        "jobs": 3,
        "runs": 24,
        "skipped": 22,
        "waiting": 0,
        "cancelling": 0,
        "beside_another": 0,
        "busiest_hour": {"at": "2026-03-29T01:00:00Z", "runs": 2},
        "busiest_minute": {"at": "2026-03-28T23:30:00Z", "runs": 1},
    }
    assert told["clock_changes"] == [
        {
            "at": "2026-03-29T01:00:00Z",
            "timezone": "Europe/Paris",
            "direction": "forward",
            "local_before": "2026-03-29T02:00:00",
            "local_after": "2026-03-29T03:00:00",
            "jobs": {
                "report": "moved: 02:30 does not exist that day",
                "careful": "no run for 02:30, which does not exist that day",
            },
        }
    ]
    assert [hour["runs"] for hour in told["hours"]][:4] == [1, 1, 0, 2]
    jobs = {job["name"]: job for job in told["jobs"]}
    assert [jobs[name]["runs"] for name in ("report", "careful", "crawl")] == [1, 0, 23]
    assert (jobs["crawl"]["duration_s"], jobs["crawl"]["duration_from"], jobs["crawl"]["skipped"]) == (
        2700,
        "given",
        22,
    )
    assert jobs["report"]["schedule_description"] == "daily at 02:30 (Europe/Paris)"
    assert len(told["runs"]) == 46
    assert [run for run in told["runs"] if run["job"] == "report"] == [
        {
            "job": "report",
            "utc": "2026-03-29T01:00:00Z",
            "local": "2026-03-29T03:00:00+02:00",
            "outcome": "runs",
            "note": "moved: 02:30 does not exist that day",
        }
    ]
    assert not (tmp_path / "shop.db").exists()


@pytest.mark.parametrize("columns", [200, 90])
def test_the_screen_for_people(cli: CommandLine, columns: int) -> None:
    done = cli(
        *("simulate", "shop:app", "--from", "2026-10-25", "--to", "2026-10-26T00:00", "--hourly", "--limit", "7"),
        *("--duration", "crawl=45m"),
        COLUMNS=str(columns),
        TZ="Asia/Tokyo",
    )
    told = done.stdout
    for line in (
        "jobs            3, and 1 on demand only",
        "overlaps        24 skipped",
        "Runs by hour of the day (Europe/Paris)",
        "Europe/Paris: clocks go back from 2026-10-25 03:00 to 02:00 (2026-10-25 10:00:00 +0900)",
        "  careful: runs in the repeated time: 1 on the first pass, 1 on the second pass",
        "Sun 2026-10-25 02:30:00 +0200  2026-10-25 09:30:00 +0900  careful  first pass of the repeated time"[
            : columns - 2
        ],
    ):
        assert line in told, told
    assert told.index("busiest hour") < told.index("Changes of the clocks") < told.index("Jobs") < told.index("Runs\n")
    shown = told.partition("Runs\nIN THE JOB'S ZONE")[2].strip().splitlines()
    assert len(shown) == 1 + 7


def test_the_end_is_left_out_and_the_beginning_is_not(cli: CommandLine) -> None:
    span = ("--from", "2026-05-01T02:30", "--to", "2026-05-03T02:30")
    told = cli.json("simulate", "shop:app", *span, "--job", "report")
    assert [run["local"][:16] for run in told["runs"]] == ["2026-05-01T02:30", "2026-05-02T02:30"]


def test_the_zone_can_be_named(cli: CommandLine) -> None:
    told = cli.json(
        "simulate", "shop:app", "--from", "2026-05-01", "--tz", "Asia/Tokyo", "--job", "report", "--job", "mail"
    )
    assert (told["from"], told["to"]) == ("2026-04-30T15:00:00Z", "2026-05-07T15:00:00Z")
    assert {run["local"][-6:] for run in told["runs"]} == {"+02:00"}  # each run in the zone of its job
    assert [hour["hour"] for hour in told["hours"] if hour["runs"]] == [9]


async def test_past_durations_come_from_the_database_which_is_not_changed(cli: CommandLine, tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path / 'shop.db'}")
    app.job("crawl")(nothing)
    async with app:
        execution = await app.enqueue("crawl")
        assert execution is not None
        await app.wait(execution, timeout=60)
    told = cli.json("simulate", "shop:app", *SPRING)
    jobs = {job["name"]: job for job in told["jobs"]}
    assert jobs["crawl"]["duration_from"] == "mean of the past"
    assert 0 <= jobs["crawl"]["duration_s"] < 20
    assert jobs["report"]["duration_s"] is None
    assert {job["duration_s"] for job in cli.json("simulate", "shop:app", *SPRING, "--no-history")["jobs"]} == {None}
    assert [view.name for view in await app.jobs()] == ["crawl"]
    await app.close()


def test_a_database_that_cannot_be_read_is_reported(cli: CommandLine, tmp_path: Path) -> None:
    done = cli("simulate", "shop:app", *SPRING)
    assert "no past durations: the database holds no tables of Mainspring yet" in done.stderr
    (tmp_path / "shop.db").write_text("no database at all, but a text that is long enough to be taken for one" * 20)
    done = cli("simulate", "shop:app", *SPRING)
    assert (done.returncode, "no past durations: the database could not be read" in done.stderr) == (0, True), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shop"], "allowed: a module, a colon and a name"),
        (["shpo:app"], "There is no module 'shpo'"),
        (["shop:ap"], "Did you mean 'app'?"),
        (["shop:app", "--from", "soon"], "--from: 'soon' is not valid"),
        (["shop:app", "--from", "2026-02-30"], "--from: '2026-02-30' is not valid"),
        (["shop:app", "--from", "2026-03-02", "--to", "2026-03-01"], "allowed: an instant after --from"),
        (["shop:app", "--from", "2026-03-02", "--to", "2026-03-02"], "allowed: an instant after --from"),
        (["shop:app", "--from", "2026-03-02", "--to", "2096-03-02"], "at most 3,660 days after --from"),
        (["shop:app", "--tz", "Europe/Pari"], "Did you mean 'Europe/Paris'?"),
        (["shop:app", "--job", "repot"], "no job named 'repot'; did you mean 'report'?"),
        (["shop:app", "--duration", "repot=5m"], "no job named 'repot'; did you mean 'report'?"),
        (["shop:app", "--duration", "report"], "such as report=5m"),
        (["shop:app", "--duration", "report=long"], "--duration report: 'long' is not valid"),
    ],
)
def test_bad_input_is_one_clear_line(cli: CommandLine, arguments: list[str], words: str) -> None:
    done = cli("simulate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr.splitlines()[-1]


def test_too_many_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_ticks, "MOST_RUNS", 1_000)
    app = Mainspring("memory://")
    app.job("pulse", trigger=every(seconds=1))(nothing)
    with pytest.raises(ValueError, match="at most 1,000 runs of a job"):
        simulated(app, "2026-05-01T00:00:00+00:00", "2026-06-01T00:00:00+00:00")
    late = Mainspring("memory://")
    late.job("pulse", trigger=every(seconds=1, start=datetime(2026, 5, 31, 23, 59, tzinfo=UTC)))(nothing)
    assert simulated(late, "2026-05-01T00:00:00+00:00", "2026-06-01T00:00:00+00:00").runs == 60


@pytest.mark.parametrize(
    "trigger",
    [every(seconds=2), cron("*/2 * * * * *"), any_of(every(seconds=2), cron("* * * * * *"))],
    ids=["every", "cron", "any_of"],
)
def test_a_refusal_of_too_many_runs_does_not_lay_them_out_first(
    trigger: Trigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing(list[int]):
        def extend(self, ticks: Any) -> None:
            raise AssertionError(f"laid out {len(ticks)} ticks")

    monkeypatch.setattr(simulated_ticks, "array", lambda code: Nothing())
    app = Mainspring("memory://", timezone="Europe/Paris")
    app.job("pulse", trigger=trigger)(nothing)
    with pytest.raises(ValueError, match="at most 20,000,000 runs of a job"):
        simulated(app, "2026-01-01T00:00:00+00:00", "2036-01-01T00:00:00+00:00")


def test_now_is_where_it_begins_unless_told(cli: CommandLine) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    told = cli.json("simulate", "shop:app", "--limit", "0")
    begin = datetime.fromisoformat(told["from"])
    assert before <= begin <= datetime.now(UTC)
    assert (datetime.fromisoformat(told["to"]) - begin).days == 7
    assert told["runs"] == []
    assert told["totals"]["runs"] > 300
