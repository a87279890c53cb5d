"""Windows are handed over and shown by the clock of the job's zone, however the run came about."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest

from mainspring import JobContext, Mainspring, NonRetryable
from mainspring.core.render.entities import backfill_json, execution_json, windows_json
from mainspring.testing import harness

ISTANBUL = "Europe/Istanbul"
THE_15TH = {"begin": "2026-11-15T00:00:00+03:00", "end": "2026-11-16T00:00:00+03:00"}


class Night:
    """A job of Istanbul, one after it in Tokyo, one for tenants; what each run was handed."""

    def __init__(self) -> None:
        self.app = app = Mainspring("memory://")
        self.seen: list[tuple[str, str, str | None, str]] = []
        self.broken = False
        yesterday: Any = {"cron": "0 2 * * *", "window": "yesterday", "tz": ISTANBUL, "missed_while_paused": "all"}
        app.job("daily", max_attempts=1, **yesterday)(self.daily)
        app.job("report", after="daily", tz="Asia/Tokyo")(self.look)
        app.job("each", tenants=["acme"], **yesterday)(self.look)

    async def daily(self, ctx: JobContext) -> None:
        await self.look(ctx)
        if self.broken:
            raise NonRetryable("broken")

    async def look(self, ctx: JobContext) -> None:
        assert ctx.window is not None
        assert ctx.execution.window == ctx.window
        assert (ctx.begin_date, ctx.end_date) == (ctx.window.begin, ctx.window.end)
        self.seen.append((ctx.job, ctx.trigger, ctx.tenant, f"{ctx.begin_date} {ctx.window.end_inclusive}"))

    def new(self) -> Iterator[tuple[str, str, str | None, str]]:
        seen, self.seen = self.seen, []
        return iter(sorted(seen, key=str))


@pytest.mark.req("WIN-3", "WIN-4", "WIN-7")
async def test_every_run_is_handed_its_window_in_the_zone_of_its_job() -> None:
    night = Night()
    app, fifteenth = night.app, "2026-11-15 00:00:00+03:00 2026-11-15 23:59:59.999999+03:00"
    in_tokyo = "2026-11-15 06:00:00+09:00 2026-11-16 05:59:59.999999+09:00"
    async with harness(app, start="2026-11-15T12:00Z", raise_errors=False) as kit:
        await kit.advance("1d")
        assert list(night.new()) == [
            ("daily", "schedule", None, fifteenth),
            ("each", "schedule", "acme", fifteenth),
            ("report", "dependency", None, in_tokyo),
        ]

        night.broken = True
        by_hand = await app.trigger("daily")
        given = await app.trigger("each", window=("2026-11-15", datetime(2026, 11, 16)))
        await kit.run_until_idle()
        again = await app.retry(by_hand)
        await kit.run_until_idle()
        assert [each[1:] for each in night.new()] == [
            ("manual", None, fifteenth),
            ("retry", None, fifteenth),
            ("manual", "acme", fifteenth),
        ]
        for execution in (by_hand, given, again):
            assert execution_json(await app.get(execution.id))["window"] == THE_15TH

        async with app.track("daily") as ctx:
            assert ctx.begin_date is not None
            assert ctx.begin_date.date() == date(2026, 11, 15)

        night.broken = False
        night.seen.clear()
        await app.pause("daily")
        await kit.advance("2d")
        await app.resume("daily")
        await kit.advance("1m")
        assert [each[3][:10] for each in night.new() if each[1] == "catch_up"] == ["2026-11-16", "2026-11-17"]


@pytest.mark.req("WIN-3", "WIN-5", "WIN-6")
async def test_lists_of_windows_and_backfills_are_in_the_zone_of_the_job() -> None:
    night = Night()
    app = night.app
    async with harness(app, start="2026-11-15T12:00Z") as kit:
        await kit.advance("1d")
        night.seen.clear()
        found = await app.windows("daily", "2026-11-13", "2026-11-16")
        assert [(each.window.begin.date().day, each.state) for each in found] == [
            (13, "missing"),
            (14, "missing"),
            (15, "done"),
        ]
        shown = windows_json("daily", found)["windows"][-1]
        assert {name: shown[name] for name in ("begin", "end")} == THE_15TH
        same = await app.windows("daily", shown["begin"], shown["end"])
        assert [each.window for each in same] == [found[-1].window], "what is shown can be sent back"

        planned = backfill_json(await app.backfills.start("daily", "2026-11-13", "2026-11-15", dry_run=True))
        assert planned["range"] == {"begin": "2026-11-13T00:00:00+03:00", "end": "2026-11-15T00:00:00+03:00"}
        assert [each["begin"] for each in planned["windows"]] == [
            "2026-11-13T00:00:00+03:00",
            "2026-11-14T00:00:00+03:00",
        ]
        backfill = await app.backfills.start("daily", planned["range"]["begin"], planned["range"]["end"])
        await kit.run_until_idle()
        assert [each[3][:25] for each in night.new() if each[1] == "backfill"] == [
            "2026-11-13 00:00:00+03:00",
            "2026-11-14 00:00:00+03:00",
        ]
        shown = backfill_json(await app.backfills.get(backfill.id))
        assert (shown["range"], shown["completed"]) == (planned["range"], 2)
        assert (await app.windows("daily", "2026-11-13", "2026-11-16")).counts["done"] == 3
