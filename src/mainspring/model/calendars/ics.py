"""Calendars from .ics files (RFC 5545), read by the library icalendar: the events of a file as blocks of time.

Only the times of events matter; alarms, to-dos and descriptions are passed over. An event is refused if it has a line
that the library does not understand, or if its times cannot be stored as a block.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

from ..errors import ConfigurationError, InvalidValue
from ..time.zones import known_zone
from .calendar import MOST_EFFORT, Block, Calendar, checked, wall
from .recurrence import check_rule

LONGEST = 10_000_000
_UNSUPPORTED = ("RDATE", "EXRULE", "RECURRENCE-ID")


def calendar_from_ics(text: str) -> Calendar:
    """Every event of the file that is not cancelled or marked as free time."""
    if len(text) > LONGEST:
        raise InvalidValue(".ics", f"{len(text):,} characters", f"at most {LONGEST:,} characters")
    try:
        from icalendar import Calendar as File
    except ImportError:
        remedy = "install it with: pip install 'mainspring[calendars]'"
        raise ConfigurationError(f"reading .ics files needs the package icalendar; {remedy}") from None
    try:
        events = File.from_ical(text.lstrip("\ufeff \r\n")).walk("VEVENT")
    except ValueError as error:
        allowed = "a whole calendar of RFC 5545, from BEGIN:VCALENDAR to END:VCALENDAR"
        raise InvalidValue(".ics", text[:40], allowed, f"The file may be cut off: {error}") from None
    blocks: list[Block] = []
    effort = 0
    for number, event in enumerate(events, 1):
        if (block := _checked_block(number, event)) is not None:
            blocks.append(block)
            effort += block.effort()
        if effort > MOST_EFFORT:
            break  # the check below refuses it; reading the other events could take minutes
    return checked(".ics", Calendar(tuple(blocks)))


def _checked_block(number: int, event: Any) -> Block | None:
    try:
        return _block(event)
    except InvalidValue as error:
        raise InvalidValue(f".ics event {number}, {error.field}", error.value, error.allowed, error.remedy) from None
    except ValueError as error:
        raise InvalidValue(f".ics event {number}", _label(event), "an event of RFC 5545", str(error)) from None


def _block(event: Any) -> Block | None:
    """None for an event that does not count: cancelled, or marked as free time. Whole days count even so, because
    holidays are often marked as free time."""
    if event.errors:
        raise ValueError(": ".join(filter(None, event.errors[0])))
    for name in _UNSUPPORTED:
        if name in event:
            raise InvalidValue(name, _text(event, name), "events without it", "Write its dates out")
    if event.DTSTART is None:
        raise InvalidValue("DTSTART", None, "an event with DTSTART")
    whole = not isinstance(event.DTSTART, datetime)
    free = _text(event, "TRANSP").upper() == "TRANSPARENT" and not whole
    if free or _text(event, "STATUS").upper() == "CANCELLED":
        return None
    tz = _zone(event, "DTSTART", event.DTSTART)
    begin, end = (_local(event, name, at, tz) for name, at in (("DTSTART", event.DTSTART), ("DTEND", event.end)))
    if whole and end == begin:  # some programs write the same day twice
        end += timedelta(days=1)
    if end <= begin:
        raise InvalidValue("DTEND", _text(event, "DTEND"), "an end after DTSTART", "A single instant has no length")
    if len(event.rrules) > 1:
        raise InvalidValue("RRULE", _text(event, "RRULE"), "one RRULE for each event")
    rule = check_rule(event.rrules[0].to_ical().decode(), begin) if event.rrules else None
    excluded = tuple(_local(event, "EXDATE", each, tz, begin.time()) for each in event.exdates)
    return Block(begin=begin, end=end, tz=tz, rule=rule, without=excluded, label=_label(event))


def _zone(event: Any, name: str, at: date) -> str | None:
    """The IANA name of the zone in which this time is written, if it has one."""
    zone = at.tzinfo if isinstance(at, datetime) else None
    given = getattr(event.get(name), "params", {}).get("TZID")
    key = getattr(zone, "key", None)
    if key is None and (zone is not None or given is not None):
        raise InvalidValue(f"{name} TZID", given, "an IANA name, such as Europe/Berlin")
    return None if key is None else str(known_zone(key))


def _local(event: Any, name: str, at: date, tz: str | None, time_of_day: time = time()) -> datetime:
    """Wall-clock time in the zone of the event; a date is the time of day on that date."""
    if not isinstance(at, datetime):
        return datetime.combine(at, time_of_day)
    if _zone(event, name, at) is None and tz is None:
        return at
    if at.tzinfo is None or tz is None:
        raise InvalidValue(name, _text(event, name), f"a zone on both DTSTART and {name}, or on neither")
    return wall(at, known_zone(tz))


def _text(event: Any, name: str) -> str:
    """The value of a property as it is written; the first if there are several."""
    found = event.get(name, "")
    first = found[0] if isinstance(found, list) and found else found
    return first if isinstance(first, str) else str(first.to_ical().decode())


def _label(event: Any) -> str:
    text = " ".join(_text(event, "SUMMARY").splitlines())
    return "".join(char for char in text if char.isprintable())[:100]
