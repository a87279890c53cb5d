"""Which trigger fires exactly as the schedule of another scheduler does, found by comparing both.

Schedulers differ most when the clocks change, and their documentation is vague about it. So the import asks the other
scheduler's own code for its next fires, from now and around each change of the clocks in the next two years, and takes
the trigger whose ticks are the same. If none is, the report names the first instant at which they part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import msgspec

from ....model.time.zones import known_zone
from ....model.triggers import Trigger
from .cron_intervals import clock_changes

Original: TypeAlias = Callable[[datetime], datetime | None]
"""The next fire of the other scheduler later than an instant."""

AROUND = timedelta(hours=3)
NEAR = timedelta(days=1)
FIRES = 50
MOST_FIRES = 1_000
_Window: TypeAlias = tuple[datetime, datetime | None]


class Fit(msgspec.Struct, frozen=True):
    """The trigger that comes closest; `difference` says where it parts from the original, if it does."""

    trigger: Trigger
    difference: str | None = None


def fitted(candidates: Sequence[Trigger], original: Original | None, tz: str, now: datetime, who: str) -> Fit:
    """The first of the candidates that fires as the original does, or the one that differs least. `who` is the other
    scheduler's name."""
    windows = _windows(candidates[0], tz, now)
    if original is None:
        return _unchecked(candidates, windows, tz, now, who)
    expected = [_fires(original, window) for window in windows]
    best, least = candidates[0], _parting(expected, candidates[0], windows)
    for candidate in candidates[1:]:
        if not least:
            break
        parting = _parting(expected, candidate, windows)
        if len(parting) < len(least):
            best, least = candidate, parting
    return Fit(best, _described(least[0], expected, tz, now, who) if least else None)


def _unchecked(candidates: Sequence[Trigger], windows: Sequence[_Window], tz: str, now: datetime, who: str) -> Fit:
    """The first candidate, where the other scheduler's code is not here. It is exact if the clocks never change, or if
    the rules for that do not matter to it."""
    changes = clock_changes(tz, now)
    found = [[_fires(each.next_after, window) for window in windows] for each in candidates]
    if not changes or (len(found) > 1 and all(each == found[0] for each in found)):
        return Fit(candidates[0])
    when = changes[0].astimezone(known_zone(tz)).date()
    unknown = f"the clocks of {tz} change, next on {when}: {who} is not installed here to compare its runs around then"
    return Fit(candidates[0], unknown)


def _windows(trigger: Trigger, tz: str, now: datetime) -> list[_Window]:
    """From now on without an end, and from some hours before each change of the clocks until some hours after it. All
    begin with a tick, because some schedulers count from their last run."""
    spans = [(now, None), *((at - AROUND, at + AROUND) for at in clock_changes(tz, now))]
    return [(trigger.previous(begin) or begin, end) for begin, end in spans]


def _fires(next_after: Original, window: _Window) -> list[datetime]:
    """The fires of a window and the first after it; without an end, a fixed number."""
    begin, end = window
    found: list[datetime] = []
    at = next_after(begin)
    while at is not None and len(found) < (FIRES if end is None else MOST_FIRES):
        found.append(at.astimezone(UTC))
        if end is not None and at > end:
            break
        at = next_after(at)
    return found


def _parting(expected: Sequence[list[datetime]], trigger: Trigger, windows: Sequence[_Window]) -> list[datetime]:
    """The instants at which only one of them fires."""
    found: set[datetime] = set()
    for fires, window in zip(expected, windows, strict=True):
        found |= set(fires).symmetric_difference(_fires(trigger.next_after, window))
    return sorted(found)


def _described(first: datetime, expected: Sequence[list[datetime]], tz: str, now: datetime, who: str) -> str:
    by, other = (who, "the job") if any(first in fires for fires in expected) else ("the job", who)
    why = "their rules differ when the clocks change" if _near_a_change(first, tz, now) else "their rules differ"
    local = first.astimezone(known_zone(tz)).isoformat(" ", "minutes")
    return f"at {local} {by} fires and {other} does not: {why}"


def _near_a_change(instant: datetime, tz: str, now: datetime) -> bool:
    return any(abs(instant - change) <= NEAR for change in clock_changes(tz, now))
