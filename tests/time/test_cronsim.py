"""The default rule against cronsim, which follows Debian's: every zone, every change of its clock from 2024 to 2027.

They agree but for two known mistakes of cronsim, both where the clock is not changed at a full hour of the wall clock.
cronsim leaps from hour to hour of real time there, and so over wall-clock times that exist: Lord Howe Island goes back
from 02:00 to 01:30, the Chatham Islands from 03:45 to 02:45. Debian's cron wakes up in every real minute and compares
the wall clock, and so does the rule of TIM-4; the oracle, which does the same, is asked in these cases.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim

from mainspring.model.time import timeline
from mainspring.model.triggers import cron
from tests.time.oracle import Clock

YEARS = range(2024, 2028)
EXPRESSIONS = [
    "0 0 * * *",
    "15 2 * * *",
    "30 2 * * *",
    "30 1 * * *",
    "0 3 * * *",
    "15,45 0-4 * * *",
    "20 0,1,2,3,23 * * *",
    "5 4 * * sun",
    "0 * * * *",
    "45 * * * *",
    "*/15 * * * *",
    "*/10 2 * * *",
    "0 */2 * * *",
]
# By zone, expression and direction of the change: the wall-clock times that cronsim leaps over, each year.
LEAPT_OVER = {
    "Australia/Lord_Howe": {
        ("45 * * * *", "forward"): ["02:45+1100"],
        ("45 * * * *", "back"): ["01:45+1030"],
        ("*/10 2 * * *", "back"): ["02:00+1030", "02:10+1030", "02:20+1030"],
        ("0 */2 * * *", "back"): ["02:00+1030"],
    },
    "Pacific/Chatham": {
        ("*/10 2 * * *", "back"): ["02:50+1245"],
    },
}


def changes(zone: str) -> tuple[tuple[datetime, timedelta, timedelta], ...]:
    return tuple(
        (segment.begin, segment.before, segment.offset)
        for year in YEARS
        for segment in timeline.segments(ZoneInfo(zone), year)
        if segment.before != segment.offset
    )


def zones_by_changes() -> dict[tuple, list[str]]:
    """Zones that change in the same way at the same instants are walked once: nothing else of a zone is ever asked."""
    groups: dict[tuple, list[str]] = {}
    for zone in sorted(available_timezones() - {"localtime"}):
        if found := changes(zone):
            groups.setdefault(found, []).append(zone)
    return groups


GROUPS = zones_by_changes()


def both(expression: str, zone: str, begin: datetime, end: datetime) -> tuple[list[datetime], list[datetime]]:
    """The ticks in (begin, end] by Mainspring and by cronsim."""
    theirs = []
    for tick in CronSim(expression, begin.astimezone(ZoneInfo(zone))):
        if tick.astimezone(UTC) > end:
            break
        theirs.append(tick.astimezone(UTC))
    return list(cron(expression, tz=zone).ticks(begin, end)), theirs


def differences(zone: str) -> dict[tuple[str, datetime], tuple[list[datetime], list[datetime]]]:
    found = {}
    for change, _, _ in changes(zone):
        begin = change.replace(tzinfo=UTC) - timedelta(hours=15)
        for expression in EXPRESSIONS:
            ours, theirs = both(expression, zone, begin, begin + timedelta(hours=30))
            if ours != theirs:
                found[expression, change] = ours, theirs
    return found


def test_all_zones_with_changes_are_looked_at():
    assert sum(len(zones) for zones in GROUPS.values()) > 150
    assert {"Antarctica/Troll", "Africa/Casablanca", "America/Santiago"} <= {z for zs in GROUPS.values() for z in zs}


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize("zones", GROUPS.values(), ids=lambda zones: zones[0])
def test_the_default_rule_agrees_with_cronsim(zones):
    known = [zone for zone in zones if zone in LEAPT_OVER]
    if not known:
        assert differences(zones[0]) == {}
        return
    (zone,) = known
    found = differences(zone)
    assert {place: leapt_over(zone, *ticks) for place, ticks in found.items()} == {
        (expression, change): times
        for (expression, direction), times in LEAPT_OVER[zone].items()
        for change, before, after in changes(zone)
        if direction == ("forward" if after > before else "back")
    }
    for (expression, change), (ours, _) in found.items():
        wanted = Clock(zone, change.year, change.year).ticks(expression)
        assert [tick.timestamp() for tick in ours] == [t for t in wanted if t in range(*span_of(change))]


def leapt_over(zone: str, ours: list[datetime], theirs: list[datetime]) -> list[str]:
    assert set(theirs) < set(ours)  # nothing is added
    return [f"{tick.astimezone(ZoneInfo(zone)):%H:%M%z}" for tick in ours if tick not in theirs]


def span_of(change: datetime) -> tuple[int, int]:
    """(begin, end] around a change as seconds since 1970, for `range`."""
    begin = int(change.replace(tzinfo=UTC).timestamp()) - 15 * 3600
    return begin + 1, begin + 30 * 3600 + 1


@pytest.mark.req("TIM-2", "TIM-4")
def test_seconds_do_not_change_the_rule():
    """cronsim applies Debian's rule to five fields only; here `0 30 2 * * *` is `30 2 * * *`."""
    zone, begin = "America/New_York", datetime(2026, 3, 7, 12, tzinfo=UTC)
    ours, theirs = both("0 30 2 * * *", zone, begin, begin + timedelta(days=2))
    assert ours == both("30 2 * * *", zone, begin, begin + timedelta(days=2))[0]
    assert (len(ours), len(theirs)) == (2, 1)
