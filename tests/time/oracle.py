"""The ticks of a cron expression, found by looking at a clock on the wall. Imports nothing of Mainspring.

The oracle looks at real minutes one after the other and writes down what the clock of the zone shows in each of them.
A wall-clock minute that was shown is judged by the real minutes that showed it, one that the clock leapt over by the
real minute in which it leapt. The rule for changing clocks is then a few lines, see `Clock.standing_for`:

- minute or hour starts with `*`: every real minute whose wall clock matches, so both passes of an overlap and nothing
  of a gap;
- otherwise a skipped time runs at the end of the gap, shifted by its length, or not; a repeated one on the first pass,
  the second or both. Times that fall on one instant are one tick.

To be quick, a stretch without a change of the clock is looked at every `look_every` minutes only, and a local day on
which nothing changes is worked out by addition. `look_every=1` looks at all of them. Instants are seconds since 1970.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

DAY = 1440  # minutes; wall-clock minutes are counted from 1970-01-01 00:00 on the wall, real ones from the same in UTC
EPOCH = date(1970, 1, 1).toordinal()
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


# ------------------------------------------------------------------ the expression


@dataclass(frozen=True)
class Expression:
    seconds: list[int]
    minutes_of_day: list[int]
    days_of_month: str
    months: set[int]
    days_of_week: str
    wildcard: bool

    def on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date = any(month_day_matches(term, day) for term in self.days_of_month.split(","))
        by_weekday = any(weekday_matches(term, day) for term in self.days_of_week.split(","))
        if self.days_of_month.startswith("*") or self.days_of_week.startswith("*"):
            return by_date and by_weekday
        return by_date or by_weekday


def read(text: str) -> Expression:
    fields = ALIASES.get(text.lower(), text).lower().replace("?", "*").split()
    second, minute, hour, day, month, weekday = fields if len(fields) == 6 else ["0", *fields]
    hours, minutes = numbers(hour, 0, 23), numbers(minute, 0, 59)
    return Expression(
        seconds=sorted(numbers(second, 0, 59)),
        minutes_of_day=sorted(60 * h + m for h in hours for m in minutes),
        days_of_month=day,
        months=numbers(month, 1, 12, MONTHS),
        days_of_week=weekday,
        wildcard=minute[0] == "*" or hour[0] == "*",
    )


def numbers(field: str, low: int, high: int, names: list[str] | None = None) -> set[int]:
    return {n for term in field.split(",") for n in numbers_of_term(term, low, high, names)}


def numbers_of_term(term: str, low: int, high: int, names: list[str] | None) -> range:
    span, _, step = term.partition("/")
    first, _, last = span.partition("-")
    if first == "*":
        return range(low, high + 1, int(step or 1))
    begin = number(first, low, names)
    end = number(last, low, names) if last else (high if step else begin)
    return range(begin, end + 1, int(step or 1))


def number(text: str, low: int, names: list[str] | None) -> int:
    return names.index(text) + low if names and text in names else int(text)


def month_day_matches(term: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    if term == "l":
        return day.day == last
    if term == "lw":
        working = [n for n in range(1, last + 1) if date(day.year, day.month, n).isoweekday() <= 5]
        return day.day == working[-1]
    return day.day in numbers_of_term(term, 1, 31, None)


def weekday_matches(term: str, day: date) -> bool:
    shown = {day.isoweekday() % 7, day.isoweekday()}  # Sunday is 0 and 7
    if "#" in term:
        name, nth = term.split("#")
        return number(name, 0, DAYS) in shown and (day.day - 1) // 7 + 1 == int(nth)
    if term.endswith("l"):
        last = calendar.monthrange(day.year, day.month)[1]
        return number(term[:-1], 0, DAYS) in shown and day.day > last - 7
    if term[1:] and term.split("/")[0].endswith("-sun"):
        term = term.replace("-sun", "-7")  # mon-sun
    high = 7 if "/" in term and "*" not in term else 6
    return bool(shown & set(numbers_of_term(term, 0, high, DAYS)))


# ------------------------------------------------------------------ the clock on the wall


class Clock:
    """What the clock of a zone shows in each real minute of some years, with a few days to spare on both sides."""

    def __init__(self, zone: str, first_year: int, last_year: int, look_every: int = 15) -> None:
        self.zone = ZoneInfo(zone)
        self.begin = (date(first_year, 1, 1).toordinal() - EPOCH) * DAY
        self.end = (date(last_year + 1, 1, 1).toordinal() - EPOCH) * DAY
        self.shown: dict[int, list[int]] = {}  # wall minute -> the real minutes that show it, on odd days
        self.leapt: dict[int, tuple[int, int]] = {}  # wall minute -> (first real minute after the gap, shifted one)
        self.odd: set[int] = set()  # wall days on which the clock is changed
        self.offsets: dict[int, int] = {}  # wall day -> offset, on all others
        self._look(look_every)

    def offset(self, real: int) -> int:
        shift = datetime.fromtimestamp(real * 60, self.zone).utcoffset()
        minutes, rest = divmod(shift.days * 86_400 + shift.seconds, 60)
        assert not rest, f"{self.zone} is off by {rest} s: too fine for a walk by minutes"
        return minutes

    def _look(self, every: int) -> None:
        changes = []
        real, offset = self.begin - 4 * DAY, self.offset(self.begin - 4 * DAY)
        while real < self.end + 4 * DAY:
            self.offsets.setdefault((real + offset) // DAY, offset)
            step = real + every
            if self.offset(step) != offset:
                step = next(r for r in range(real + 1, step + 1) if self.offset(r) != offset)
                changes.append(step)
                offset = self.offset(step)
            real = step
        for change in changes:
            self._walk_around(change)

    def _walk_around(self, change: int) -> None:
        before, after = self.offset(change - 1), self.offset(change)
        edges = [change + before, change + before - 1, change + after, change + after - 1]
        self.odd.update(range(min(edges) // DAY, max(edges) // DAY + 1))
        for real in range(change - 3 * DAY, change + 3 * DAY):
            known = self.shown.setdefault(real + self.offset(real), [])
            if real not in known:
                known.append(real)
        for wall in range(change + before, change + after):
            self.leapt[wall] = (change, change + wall - (change + before))

    def standing_for(self, wall: int, expression: Expression, gap: str, overlap: str) -> list[tuple[int, bool]]:
        """The real minutes that a wall-clock minute of an odd day stands for; True: only their first second."""
        if wall in self.shown:
            real = self.shown[wall]
            if expression.wildcard or overlap == "both":
                return [(minute, False) for minute in real]
            return [(min(real) if overlap == "first" else max(real), False)]
        if expression.wildcard or gap == "skip":
            return []
        end, shifted = self.leapt[wall]
        return [(end, True)] if gap == "at_end" else [(shifted, False)]

    def ticks(self, text: str, gap: str = "at_end", overlap: str = "first") -> list[int]:
        """All ticks in the years of this clock, in order."""
        expression = read(text)
        minutes: list[int] = []
        ends: list[int] = []  # of gaps: one tick each, whatever the seconds
        for day in range(self.begin // DAY - 2, self.end // DAY + 2):
            if not expression.on(date.fromordinal(EPOCH + day)):
                continue
            if day not in self.odd:
                start = day * DAY - self.offsets[day]
                minutes.extend(start + minute for minute in expression.minutes_of_day)
                continue
            for minute in expression.minutes_of_day:
                for real, first_second in self.standing_for(day * DAY + minute, expression, gap, overlap):
                    (ends if first_second else minutes).append(real)
        begin, end = self.begin * 60, self.end * 60
        ticks = {60 * minute + second for minute in minutes for second in expression.seconds}
        ticks.update(60 * minute for minute in ends)
        return sorted(tick for tick in ticks if begin <= tick < end)
