"""Cron of other schedulers: read into the values of each field, and written as triggers that may mean the same.

Other schedulers read the fields differently: Monday may be 0, ranges may wrap around, and day of month and day of week
must usually both match, where cron is content with either. The values of the fields have one meaning only. What remains
open is the rule at clock changes: `cron_triggers` offers every rule that a trigger can have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, get_args

import msgspec

from ....model.errors import InvalidValue
from ....model.time.timeline import Gap, Overlap
from ....model.triggers import Trigger, any_of
from ....model.triggers.wall_clock import Cron, cron

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTHS = {name: month for month, name in enumerate(_MONTHS, 1)}
WEEKDAYS = {name: day for day, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_TERM = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?")

SECOND = MINUTE = (0, 59)
HOUR, DAY, MONTH, WEEKDAY = (0, 23), (1, 31), (1, 12), (0, 6)


class CronFields(msgspec.Struct, frozen=True, kw_only=True):
    """The values at which a schedule fires, 0 being Sunday; all of the fields have to match."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] = frozenset(range(1, 32))
    months: frozenset[int] = frozenset(range(1, 13))
    weekdays: frozenset[int] = frozenset(range(7))
    seconds: frozenset[int] = frozenset({0})
    day: str = ""
    """Instead of `days`: `L`, the last day of the month."""
    weekday: str = ""
    """Instead of `weekdays`: such as `5L`, the last Friday, or `1#2`, the second Monday."""

    @property
    def text(self) -> str:
        """As a crontab would have it."""
        clock = [values_text(self.minutes, MINUTE), values_text(self.hours, HOUR)]
        day, weekday = self.day or values_text(self.days, DAY), self.weekday or values_text(self.weekdays, WEEKDAY)
        return " ".join([*clock, day, values_text(self.months, MONTH), weekday])


def field_values(
    field: str,
    text: Any,
    span: tuple[int, int],
    names: Mapping[str, int] | None = None,
) -> frozenset[int]:
    """The values of one field.

    >>> sorted(field_values("hour", "22-2,*/12", HOUR))
    [0, 1, 2, 12, 22, 23]
    """
    found: set[int] = set()
    for term in str(text).lower().replace(" ", "").split(","):
        match = _TERM.fullmatch(term)
        if match is None:
            raise _refused(field, text, span)
        found |= _term_values(field, text, match, span, names or {})
    return frozenset(found)


def _term_values(
    field: str, text: Any, term: re.Match[str], span: tuple[int, int], names: Mapping[str, int]
) -> set[int]:
    low, high = span
    step = int(term["step"] or 1)
    if step < 1:
        raise _refused(field, text, span)
    if term["first"] == "*":
        return set(range(low, high + 1, step))
    first = _number(field, text, term["first"], span, names)
    if term["last"] is None:
        return set(range(first, high + 1, step)) if term["step"] else {first}
    last = _number(field, text, term["last"], span, names)
    values = [*range(first, last + 1)] if first <= last else [*range(first, high + 1), *range(low, last + 1)]
    return set(values[::step])


def _number(field: str, text: Any, word: str, span: tuple[int, int], names: Mapping[str, int]) -> int:
    number = names.get(word[:3]) if word[:1].isalpha() else int(word) if word.isdigit() else None
    if number is None or not span[0] <= number <= span[1]:
        raise _refused(field, text, span)
    return number


def _refused(field: str, text: Any, span: tuple[int, int]) -> InvalidValue:
    return InvalidValue(field, text, f"{span[0]}-{span[1]}, *, lists, ranges and steps")


# --- writing ----------------------------------------------------------------------------------------------------------


def cron_triggers(fields: CronFields, tz: str) -> list[Trigger]:
    """The triggers that fire at these values and differ only in what they do when the clocks change; the usual one
    first. An expression that follows the wall clock, such as every five minutes, has one rule only."""
    clock = [values_text(fields.minutes, MINUTE), values_text(fields.hours, HOUR)]
    if any(text.startswith("*") for text in clock):
        return [_trigger(fields, clock, tz, "at_end", "first")]
    rules = product(get_args(Gap), get_args(Overlap))
    return [_trigger(fields, clock, tz, gap, overlap) for gap, overlap in rules]


def _trigger(fields: CronFields, clock: Sequence[str], tz: str, gap: Gap, overlap: Overlap) -> Trigger:
    seconds = [values_text(fields.seconds, SECOND)] if fields.seconds != {0} else []
    months = values_text(fields.months, MONTH)
    day = fields.day or values_text(fields.days, DAY)
    weekday = fields.weekday or values_text(fields.weekdays, WEEKDAY)

    def at(day: str, weekday: str) -> Cron:
        return cron(" ".join([*seconds, *clock, day, months, weekday]), tz=tz, gap=gap, overlap=overlap)

    if "*" in (day, weekday):
        return at(day, weekday)
    others = frozenset(range(7)) - fields.weekdays
    return at(day, "*").excluding(at("*", values_text(others, WEEKDAY)))


def values_text(values: Iterable[int], span: tuple[int, int]) -> str:
    """The shortest usual way to write the values of a field.

    >>> values_text({0, 15, 30, 45}, MINUTE), values_text({1, 2, 3, 4, 5}, WEEKDAY), values_text({1, 3, 4}, DAY)
    ('*/15', '1-5', '1,3-4')
    """
    low, high = span
    known = sorted(values)
    if len(known) > 2 or len(known) == high - low + 1:
        step = known[1] - known[0]
        if known == [*range(low, high + 1, step)]:
            return "*" if step == 1 else f"*/{step}"
    return ",".join(_run_text(run) for run in _runs(known))


def _runs(values: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def _run_text(run: Sequence[int]) -> str:
    return str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"


def combined(triggers: Sequence[Trigger]) -> Trigger:
    """Due whenever one of them is."""
    return triggers[0] if len(triggers) == 1 else any_of(*triggers)
