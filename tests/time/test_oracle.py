"""The engine against the oracle: random expressions in odd zones over two years, and what the oracle itself relies on.

`make test` takes a sample; `make time-full` sets TIME_FULL and compares 200 expressions x 20 zones x 2 years, with an
oracle that looks at every single minute.
"""

from __future__ import annotations

import ast
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from random import Random

import pytest

from mainspring.model.triggers import cron
from tests.time import oracle
from tests.time.expressions import ZONES, expressions

FULL = bool(os.environ.get("TIME_FULL"))
FIRST_YEAR, LAST_YEAR = 2026, 2027
EXPRESSIONS = expressions()
PER_ZONE = len(EXPRESSIONS) if FULL else 40
MOST_TICKS = 10**9 if FULL else 5_000  # of more, those around the changes of the clock are compared
CHECKED_BACKWARDS = 2_000 if FULL else 20  # ticks of each expression and zone that are also found from behind
DAY = 86_400
POLICIES = [(gap, overlap) for gap in ("at_end", "shift", "skip") for overlap in ("first", "second", "both")]


@lru_cache(maxsize=2)
def clock(zone: str, first_year: int = FIRST_YEAR, last_year: int = LAST_YEAR) -> oracle.Clock:
    return oracle.Clock(zone, first_year, last_year, look_every=1 if FULL else 15)


def chosen(zone: str) -> list[str]:
    """Each expression comes up in some zones of the sample, another set of them in each."""
    place = ZONES.index(zone)
    return [EXPRESSIONS[(place * 7 + n * 13) % len(EXPRESSIONS)] for n in range(PER_ZONE)]


def stretches(wall: oracle.Clock, ticks: list[int]) -> Iterator[tuple[int, int]]:
    """The parts of the two years to compare, in seconds since 1970: all, or some days around each change."""
    begin, end = wall.begin * 60, wall.end * 60
    if len(ticks) <= MOST_TICKS:
        yield begin, end
        return
    for day in sorted(wall.odd) or [begin // DAY]:
        yield max(begin, (day - 1) * DAY), min(end, (day + 2) * DAY)


def engine_ticks(trigger, begin: int, end: int) -> list[int]:
    """The ticks of the engine in [begin, end)."""
    last = datetime.fromtimestamp(end - 1, UTC)
    return [int(tick.timestamp()) for tick in trigger.ticks(datetime.fromtimestamp(begin - 1, UTC), last)]


def compare(expression: str, zone: str, wall: oracle.Clock, gap: str, overlap: str) -> int:
    trigger = cron(expression, tz=zone, gap=gap, overlap=overlap)
    expected = wall.ticks(expression, gap, overlap)
    for begin, end in stretches(wall, expected):
        wanted = expected[bisect_left(expected, begin) : bisect_right(expected, end - 1)]
        assert engine_ticks(trigger, begin, end) == wanted, (expression, zone, gap, overlap, begin)
        check_backwards(trigger, wanted)
    return len(expected)


def check_backwards(trigger, wanted: list[int]) -> None:
    for place in range(1, len(wanted), max(1, len(wanted) // CHECKED_BACKWARDS)):
        before, at = (datetime.fromtimestamp(wanted[n], UTC) for n in (place - 1, place))
        assert trigger.previous(at) == at
        assert trigger.previous(at - timedelta(microseconds=1)) == before


@pytest.mark.req("TIM-2", "TIM-4")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("zone", ZONES)
def test_the_engine_agrees_with_the_oracle(zone):
    chance = Random(f"policies of {zone}")
    found = 0
    for expression in chosen(zone):
        found += compare(expression, zone, clock(zone), *chance.choice([("at_end", "first"), chance.choice(POLICIES)]))
    assert found > 100  # random expressions that never fire would prove nothing


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize(
    ("zone", "year"),
    [
        ("Pacific/Apia", 2011),  # loses 30 December
        ("Africa/Casablanca", 2012),  # four changes
        ("America/St_Johns", 2010),  # back from 00:01 to 23:01 of the day before
        ("Antarctica/Troll", 2026),
        ("Asia/Pyongyang", 2018),  # half an hour, for good
        ("Europe/Istanbul", 2016),
        ("Europe/Volgograd", 2020),
    ],
)
@pytest.mark.parametrize("expression", ["30 2 * * *", "1 0 * * *", "15,45 23 * * *", "0 9 30 12 *", "10 0 * * * *"])
def test_years_with_odd_changes_under_every_policy(zone, year, expression):
    for gap, overlap in POLICIES:
        compare(expression, zone, clock(zone, year, year), gap, overlap)


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Chatham"])
def test_the_oracle_sees_the_same_when_it_looks_at_every_minute(zone):
    quick, slow = oracle.Clock(zone, 2026, 2026, 15), oracle.Clock(zone, 2026, 2026, 1)
    assert (quick.shown, quick.leapt, quick.odd) == (slow.shown, slow.leapt, slow.odd)
    assert quick.offsets == slow.offsets


def test_the_oracle_imports_nothing_of_mainspring():
    tree = ast.parse(Path(oracle.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert imported == {"__future__", "calendar", "dataclasses", "datetime", "zoneinfo"}


@pytest.mark.parametrize(
    ("gap", "overlap", "expected"),
    [
        ("at_end", "first", ["03-08 07:00", "11-01 05:30"]),
        ("shift", "second", ["03-08 07:30", "11-01 06:30"]),
        ("skip", "both", ["11-01 05:30", "11-01 06:30"]),
    ],
)
def test_the_oracle_knows_new_york_by_heart(gap, overlap, expected):
    """Worked out by hand: 02:30 is skipped on 8 March, 01:30 comes twice on 1 November."""
    wall = oracle.Clock("America/New_York", 2026, 2026)
    ticks = [*wall.ticks("30 2 8 3 *", gap, overlap), *wall.ticks("30 1 1 11 *", gap, overlap)]
    assert [datetime.fromtimestamp(tick, UTC).strftime("%m-%d %H:%M") for tick in ticks] == expected
