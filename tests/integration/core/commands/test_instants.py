"""Every field that takes an instant reads a time without an offset in the zone of its job, or refuses it where there is
no job; and refuses instants that nobody can mean."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from mainspring import InvalidValue, JobContext, Mainspring, once
from mainspring.model.values.reading import instant
from mainspring.testing import harness

ISTANBUL = "Europe/Istanbul"
Door = Callable[[Mainspring, Any], Awaitable[Any]]

OF_A_JOB: dict[str, Door] = {
    "start_at": lambda app, at: app.enqueue("report", start_at=at),
    "window.begin": lambda app, at: app.trigger("report", window=(at, "2040-01-01")),
    "window.end": lambda app, at: app.trigger("report", window=("2020-01-01", at)),
    "begin": lambda app, at: app.backfill("report", at, "2040-01-01", dry_run=True),
    "end": lambda app, at: app.windows("report", "2020-01-01", at),
    "resume_at": lambda app, at: app.pause("report", resume_at=at),
    "at": lambda app, at: app.skip_occurrence("report", at),
    "to": lambda app, at: app.move_occurrence("report", "2026-11-17T02:00", at),
}
OF_NO_JOB: dict[str, Door] = {
    "since": lambda app, at: app.executions(since=at),
    "until": lambda app, at: app.executions(until=at),
}
EXTREMES = [
    datetime.min.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59-14:00",
    "1969-12-31T23:59:59Z",
    253_402_300_799,
    -1e18,
    1e300,
]


def shop() -> Mainspring:
    app = Mainspring("memory://")
    app.job("report", cron="0 2 * * *", tz=ISTANBUL, window="yesterday", overlap="allow")(lambda ctx: None)
    return app


@pytest.mark.req("REG-11", "WIN-4")
@pytest.mark.parametrize("field", [*OF_A_JOB, *OF_NO_JOB])
async def test_extreme_instants_are_refused_at_every_door(field: str) -> None:
    async with harness(shop(), start="2026-11-15T12:00Z") as kit:
        for at in (*EXTREMES, datetime.min, datetime.max) if field in OF_A_JOB else EXTREMES:
            with pytest.raises(InvalidValue) as refused:
                await (OF_A_JOB | OF_NO_JOB)[field](kit.app, at)
            assert refused.value.field == field
        assert await kit.app.executions() == []


@pytest.mark.req("REG-11")
@pytest.mark.parametrize("field", OF_NO_JOB)
@pytest.mark.parametrize("local", ["2026-11-16T02:00", datetime(2026, 11, 16), date(2026, 11, 16)])
async def test_without_a_job_a_time_needs_an_offset(field: str, local: Any) -> None:
    async with harness(shop(), start="2026-11-15T12:00Z") as kit:
        with pytest.raises(InvalidValue, match=rf"{field}: .*2026.*aware datetime.*Add a time zone"):
            await OF_NO_JOB[field](kit.app, local)


@pytest.mark.req("TIM-3", "WIN-4")
async def test_of_a_job_a_time_without_an_offset_is_in_its_zone() -> None:
    """02:00 on 16 November in Istanbul is 23:00 on the 15th in UTC."""
    app, ran = shop(), list[datetime | None]()
    local, there = datetime(2026, 11, 16, 2), instant("", "2026-11-15T23:00:00Z")

    @app.job("single", trigger=once("2026-11-16T02:00"), tz=ISTANBUL)
    async def single(ctx: JobContext) -> None:
        ran.append(ctx.scheduled_at)

    async with harness(app, start="2026-11-15T12:00Z") as kit:
        queued = [await app.enqueue("report", start_at=at) for at in (local, local.isoformat())]
        assert {each.start_at for each in queued if each is not None} == {there}
        assert (await app.pause("report", resume_at=local)).resume_at == there
        await app.resume("report")
        assert (await app.skip_occurrence("report", local)).next_run_at == there + timedelta(days=1)
        moved = await app.move_occurrence("report", "2026-11-17T02:00", "2026-11-16T04:00")
        assert moved.next_run_at == there + timedelta(hours=2)
        made = await app.trigger("report", window=(date(2026, 11, 15), date(2026, 11, 16)))
        assert made.window is not None
        assert made.window.key() == "2026-11-14T21:00:00Z/2026-11-15T21:00:00Z"
        await kit.advance("1d")
        assert ran == [there]
        assert (await app.job_view("single")).schedule == "@once 2026-11-15T23:00:00Z"
