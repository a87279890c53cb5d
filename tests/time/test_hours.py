"""Execution windows against a minute-by-minute scan that asks only what the clock on the wall shows."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainspring.model.calendars.calendar import Calendar, calendar
from mainspring.model.calendars.hours import Hours, encode_hours, hours_of
from mainspring.model.calendars.timetable import OpenHours
from mainspring.model.errors import InvalidValue

MINUTE = timedelta(minutes=1)
NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

# Each with an instant shortly before a change of its clocks: by an hour, by half an hour, at midnight, by a whole day.
PLACES = [
    ("UTC", datetime(2026, 3, 1, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 10, 31, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 3, 28, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 24, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 2, tzinfo=UTC)),
    ("America/Santiago", datetime(2026, 4, 3, tzinfo=UTC)),
    ("America/Santiago", datetime(2026, 9, 5, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 2, 14, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 29, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2026, 12, 30, tzinfo=UTC)),
]
SCANNED = 4 * 24 * 60

clock = st.tuples(st.integers(0, 23), st.sampled_from([0, 1, 30, 59]))
times = st.lists(st.tuples(clock, clock).filter(lambda pair: pair[0] != pair[1]), max_size=3)
days = st.sets(st.integers(1, 7), min_size=1)
shift = st.integers(0, SCANNED)


@st.composite
def entries(draw: Any) -> list[tuple[str, Any]]:
    """What a calendar says, as plain data for the oracle: days from the start, weekdays, stretches by minutes."""
    kinds = st.sampled_from(["date", "weekday", "local", "instant"])
    found = []
    for kind in draw(st.lists(kinds, max_size=3)):
        if kind in ("date", "weekday"):
            found.append((kind, draw(st.integers(-1, 4) if kind == "date" else st.integers(1, 7))))
        else:
            begin, size = draw(shift), draw(st.integers(1, 2_000))
            found.append((kind, (begin, begin + size)))
    return found


def written(start: datetime, items: list[tuple[str, Any]]) -> Calendar:
    texts = []
    for kind, value in items:
        if kind == "date":
            texts.append((start + timedelta(days=value)).date().isoformat())
        elif kind == "weekday":
            texts.append(NAMES[value - 1])
        else:
            zone = "Z" if kind == "instant" else ""
            texts.append("/".join(f"{start + at * MINUTE:%Y-%m-%dT%H:%M}{zone}" for at in value))
    return calendar("some", texts)


def covered(start: datetime, items: list[tuple[str, Any]], at: datetime, local: datetime) -> bool:
    for kind, value in items:
        match kind:
            case "date" if local.date() == (start + timedelta(days=value)).date():
                return True
            case "weekday" if local.isoweekday() == value:
                return True
            case "local" if start.replace(tzinfo=None) <= local - value[0] * MINUTE < _span(start, value):
                return True
            case "instant" if start <= at - value[0] * MINUTE < start + (value[1] - value[0]) * MINUTE:
                return True
    return False


def _span(start: datetime, value: tuple[int, int]) -> datetime:
    return start.replace(tzinfo=None) + (value[1] - value[0]) * MINUTE


def in_week(ranges: list[Any], wanted: set[int], local: datetime) -> bool:
    if not ranges:
        return local.isoweekday() in wanted
    for (begin_hour, begin_minute), (end_hour, end_minute) in ranges:
        begin, end, now = time(begin_hour, begin_minute), time(end_hour, end_minute), local.time()
        today, yesterday = local.isoweekday() in wanted, (local.isoweekday() - 2) % 7 + 1 in wanted
        if begin < end and begin <= now < end and today:
            return True
        if begin > end and ((now >= begin and today) or (now < end and yesterday)):
            return True
    return False


@pytest.mark.req("WIN-8")
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PLACES), times, days, st.none() | entries(), st.none() | entries())
@example(PLACES[3], [((2, 0), (3, 0))], {1, 2, 3, 4, 5, 6, 7}, None, None)
@example(PLACES[8], [((22, 0), (6, 0))], {6}, None, [("date", 1)])
def test_hours_agree_with_a_scan_of_every_minute(
    place: tuple[str, datetime],
    ranges: list[Any],
    wanted: set[int],
    only: list[tuple[str, Any]] | None,
    closed: list[tuple[str, Any]] | None,
) -> None:
    zone, start = ZoneInfo(place[0]), place[1]
    names = {"only": ("a",) if only is not None else (), "closed": ("b",) if closed is not None else ()}
    texts = tuple(f"{b[0]:02}:{b[1]:02}-{e[0]:02}:{e[1]:02}" for b, e in ranges)
    if not texts and len(wanted) == 7 and only is None and closed is None:
        return  # restricts nothing, which is refused
    calendars = {name: written(start, items) for name, items in (("a", only), ("b", closed)) if items is not None}
    door = OpenHours(Hours(texts, days=tuple(sorted(wanted)), **names), zone, calendars)

    def oracle(at: datetime) -> bool:
        local = at.astimezone(zone).replace(tzinfo=None)
        inside = only is None or covered(start, only, at, local)
        return inside and not covered(start, closed or [], at, local) and in_week(ranges, wanted, local)

    scanned = [oracle(start + n * MINUTE) for n in range(SCANNED)]
    assert [door.is_open(start + n * MINUTE) for n in range(0, SCANNED, 7)] == scanned[::7]
    following = None
    for n in reversed(range(SCANNED)):
        following = n if scanned[n] else following
        if n % 101 == 0 and following is not None:
            assert door.next_open(start + n * MINUTE) == start + following * MINUTE
    told = list(door.stretches(start, start + SCANNED * MINUTE))
    minutes = [stretch.open for stretch in told for _ in range((stretch.end - stretch.begin) // MINUTE)]
    assert minutes == scanned
    for stretch in told[1:-1]:
        whole = door.stretch(stretch.begin + MINUTE / 2)
        assert (whole.open, whole.begin, whole.end) == (stretch.open, stretch.begin, stretch.end)


def door(hours: Hours, zone: str = "Europe/Berlin", **calendars: Any) -> OpenHours:
    found = {name: calendar(name, entries) for name, entries in calendars.items()}
    return OpenHours(hours, ZoneInfo(zone), found)


@pytest.mark.req("WIN-8")
def test_a_day_of_23_hours_leaves_a_range_out_and_one_of_25_hours_repeats_it() -> None:
    hours = door(Hours("02:00-03:00"))
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert hours.next_open(spring) == datetime(2026, 3, 30, 0, tzinfo=UTC)
    opened = hours.stretch(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    assert (opened.begin, opened.end) == (datetime(2026, 10, 25, 0, tzinfo=UTC), datetime(2026, 10, 25, 2, tzinfo=UTC))
    assert hours.next_open(autumn) == opened.begin


def test_a_range_over_midnight_belongs_to_the_day_it_begins_on() -> None:
    nights = door(Hours("22:00-06:00", days="sun"), "UTC")
    assert nights.is_open(datetime(2026, 3, 2, 5, 59, tzinfo=UTC))
    assert not nights.is_open(datetime(2026, 3, 2, 6, tzinfo=UTC))
    assert not nights.is_open(datetime(2026, 3, 2, 22, tzinfo=UTC))


def test_what_never_opens_is_told_as_none() -> None:
    never = door(Hours("09:00-17:00", only="days"), days=["2020-01-01"])
    assert never.next_open(datetime(2026, 1, 1, tzinfo=UTC)) is None
    assert door(Hours(only="gone")).next_open(datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_the_words_name_what_closes_longest() -> None:
    hours = Hours("09:00-17:00", days="mon-fri", closed=("holidays",))
    christmas = door(hours, holidays=["12-25", "12-26"])
    assert christmas.stretch(datetime(2026, 12, 25, 3, tzinfo=UTC)).by == "calendar holidays"
    assert christmas.stretch(datetime(2026, 12, 23, 3, tzinfo=UTC)).by == "its hours"
    assert "does not exist" in door(hours).stretch(datetime(2026, 12, 23, 10, tzinfo=UTC)).by
    assert christmas.missing == []
    assert door(hours).missing == ["holidays"]


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (Hours("9:00-17:00", days="mon-fri"), "09:00-17:00 from Monday to Friday"),
        (Hours(days="sat,sun"), "on Saturday and Sunday"),
        (Hours("22:00-06:00"), "22:00-06:00 every day"),
        (
            Hours("mon-fri 09:00-17:00, sat 10:00-14:00"),
            "09:00-17:00 from Monday to Friday and 10:00-14:00 on Saturday",
        ),
        (Hours(only=("a", "b"), closed="c"), "every day, only in a or b, but not in c"),
    ],
)
def test_hours_explain_themselves_and_survive_being_stored(hours: Hours, words: str) -> None:
    assert hours.describe() == words
    assert hours_of(encode_hours(hours)) == hours
    assert hash(hours_of(encode_hours(hours))) == hash(hours)


@pytest.mark.req("WIN-8")
@pytest.mark.parametrize(
    ("make", "field", "remedy"),
    [
        (lambda: Hours("9-17"), "hours.times", ""),
        (lambda: Hours("09:00-09:00"), "hours.times", "leave the times out"),
        (lambda: Hours("09:00-25:00"), "hours.times", ""),
        (lambda: Hours("24:00-25:00"), "hours.times", "The day begins at 00:00"),
        (lambda: Hours("09:60-10:00"), "hours.times", ""),
        (lambda: Hours("funday 09:00-10:00"), "hours.times", ""),
        (lambda: Hours(days="funday"), "hours.days", ""),
        (lambda: Hours(days=()), "hours.days", ""),
        (lambda: Hours(days=(0,)), "hours.days", ""),
        (lambda: Hours(only="no such/name"), "hours.only", "Try 'no-such-name'"),
        (lambda: Hours(only="a", closed="a"), "hours.closed", "Name it in one of them"),
        (lambda: Hours(), "hours", "Say when it may run"),
        (lambda: hours_of(9), "hours", ""),
        (lambda: hours_of({"time": "09:00-10:00"}), "hours", "Did you mean 'times'?"),
    ],
)
def test_refusals_name_field_and_remedy(make: Any, field: str, remedy: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        make()
    assert refused.value.field == field
    assert remedy in refused.value.remedy
