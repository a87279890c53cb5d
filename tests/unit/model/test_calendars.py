"""Named calendars from lists and from .ics files."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mainspring.model.calendars.calendar import Calendar, calendar, decode_calendar, encode_calendar
from mainspring.model.calendars.recurrence import begins, check_rule
from mainspring.model.errors import ConfigurationError, InvalidValue

BERLIN = ZoneInfo("Europe/Berlin")


def ics(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", ""])


def made(*lines: str) -> Calendar:
    return calendar("some", ics(*lines))


def days(found: Calendar, year: int, zone: Any = UTC) -> list[str]:
    """The days of a year whose noon is covered."""
    noons = [datetime(year, 1, 1, 12, tzinfo=zone) + timedelta(days=n) for n in range(366)]
    return [f"{noon:%m-%d}" for noon in noons if noon.year == year and found.covers(noon, zone)]


@pytest.mark.req("WIN-8")
def test_a_list_of_dates_days_of_the_year_weekdays_and_ranges() -> None:
    found = calendar("x", [date(2026, 1, 1), "2026-05-01", "12-25", ("2026-04-03", "2026-04-06")])
    assert days(found, 2026) == ["01-01", "04-03", "04-04", "04-05", "04-06", "05-01", "12-25"]
    assert days(found, 2031) == ["12-25"]
    assert len(days(calendar("x", "mon-fri"), 2026)) == 261


def test_local_ranges_follow_the_zone_of_who_asks_and_instants_do_not() -> None:
    local = calendar("x", ["2026-03-01T22:00/2026-03-02T06:00"])
    fixed = calendar("x", ["2026-03-01T22:00Z/2026-03-02T07:00+01:00"])
    at = datetime(2026, 3, 1, 21, 30, tzinfo=UTC)
    assert local.covers(at, BERLIN)
    assert not local.covers(at, UTC)
    assert not fixed.covers(at, BERLIN)
    assert fixed.covers(at + timedelta(hours=1), BERLIN)
    assert not fixed.covers(datetime(2026, 3, 2, 6, tzinfo=UTC), UTC)


def test_calendars_survive_being_stored_and_read_as_they_were_written() -> None:
    texts = ["2026-05-01", "12-25", "mon,tue", "2026-04-03/2026-04-06", "2026-03-01T22:00/2026-03-02T06:00"]
    texts += ["2026-03-01T22:00Z/2026-03-02T06:00Z"]
    found = calendar("x", texts)
    assert decode_calendar(encode_calendar(found)) == found
    assert found.texts() == texts
    assert calendar("x", found.texts()) == found


@pytest.mark.parametrize(
    "entries",
    [
        ["2026-02-30"],
        ["13-01"],
        ["02-30"],
        ["someday"],
        ["2026-05-01T10:00"],
        [datetime(2026, 5, 1)],
        ["2026-05-02/2026-05-01"],
        ["2026-05-02T10:00/2026-05-02T10:00"],
        ["2026-05-02T10:00Z/2026-05-02T12:00"],
        ["1066-10-14"],
        [7],
        7,
        ["9999-12-31"],
    ],
)
def test_entries_that_mean_nothing_are_refused_with_the_calendars_name(entries: Any) -> None:
    with pytest.raises(InvalidValue, match="calendar 'holidays'"):
        calendar("holidays", entries)


@pytest.mark.req("WIN-8")
def test_events_of_whole_days() -> None:
    assert days(made("DTSTART;VALUE=DATE:20261225"), 2026) == ["12-25"]
    assert days(made("DTSTART;VALUE=DATE:20261225", "DTEND;VALUE=DATE:20261227"), 2026) == ["12-25", "12-26"]
    assert days(made("DTSTART;VALUE=DATE:20261225", "DTEND;VALUE=DATE:20261225"), 2026) == ["12-25"]
    assert days(made("DTSTART;VALUE=DATE:20261225", "TRANSP:TRANSPARENT"), 2026) == ["12-25"]
    assert days(made("DTSTART;VALUE=DATE:20261225", "STATUS:CANCELLED"), 2026) == []


def test_events_with_times_in_a_zone_in_utc_and_without() -> None:
    zoned = made("DTSTART;TZID=Europe/Berlin:20260301T220000", "DTEND;TZID=Europe/Berlin:20260302T060000")
    utc = made("DTSTART:20260301T210000Z", "DURATION:PT8H")
    mixed = made('DTSTART;TZID="Europe/Berlin":20260301T220000', "DTEND:20260302T050000Z")
    floating = made("DTSTART:20260301T220000", "DTEND:20260302T060000")
    for found in (zoned, utc, mixed):
        for hour, inside in ((20, False), (21, True), (28, True), (29, False)):
            at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(hours=hour)
            assert found.covers(at, ZoneInfo("Asia/Tokyo")) is inside
    assert floating.covers(datetime(2026, 3, 1, 22, tzinfo=UTC), UTC)


def test_folded_lines_escapes_and_other_components() -> None:
    text = (
        "\ufeffBEGIN:VCALENDAR\r\nBEGIN:VTIMEZONE\r\nTZID:X\r\nBEGIN:STANDARD\r\nDTSTART:19701025T030000\r\n"
        "TZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100\r\n"
        "END:STANDARD\r\nEND:VTIMEZONE\r\nBEGIN:VEVENT\r\nSUMMARY:Bread\\, cheese\\; \r\n and\\nwine\r\n"
        "DTSTART;VALUE=\r\n DATE:2026\r\n\t1225\r\nBEGIN:VALARM\r\nTRIGGER:-PT15M\r\nEND:VALARM\r\n"
        "END:VEVENT\r\nEND:VCALENDAR"
    )
    (block,) = calendar("x", text).blocks
    assert (block.label, block.text()) == ("Bread, cheese; and wine", "2026-12-25")
    assert calendar("x", text.replace("\r\n", "\n")).blocks == (block,)


@pytest.mark.parametrize(
    ("start", "rule", "year", "expected"),
    [
        ("20201225", "FREQ=YEARLY", 2030, ["12-25"]),
        ("20201225", "FREQ=YEARLY;INTERVAL=4", 2026, []),
        ("20201225", "FREQ=YEARLY;COUNT=3", 2022, ["12-25"]),
        ("20201225", "FREQ=YEARLY;COUNT=3", 2023, []),
        ("20201225", "FREQ=YEARLY;UNTIL=20221225", 2022, ["12-25"]),
        ("20201225", "FREQ=YEARLY;UNTIL=20221224", 2022, []),
        ("20240229", "FREQ=YEARLY", 2026, []),
        ("20240229", "FREQ=YEARLY", 2028, ["02-29"]),
        ("19701126", "FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", 2026, ["11-26"]),
        ("19700525", "FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO", 2026, ["05-25"]),
        ("20200101", "FREQ=YEARLY;BYDAY=1MO", 2026, ["01-05"]),
        ("20200101", "FREQ=YEARLY;BYMONTH=1,7;BYMONTHDAY=1", 2026, ["01-01", "07-01"]),
        ("20260131", "FREQ=MONTHLY;COUNT=3", 2026, ["01-31", "03-31", "05-31"]),
        ("20260101", "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=-1", 2026, ["01-31", "04-30", "07-31", "10-31"]),
        ("20260101", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", 2026, ["02-13", "03-13", "11-13"]),
        ("20260105", "FREQ=WEEKLY;INTERVAL=2;COUNT=3;BYDAY=MO,TU", 2026, ["01-05", "01-06", "01-19"]),
        ("20261228", "FREQ=DAILY;INTERVAL=2", 2026, ["12-28", "12-30"]),
        ("20260101", "FREQ=DAILY;BYMONTH=2;BYDAY=SU", 2026, ["02-01", "02-08", "02-15", "02-22"]),
        ("19000101", "FREQ=DAILY;INTERVAL=1000", 2025, ["12-11"]),
        ("19000101", "FREQ=WEEKLY;INTERVAL=50;BYDAY=MO,TU", 2026, ["06-29", "06-30"]),
        ("20260101", "FREQ=YEARLY;BYWEEKNO=3;BYDAY=MO", 2027, ["01-18"]),
        ("20260101", "FREQ=MONTHLY;INTERVAL=6;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", 2026, ["01-30", "07-31"]),
    ],
)
def test_repeating_events(start: str, rule: str, year: int, expected: list[str]) -> None:
    assert days(made(f"DTSTART;VALUE=DATE:{start}", f"RRULE:{rule}"), year) == expected


def test_a_repeated_event_may_leave_dates_out_and_cross_new_year() -> None:
    found = made("DTSTART;VALUE=DATE:20201225", "RRULE:FREQ=YEARLY", "EXDATE;VALUE=DATE:20261225,20271225")
    assert (days(found, 2026), days(found, 2028)) == ([], ["12-25"])
    break_ = made("DTSTART;VALUE=DATE:20201230", "DTEND;VALUE=DATE:20210103", "RRULE:FREQ=YEARLY")
    assert days(break_, 2026) == ["01-01", "01-02", "12-30", "12-31"]
    timed = made(
        "DTSTART;TZID=Europe/Berlin:20260301T220000",
        "DURATION:PT8H",
        "RRULE:FREQ=DAILY;UNTIL=20260303T210000Z",
        "EXDATE:20260302T210000Z",
    )
    inside = [timed.covers(datetime(2026, 3, day, 22, tzinfo=UTC), UTC) for day in range(1, 5)]
    assert inside == [True, False, True, False]


def test_a_rule_that_never_matches_ends() -> None:
    rule = "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"
    assert begins(datetime(2026, 1, 1), rule, None, datetime(2026, 1, 1), datetime(2030, 1, 1)) == []
    with pytest.raises(InvalidValue, match="at least one day"):
        check_rule("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", datetime(2026, 1, 1))
    with pytest.raises(InvalidValue, match="at least one day"):
        check_rule("FREQ=DAILY;INTERVAL=7;BYDAY=MO", datetime(2026, 1, 1))


@pytest.mark.req("WIN-8")
@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["DTSTART;VALUE=DATE:20261325"], "DTSTART"),
        (["DTSTART:tomorrow"], "DTSTART"),
        (["DTSTART:20260101T100000Z"], "no length"),
        (["SUMMARY:nothing"], "DTSTART"),
        (["DTSTART;TZID=Middle/Earth:20260101T100000", "DURATION:PT1H"], "Middle/Earth"),
        (["DTSTART:20260101T100000Z", "DTEND:20260101T090000Z"], "DTEND"),
        (["DTSTART:20260101T100000Z", "DTEND;VALUE=DATE:20260102"], "DTEND"),
        (["DTSTART:20260101T100000", "DTEND:20260101T110000Z"], "DTEND"),
        (["DTSTART:20260101T100000Z", "DURATION:soon"], "soon"),
        (["DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=SECONDLY"], "RRULE"),
        (["DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=DAILY;BYHOUR=3"], "BYHOUR"),
        (["DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=DAILY;BYEASTER=1"], "RRULE"),
        (["DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=YEARLY;BYMONTH=13"], "BYMONTH"),
        (["DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=WEEKLY;BYDAY=2MO"], "2MO"),
        (["DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=DAILY;COUNT=2;UNTIL=20270101"], "COUNT or UNTIL"),
        (["DTSTART;VALUE=DATE:20260101", "RDATE;VALUE=DATE:20260201"], "RDATE"),
        (["DTSTART;VALUE=DATE:20260101", "RECURRENCE-ID:20260201T000000"], "RECURRENCE-ID"),
        (["DTSTART;VALUE=DATE:20260101", "nonsense"], "nonsense"),
        (["DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=DAILY", "RRULE:FREQ=DAILY"], "one RRULE"),
    ],
)
def test_an_event_that_is_not_understood_is_refused(lines: list[str], named: str) -> None:
    with pytest.raises(InvalidValue, match=r"^\.ics event 1\b") as caught:
        made(*lines)
    assert named in str(caught.value)


def test_a_file_that_is_cut_off_is_refused() -> None:
    with pytest.raises(InvalidValue, match="cut off"):
        calendar("x", ics("DTSTART;VALUE=DATE:20260101").rpartition("END:VEVENT")[0])


def test_a_missing_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "icalendar", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'mainspring\[calendars\]'"):
        made("DTSTART;VALUE=DATE:20260101")
