"""The rows and columns of the window calendar."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mainspring.core.declaring.job_specs import job_spec
from mainspring.model.backfill import WindowStatus
from mainspring.model.job import Job, encode_spec
from mainspring.model.windows import Window
from mainspring.server.dashboard.drawing.window_calendar import Range, calendar_range, calendar_rows

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 1, 15, 12)


def _range(window: str, begin: datetime | None = None, **options: Any) -> Range:
    spec = job_spec("work", None, {"window": window, **options})
    return calendar_range(Job(name="work", id="i", declared=encode_spec(spec)), begin, NOON)


@pytest.mark.req("DSH-1")
def test_a_row_is_a_month_a_day_an_hour_or_a_year_as_the_windows_are_long() -> None:
    days = _range("yesterday", cron="0 3 * * *")
    assert (days.unit, days.begin, days.end) == ("month", datetime(2025, 8, 1), datetime(2026, 2, 1))
    assert days.earlier == datetime(2025, 2, 1)
    assert _range("yesterday", cron="*/5 * * * *").unit == "month"  # it ticks more often than it has windows
    hours = _range("previous_hour", cron="5 * * * *")
    assert (hours.unit, hours.begin, hours.end) == ("day", datetime(2026, 1, 2), datetime(2026, 1, 16))
    quarters = _range("since_previous_tick", cron="*/15 * * * *")
    assert (quarters.unit, quarters.rows) == ("hour", 24)
    seconds = _range("since_previous_tick", cron="* * * * * *")
    assert (seconds.unit, seconds.rows, seconds.begin) == ("hour", 1, NOON)
    assert _range("previous_month", cron="0 3 1 * *").unit == "year"
    assert _range("yesterday", datetime(2024, 5, 17), cron="0 3 * * *").begin == datetime(2024, 5, 1)


@pytest.mark.req("DSH-1")
def test_days_stand_below_each_other_and_those_without_a_window_stay_empty() -> None:
    def day(month: int, number: int) -> WindowStatus:
        begin = datetime(2026, month, number, tzinfo=BERLIN)
        return WindowStatus(window=Window(begin, begin + timedelta(days=1)), state="done")

    march, april = calendar_rows([day(3, 28), day(3, 29), day(3, 31), day(4, 2)], "month")
    assert (march.label, april.label) == ("Mar 2026", "Apr 2026")
    assert [cell is not None for cell in march.cells] == [False] * 27 + [True, True, False, True]
    assert [cell is not None for cell in april.cells] == [False, True]
    assert march.cells[28] is not None
    assert march.cells[28].title == "Sun 29 Mar 2026: done"
