"""Where an import says `exact`, the job fires at the very instants at which the other library does, clock changes
included. The libraries themselves are asked, in the way in which their schedulers ask them."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import rq_scheduler.utils
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from celery.schedules import crontab

from mainspring.admin.importing.apscheduler import StoredJob, apscheduler_rows
from mainspring.admin.importing.celery_beat import BeatSettings, beat_rows
from mainspring.admin.importing.rq_scheduler import ScheduledJob, scheduled_rows
from mainspring.core.rules.importing.cron_fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    MONTHS,
    WEEKDAY,
    WEEKDAYS,
    field_values,
)
from mainspring.core.rules.importing.rows import ImportRow

pytestmark = pytest.mark.req("MIG-1")

NOW = datetime(2026, 11, 18, 12, 34, 56, tzinfo=UTC)
CHANGES = {
    "UTC": [],
    "Europe/Berlin": [(3, 27), (10, 30)],
    "America/New_York": [(3, 13), (11, 6)],
    "Australia/Lord_Howe": [(4, 2), (10, 1)],
}
"""The days before the clocks change in 2027."""
ZONES = list(CHANGES)
FIRES = 50


def ticks(row: ImportRow, begin: datetime, count: int = FIRES) -> list[datetime]:
    assert row.trigger is not None
    assert row.tz is not None
    trigger, found = row.trigger.with_zone(row.tz), []
    at = trigger.next_after(begin)
    while at is not None and len(found) < count:
        found.append(at)
        at = trigger.next_after(at)
    return found


def before_changes(tz: str) -> list[datetime]:
    return [datetime(2027, month, day, tzinfo=UTC) for month, day in CHANGES[tz]]


def is_exact(row: ImportRow) -> bool:
    assert row.reason is None, row.reason
    return not row.changes


class Numbers:
    """Random fields of cron, always the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def field(self, low: int, high: int) -> str:
        """A value, a list, a range, or a step."""
        first, last = sorted(self._random.sample(range(low, high + 1), 2))
        forms = [str(first), f"{first},{last}", f"{first}-{last}", f"*/{self._random.randint(2, 5)}", "*"]
        return self._random.choice(forms)

    def hour(self) -> str:
        """Often at night, when the clocks change."""
        return self._random.choice(["1", "2", "3", "1,2", "0-4", self.field(0, 23), "*"])

    def zone(self) -> str:
        return self._random.choice(ZONES)

    def often(self, usual: str, other: str) -> str:
        return usual if self._random.random() < 0.6 else other


# --- APScheduler ------------------------------------------------------------------------------------------------------


def apscheduler_fires(trigger: Any, begin: datetime, count: int = FIRES) -> list[datetime]:
    """As `Job._get_run_times` and the scheduler's loop do: each fire from the one before."""
    at = trigger.get_next_fire_time(None, begin + timedelta(microseconds=1))
    found = []
    while at is not None and len(found) < count:
        found.append(at.astimezone(UTC))
        at = trigger.get_next_fire_time(at, at)
    return found


def apscheduler_row(trigger: Any) -> ImportRow:
    job = StoredJob(
        id="job", name="job", task="shop:job", trigger=trigger, args=(), kwargs={}, grace=1, coalesce=True, instances=1,
        executor="default", paused=False,
    )  # fmt: skip
    [row] = apscheduler_rows([job], NOW)
    return row


def apscheduler_cron(numbers: Numbers) -> CronTrigger:
    days = numbers.often("*", random.Random(numbers.field(0, 59)).choice(["last", "2nd fri", "1-7", "15,last"]))
    named = days not in ("*", "1-7", "last")
    return CronTrigger(
        minute=numbers.field(0, 59),
        hour=numbers.hour(),
        day=days,
        month=numbers.often("*", numbers.field(1, 12)),
        day_of_week="*" if named else numbers.often("*", numbers.field(0, 6)),
        timezone=numbers.zone(),
    )


def test_triggers_of_apscheduler() -> None:
    numbers = Numbers(19)
    triggers = [apscheduler_cron(numbers) for _ in range(60)]
    triggers += [
        CronTrigger(hour=2, minute=30, second="*/20", timezone="Europe/Berlin"),
        CalendarIntervalTrigger(days=1, hour=2, minute=30, start_date="2026-11-18", timezone="Europe/Berlin"),
        CalendarIntervalTrigger(months=3, hour=1, start_date="2026-10-31", timezone="America/New_York"),
        OrTrigger([CronTrigger(hour=2, timezone=zone) for zone in ("Europe/Berlin", "UTC")]),
    ]
    exact = 0
    for trigger in triggers:
        row = apscheduler_row(trigger)
        if not is_exact(row):
            continue
        exact += 1
        begins = before_changes(row.tz) if isinstance(trigger, CronTrigger) and row.tz else []
        for begin in [NOW, *begins]:  # a calendar interval begins with its start, whatever the time is
            expected = [at for at in apscheduler_fires(trigger, begin) if at > begin]
            assert ticks(row, begin, len(expected)) == expected, (trigger, begin)
    assert exact >= len(triggers) * 0.7, "most schedules can be kept"


