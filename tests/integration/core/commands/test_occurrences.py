"""Single occurrences that operators skip, move and restore: by the application, its facade and the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import msgspec
import pytest

from mainspring import CommandRefused, InvalidValue, JobContext, Mainspring, daily_at, every
from mainspring.core.forecast import ticks as simulated_ticks
from mainspring.core.rules import occurrences, ticks
from mainspring.core.views.job import job_of
from mainspring.model.job import JobSpec
from mainspring.model.time.instants import to_micros
from mainspring.model.triggers import encode_trigger
from mainspring.testing.clock import FakeClock
from tests.acceptance.command_line import CommandLine
from tests.support import ON_A_FAKE_CLOCK, Nodes, until

START = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = """
from mainspring import Mainspring, daily_at

app = Mainspring("sqlite:///shop.db")

@app.job("report", trigger=daily_at("03:00"), tz="Europe/Berlin")
async def report(ctx): ...
"""


class Shop:
    """A job of every minute, on a clock that the test moves."""

    def __init__(self, nodes: Nodes) -> None:
        self.clock, self.nodes = FakeClock(), nodes
        self.ran: list[tuple[float, float]] = []

    def app(self) -> Mainspring:
        app = self.nodes.app(clock=self.clock, **ON_A_FAKE_CLOCK)
        app.job("tick", trigger=every(seconds=60), window="since_previous_tick", overlap="allow")(self.tick)
        return app

    async def tick(self, ctx: JobContext) -> None:
        assert ctx.scheduled_at is not None
        assert ctx.window is not None
        assert ctx.window.end == ctx.scheduled_at
        assert ctx.window.begin == ctx.scheduled_at - timedelta(minutes=1)
        self.ran.append((minute(ctx.scheduled_at), minute(self.clock.datetime)))

    async def pass_to(self, app: Mainspring, number: float, count: int) -> None:
        self.clock.advance((at(number) - self.clock.datetime).total_seconds())
        await until(lambda: len(self.ran) >= count, f"{count} runs by minute {number}")


def at(number: float) -> datetime:
    return START + timedelta(minutes=number)


def minute(instant: datetime) -> float:
    return (instant - START) / timedelta(minutes=1)


@pytest.mark.req("WIN-8")
async def test_occurrences_are_skipped_moved_and_restored(nodes: Nodes) -> None:
    shop = Shop(nodes)
    async with shop.app() as app:
        await app.skip_occurrence("tick", at(2), by="ada")
        await app.move_occurrence("tick", at(4), at(1.5), by="ada")
        await app.move_occurrence("tick", at(3), at(5.5), by="bob")
        await app.skip_occurrence("tick", at(5), by="bob")
        view = await app.restore_occurrence("tick", at(5), by="ada")
        assert [(each.at, each.moved_to, each.by) for each in view.occurrences] == [
            (at(2), None, "ada"),
            (at(3), at(5.5), "bob"),
            (at(4), at(1.5), "ada"),
        ]
        assert view.overrides == {}
        for number, count in ((1, 1), (1.5, 2), (2, 2), (3, 2), (4, 2), (5, 3), (5.5, 4), (6, 5)):
            await shop.pass_to(app, number, count)
        assert shop.ran == [(1, 1), (4, 1.5), (5, 5), (3, 5.5), (6, 6)]
        [record] = await app.executions(job="tick", status="skipped")
        assert (record.reason, record.scheduled_at, record.triggered_by) == ("occurrence", at(2), "ada")
        assert (await app.job_view("tick")).occurrences == ()
        audited = Counter(audit.action for audit in await app.audits("job:tick"))
        assert audited == {"skip_occurrence": 2, "move_occurrence": 2, "restore_occurrence": 1}


@pytest.mark.req("WIN-8", "TIM-6")
async def test_a_moved_occurrence_survives_the_process_and_runs_once_on_many(nodes: Nodes) -> None:
    shop = Shop(nodes)
    async with shop.app() as app:
        await app.move_occurrence("tick", at(9), at(3.5))
        await app.move_occurrence("tick", at(1), at(3.5))
    shop.clock.advance(3 * 60 + 31)
    first, second = shop.app(), shop.app()
    async with first, second:
        await until(lambda: len(shop.ran) >= 3, "what is due runs")
        for number in range(4, 12):
            await shop.pass_to(first, number, 0)
            await until(lambda: _up_to_date(first, shop), "every due tick is made")
        ticks = [execution.scheduled_at for execution in await first.executions(job="tick", limit=100)]
        assert sorted(tick for tick in ticks if tick is not None) == [at(number) for number in range(1, 12)]


async def _up_to_date(app: Mainspring, shop: Shop) -> bool:
    due = job_of(await app.job_view("tick")).due
    return due is not None and due > shop.clock.now()


@pytest.mark.req("WIN-8")
async def test_what_is_no_occurrence_is_refused(nodes: Nodes) -> None:
    shop = Shop(nodes)
    async with shop.app() as app:
        with pytest.raises(InvalidValue, match="nearest are 2026-01-01T00:01:00Z, 2026-01-01T00:02:00Z"):
            await app.skip_occurrence("tick", at(1.5))
        await app.cancel("tick")
        with pytest.raises(CommandRefused, match="it is cancelled"):
            await app.move_occurrence("tick", at(1), at(2))


@pytest.mark.req("WIN-8")
def test_the_facade_does_the_same(nodes: Nodes) -> None:
    app = nodes.app()
    app.job("report", trigger=daily_at("03:00"), tz="Europe/Berlin")(lambda: None)
    with app.sync as client:
        tick = client.job_view("report").next_run_at
        assert tick is not None
        later = tick + timedelta(hours=2)
        assert client.move_occurrence("report", tick, later, by="ada").next_run_at == later
        assert client.restore_occurrence("report", tick).next_run_at == tick
        assert client.skip_occurrence("report", tick).next_run_at == tick + timedelta(days=1)


# --- the command line --------------------------------------------------------------------------------------------


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    yield command_line
    command_line.close()


@pytest.mark.req("WIN-8", "OPS-4")
def test_operators_do_it_from_the_command_line_and_forecasts_show_it(cli: CommandLine) -> None:
    days = [datetime.now(UTC).date() + timedelta(days=number) for number in (3, 4, 5)]
    one, two, _ = (f"{day.isoformat()}T03:00" for day in days)
    skipped = cli.json("jobs", "skip", "report", "--app=shop:app", "--at", one)
    assert [each["to"] for each in skipped["occurrences"]] == [None]
    shown = cli.text("jobs", "move", "report", "--app=shop:app", "--at", two, "--to", f"{days[1].isoformat()}T17:30")
    assert "skipped by" in shown
    assert "moved to" in shown
    span = ["--from", days[0].isoformat(), "--to", (days[2] + timedelta(days=1)).isoformat(), "--tz", "Europe/Berlin"]
    told = cli.json("simulate", "shop:app", *span)
    assert [run["local"][:16] for run in told["runs"]] == [
        f"{days[1].isoformat()}T17:30",
        f"{days[2].isoformat()}T03:00",
    ]
    assert told["runs"][0]["note"].startswith("moved from")
    assert len(told["jobs"][0]["occurrences"]) == 2
    assert "Single occurrences" in cli.text("simulate", "shop:app", *span)
    restored = cli.json("jobs", "restore", "report", "--app=shop:app", "--at", one)
    assert len(restored["occurrences"]) == 1
    paused = cli.json("jobs", "pause", "report", "--app=shop:app", "--note", "audit", "--until", "2099-07-01T08:00")
    assert (paused["resume_at"], paused["pause_note"]) == ("2099-07-01T06:00:00Z", "audit")
    assert "audit, resumes 2099-07-01" in cli.text("jobs", "show", "report", "--app=shop:app")
    cli.json("jobs", "resume", "report", "--app=shop:app")
    refused = cli("jobs", "skip", "report", "--app=shop:app", "--at", f"{days[0].isoformat()}T04:00")
    assert (refused.returncode, "error: --at: " in refused.stderr) == (2, True)
    assert "nearest are" in refused.stderr


def test_a_job_that_is_stored_with_exceptions_is_forecast_tick_by_tick_only_around_them() -> None:
    """Exceptions far away do not make a forecast slow: the stretch before them is laid out at once."""
    spec = JobSpec(handler="h", trigger=encode_trigger(every(minutes=1)))
    begin, end = to_micros(START), to_micros(START + timedelta(days=60))
    stored = simulated_ticks.planned("j", spec, begin, Random(1))
    stored = occurrences.skip(stored, START + timedelta(days=50), begin, "ada").job
    stored = occurrences.move(stored, START + timedelta(days=51), START + timedelta(days=40), begin, "ada").job
    job = simulated_ticks.planned("j", spec, begin, Random(1), stored)
    calls: list[int] = []
    materialise = ticks.materialise

    def counted(*arguments: object) -> object:
        calls.append(1)
        return materialise(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated_ticks.ticks, "materialise", counted)
        found = simulated_ticks.ticks_of(job, begin, end, 0, Random(1))
    expected = {begin + 60_000_000 * number for number in range(60 * 1440)}
    gone = {to_micros(START + timedelta(days=days)) for days in (50, 51)}
    moved = [to_micros(START + timedelta(days=40))]
    assert sorted(found) == sorted([*(expected - gone), *moved])
    assert len(calls) < 100 + 12 * 1440  # between the two, each is decided; before and after them, none
    assert msgspec.json.decode(job.overrides)
