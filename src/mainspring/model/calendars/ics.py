"""Calendars from .ics files (RFC 5545): the events of a file as blocks of time.

No library is used: only the times of events matter here, and what is not understood is refused with its line, which
a library that passes over it would not do. Alarms, to-dos, descriptions and definitions of zones are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ..errors import InvalidValue
from ..time.zones import known_zone
from .calendar import Block, Calendar, checked, wall
from .recurrence import parse_rule

LONGEST = 10_000_000
_DAY = timedelta(days=1)
_DATE = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
_TIME = re.compile(r"([0-9]{8})T([0-9]{6})(Z?)")
_DURATION = re.compile(r"\+?P(?:([0-9]+)W)?(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)S)?)?")
_UNSUPPORTED = ("RDATE", "EXRULE", "RECURRENCE-ID")


class Line(NamedTuple):
    number: int
    name: str
    parameters: dict[str, str]
    value: str

    def refused(self, why: str, remedy: str = "") -> InvalidValue:
        return InvalidValue(f".ics line {self.number}", f"{self.name}:{self.value}", why, remedy)


class Moment(NamedTuple):
    """Wall-clock time in a zone, or without one; `whole` is a day without a time."""

    at: datetime
    tz: str | None
    whole: bool


def calendar_from_ics(text: str) -> Calendar:
    """Every event of the file that is not cancelled or marked as free time."""
    if len(text) > LONGEST:
        raise InvalidValue(".ics", f"{len(text):,} characters", f"at most {LONGEST:,} characters")
    blocks = [block for event in _events(text) if (block := _block(event)) is not None]
    return checked(".ics", Calendar(tuple(blocks)))


def _events(text: str) -> Iterator[dict[str, list[Line]]]:
    inside: list[str] = []
    event: dict[str, list[Line]] = {}
    for line in _lines(text):
        if line.name == "BEGIN":
            inside.append(line.value.upper())
            event = {"BEGIN": [line]} if inside[-1] == "VEVENT" else event
        elif line.name == "END":
            if not inside or inside.pop() != line.value.upper():
                raise line.refused("an END for the BEGIN before it")
            if line.value.upper() == "VEVENT":
                yield event
        elif inside and inside[-1] == "VEVENT":
            event.setdefault(line.name, []).append(line)
    if inside:
        raise InvalidValue(".ics", f"BEGIN:{inside[-1]}", "an END for every BEGIN", "The file is cut off")


def _lines(text: str) -> Iterator[Line]:
    """Lines put together again where they were folded, each with the number it begins at."""
    begun, number = "", 0
    for at, row in enumerate(text.lstrip("\ufeff").replace("\r\n", "\n").split("\n"), 1):
        if row[:1] in (" ", "\t"):
            begun += row[1:]
            continue
        if begun.strip():
            yield _line(begun, number)
        begun, number = row, at
    if begun.strip():
        yield _line(begun, number)


def _line(text: str, number: int) -> Line:
    """`NAME;KEY=value;KEY="va:lue":the rest`."""
    parts = re.match(r'([A-Za-z0-9-]+)((?:;[^=;:]+=(?:"[^"]*"|[^";:]*))*):(.*)', text, re.DOTALL)
    if parts is None:
        raise InvalidValue(f".ics line {number}", text, "NAME:value, or NAME;KEY=value:value")
    pairs = re.findall(r';([^=;:]+)=("[^"]*"|[^";:]*)', parts[2])
    return Line(number, parts[1].upper(), {key.upper(): value.strip('"') for key, value in pairs}, parts[3].strip())


def _block(event: dict[str, list[Line]]) -> Block | None:
    if _says(event, "STATUS", "CANCELLED") or (_says(event, "TRANSP", "TRANSPARENT") and not _whole_day(event)):
        return None
    for name in _UNSUPPORTED:
        if name in event:
            raise event[name][0].refused("events without it", f"{name} is not supported: write its dates out")
    starts = event.get("DTSTART")
    if starts is None:
        raise event["BEGIN"][0].refused("an event with DTSTART")
    begin = _moment(starts[0], starts[0].value)
    end = _end(event, begin)
    rules = event.get("RRULE", [])
    if len(rules) > 1:
        raise rules[1].refused("one RRULE for each event")
    label = _unescaped(event["SUMMARY"][0].value)[:100] if "SUMMARY" in event else ""
    rule = _rule(rules[0]) if rules else None
    without = tuple(at for line in event.get("EXDATE", ()) for at in _excluded(line, begin))
    return Block(begin=begin.at, end=end, tz=begin.tz, rule=rule, without=without, label=label)


def _says(event: dict[str, list[Line]], name: str, value: str) -> bool:
    return any(line.value.upper() == value for line in event.get(name, ()))


def _whole_day(event: dict[str, list[Line]]) -> bool:
    """Holidays are often marked as free time, because nobody is busy on them; they count all the same."""
    return any(_DATE.fullmatch(line.value) for line in event.get("DTSTART", ()))


def _rule(line: Line) -> str:
    try:
        parse_rule(line.value)
    except InvalidValue as error:
        raise line.refused(error.allowed, error.remedy) from None
    return line.value.upper()


def _end(event: dict[str, list[Line]], begin: Moment) -> datetime:
    """DTEND is excluded. Without one a day lasts a day; an instant has no length and is refused."""
    if "DTEND" in event:
        line = event["DTEND"][0]
        end = _moment(line, line.value)
        if end.whole != begin.whole:
            raise line.refused("a date where DTSTART is a date, a time where it is a time")
        at = end.at if end.tz == begin.tz else _in_zone_of(line, end, begin)
        if at <= begin.at:
            if begin.whole and at == begin.at:  # some programs write the same day twice
                return begin.at + _DAY
            raise line.refused("an end after DTSTART")
        return at
    if "DURATION" in event:
        line = event["DURATION"][0]
        found = _DURATION.fullmatch(line.value.upper())
        weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0,) * 5
        size = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
        if not size:
            raise line.refused("a duration above zero, such as PT2H or P1D")
        return begin.at + size
    if begin.whole:
        return begin.at + _DAY
    raise event["DTSTART"][0].refused("an event with DTEND or DURATION", "A single instant has no length")


def _in_zone_of(line: Line, moment: Moment, other: Moment) -> datetime:
    if moment.tz is None or other.tz is None:
        raise line.refused("a zone on both DTSTART and DTEND, or on neither")
    return wall(moment.at.replace(tzinfo=known_zone(moment.tz)).astimezone(UTC), known_zone(other.tz))


def _excluded(line: Line, begin: Moment) -> list[datetime]:
    found = []
    for value in line.value.split(","):
        moment = _moment(line, value.strip())
        if moment.whole and not begin.whole:
            found.append(datetime.combine(moment.at.date(), begin.at.time()))
        else:
            found.append(moment.at if moment.tz == begin.tz else _in_zone_of(line, moment, begin))
    return found


def _moment(line: Line, value: str) -> Moment:
    try:
        if found := _DATE.fullmatch(value):
            return Moment(datetime(int(found[1]), int(found[2]), int(found[3])), None, True)
        if found := _TIME.fullmatch(value):
            at = datetime.strptime(found[1] + found[2], "%Y%m%d%H%M%S")
            return Moment(at, "UTC" if found[3] else _zone(line), False)
    except ValueError:
        pass
    raise line.refused("a date such as 20261225, or a time such as 20261225T080000 or 20261225T080000Z")


def _zone(line: Line) -> str | None:
    name = line.parameters.get("TZID")
    if name is None:
        return None
    try:
        known_zone(name.lstrip("/"))
    except InvalidValue as error:
        remedy = error.remedy or "Zones of the file's own are not read: write an IANA name"
        raise line.refused("TZID with an IANA name, such as Europe/Berlin", remedy) from None
    return name.lstrip("/")


def _unescaped(text: str) -> str:
    plain = re.sub(r"\\([nN,;\\])", lambda found: " " if found[1] in "nN" else found[1], text)
    return "".join(char for char in plain if char.isprintable())