def test_an_interval_of_apscheduler_keeps_its_grid() -> None:
    trigger = IntervalTrigger(hours=7, start_date="2026-01-01 00:13:00", timezone="Europe/Berlin")
    assert ticks(apscheduler_row(trigger), NOW) == apscheduler_fires(trigger, NOW)


# --- Celery -----------------------------------------------------------------------------------------------------------


def celery_fires(schedule: Any, tz: str, begin: datetime, end: datetime) -> list[datetime]:
    """Beat, woken every minute: it asks whether the task is due since its last run."""
    zone, found, at = ZoneInfo(tz), [], begin
    schedule.tz, schedule.utc_enabled = zone, True
    last = begin
    schedule.nowfun = lambda: at.astimezone(zone)
    while (at := at + timedelta(minutes=1)) <= end:
        if schedule.is_due(last.astimezone(zone)).is_due:
            found.append(at)
            last = at
    return found


def test_crontabs_of_celery() -> None:
    numbers, exact, total = Numbers(7), 0, 12
    for _ in range(total):
        tz = numbers.zone()
        fields = {
            "minute": numbers.field(0, 59),
            "hour": numbers.hour(),
            "day_of_month": numbers.often("*", numbers.field(1, 31)),
            "day_of_week": numbers.often("*", numbers.field(0, 6)),
        }
        entry = {"task": "job", "schedule": crontab(**fields)}
        [row] = beat_rows(BeatSettings(entries={"job": entry}, tz=tz), NOW)
        if not is_exact(row):
            continue
        exact += 1
        for day in before_changes(tz):
            assert row.trigger is not None
            begin, end = row.trigger.previous(day), day + timedelta(hours=42)  # from a run, as beat counts
            if begin is not None and end - begin < timedelta(days=4):
                expected = celery_fires(crontab(**fields), tz, begin, end)
                assert [at for at in ticks(row, begin, 5_000) if at <= end] == expected, (fields, tz, begin)
    assert exact >= total * 0.5, "most schedules can be kept"


@pytest.mark.parametrize(
    ("field", "span", "names", "texts"),
    [
        ("minute", MINUTE, {}, ["*", "*/7", "5", "50-10", "50-10/3", "1,13,30-45,50-59/2"]),
        ("hour", HOUR, {}, ["*/5", "22-2", "0,8-17/2"]),
        ("day_of_month", DAY, {}, ["*/2", "2-30/2", "1-7,15-21", "28-3"]),
        ("month_of_year", MONTH, MONTHS, ["*/3", "jan-mar", "november-february", "2-12/2"]),
        ("day_of_week", WEEKDAY, WEEKDAYS, ["mon-fri", "sunday", "fri-mon", "*/2", "1,3,5"]),
    ],
)
def test_fields_of_django_celery_beat_are_read_as_celery_reads_them(
    field: str, span: tuple[int, int], names: dict[str, int], texts: list[str]
) -> None:
    for text in texts:
        read = field_values(field, text, span, names)
        assert read == getattr(crontab(**{field: text}), field), text


# --- rq-scheduler -----------------------------------------------------------------------------------------------------


@pytest.fixture
def local_zone() -> Iterator[Callable[[str], None]]:
    """Sets the zone of this process, whose clock rq-scheduler follows."""
    before = os.environ.get("TZ")

    def use(name: str) -> None:
        os.environ["TZ"] = name
        time.tzset()

    yield use
    os.environ.pop("TZ") if before is None else use(before)
    time.tzset()


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_cron_of_rq_scheduler(local_zone: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(at=NOW)
    fake = SimpleNamespace(now=lambda: datetime.fromtimestamp(clock.at.timestamp()))
    monkeypatch.setattr(rq_scheduler.utils, "datetime", fake)
    numbers, exact, total = Numbers(3), 0, 12
    for _ in range(total):
        tz = numbers.zone()
        local_zone(tz)
        days, weekdays = numbers.often("*", numbers.field(1, 28)), numbers.often("*", numbers.field(0, 6))
        expression = f"{numbers.field(0, 59)} {numbers.hour()} {days} * {weekdays}"
        [row] = scheduled_rows([ScheduledJob(id="job", at=NOW, task="job", meta={"cron_string": expression})], tz, NOW)
        if not is_exact(row):
            continue
        exact += 1
        for begin in [NOW, *before_changes(tz)]:
            clock.at, expected = begin, []
            while len(expected) < FIRES:
                clock.at = rq_scheduler.utils.get_next_scheduled_time(expression).astimezone(UTC)
                expected.append(clock.at)
            assert ticks(row, begin) == expected, (expression, tz, begin)
    assert exact >= total * 0.5, "most schedules can be kept"
