"""The windows of a job as a calendar: one row per month, or per day, hour or year, one cell per window."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from ....model.backfill import WindowState, WindowStatus
from ....model.job import Job
from ....model.windows import Limited, unit_of, window_spec

Unit: TypeAlias = Literal["hour", "day", "month", "year"]

ROWS: dict[Unit, int] = {"hour": 24, "day": 14, "month": 6, "year": 5}
CELLS = 300
"""About as many as one page shows."""
_LABELS: dict[Unit, str] = {"hour": "%d %b %H:00", "day": "%a %d %b", "month": "%b %Y", "year": "%Y"}
_TITLES: dict[Unit, str] = {"hour": "%d %b %H:%M:%S", "day": "%d %b %H:%M", "month": "%a %d %b %Y", "year": "%d %b %Y"}
_SPANS = {"hour": 3_600.0, "day": 86_400.0, "week": 604_800.0, "month": 2_592_000.0}


class Cell(msgspec.Struct, frozen=True):
    """One window. `begin` and `end` are its instants; the title is in the zone of the job."""

    state: WindowState
    title: str
    begin: datetime
    end: datetime
    execution_id: str | None


class Row(msgspec.Struct, frozen=True):
    """None stands for a day or hour without a window, so that columns are days or hours."""

    label: str
    cells: list[Cell | None]


class Range(msgspec.Struct, frozen=True):
    """What a calendar shows: wall-clock times of the job's zone."""

    unit: Unit
    begin: datetime
    end: datetime
    rows: int

    @property
    def earlier(self) -> datetime:
        return _step(self.unit, self.begin, -self.rows)


def calendar_range(job: Job, begin: datetime | None, now: datetime) -> Range:
    """From `begin`, or so that the present is in the last row. All times are wall-clock times of the job's zone."""
    period = _period(job)
    unit = _unit(period)
    rows = min(ROWS["hour"], max(1, int(CELLS * period / 3_600))) if unit == "hour" else ROWS[unit]
    first = _step(unit, _floor(unit, now), 1 - rows) if begin is None else _floor(unit, begin)
    return Range(unit, first, _step(unit, first, rows), rows)


def calendar_rows(windows: Iterable[WindowStatus], unit: Unit) -> list[Row]:
    """Oldest first. Days of a month and hours of a day stand below each other."""
    rows: list[Row] = []
    latest: datetime | None = None
    for each in windows:
        local = each.window.begin.replace(tzinfo=None)
        start = _floor(unit, local)
        if latest is None or start != latest:
            rows.append(Row(f"{start:{_LABELS[unit]}}", []))
            latest = start
        cells = rows[-1].cells
        cells += [None] * (_column(unit, local) - len(cells))
        title = f"{local:{_TITLES[unit]}}: {each.state}"
        cells.append(Cell(each.state, title, each.window.begin, each.window.end, each.execution_id))
    return rows


def column_headings(unit: Unit) -> list[str]:
    """The words over the columns: hours of the day or days of the month, and nothing where most columns are; empty if
    columns mean nothing.

    >>> [word for word in column_headings("day") if word]
    ['0', '6', '12', '18']
    """
    match unit:
        case "day":
            return [str(hour) if hour % 6 == 0 else "" for hour in range(24)]
        case "month":
            return [str(day) if day % 7 == 1 else "" for day in range(1, 32)]
        case "hour" | "year":
            return []


def _period(job: Job) -> float:
    """Seconds from one window to the next."""
    spec = None if job.spec.window is None else window_spec(job.spec.window)
    rule = spec.window if isinstance(spec, Limited) else spec
    unit = None if rule is None else unit_of(rule)
    ticks = None if job.trigger is None else job.trigger.period()
    return max(_SPANS.get(unit or "", 0.0), ticks or 0.0) or _SPANS["day"]


def _unit(period: float) -> Unit:
    if period < 3_000:
        return "hour"
    if period < 72_000:
        return "day"
    return "month" if period < 500_000 else "year"


def _column(unit: Unit, local: datetime) -> int:
    """The least column of a window; windows closer together than that follow each other."""
    return {"hour": 0, "day": local.hour, "month": local.day - 1, "year": 0}[unit]


def _floor(unit: Unit, at: datetime) -> datetime:
    hour = at.replace(minute=0, second=0, microsecond=0)
    match unit:
        case "hour":
            return hour
        case "day":
            return hour.replace(hour=0)
        case "month":
            return hour.replace(hour=0, day=1)
        case "year":
            return hour.replace(hour=0, day=1, month=1)


def _step(unit: Unit, at: datetime, count: int) -> datetime:
    match unit:
        case "hour":
            return at + timedelta(hours=count)
        case "day":
            return at + timedelta(days=count)
        case "month":
            years, month = divmod(at.month - 1 + count, 12)
            return at.replace(year=at.year + years, month=month + 1)
        case "year":
            return at.replace(year=at.year + count)
