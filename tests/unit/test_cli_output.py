"""What the command line prints: widths, times, durations, and text that cannot steer a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from mainspring.cli.output import cell, moment, relative, rough, took
from mainspring.cli.parameters import read_params
from mainspring.cli.table import Way, fitting_widths

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ways", "natural", "width", "shown"),
    [
        (["keep", "cut", "drop"], [10, 10, 10], 34, {0: 10, 1: 10, 2: 10}),
        (["keep", "cut", "drop"], [10, 30, 10], 34, {0: 10, 1: 10, 2: 10}),
        (["keep", "cut", "drop"], [10, 30, 10], 33, {0: 10, 1: 21}),
        (["keep", "cut", "cut"], [10, 40, 15], 60, {0: 10, 1: 31, 2: 15}),
        (["keep", "last", "drop"], [36, 90, 4], 60, {0: 36, 1: 16, 2: 4}),
        (["keep", "last", "drop"], [36, 90, 4], 40, {0: 36}),
        (["keep", "keep"], [36, 36], 20, {0: 36, 1: 36}),
        (["keep", "cut"], [10, 3], 5, {0: 10, 1: 3}),
    ],
)
def test_columns_give_way_in_order(ways: list[Way], natural: list[int], width: int, shown: dict[int, int]) -> None:
    assert fitting_widths(ways, natural, width) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "now"), (-0.9, "now"), (5, "in 5s"), (-90, "1m 30s ago"), (7_384, "in 2h 3m"), (-180_000, "2d 2h ago")],
)
def test_relative_times(seconds: float, text: str) -> None:
    assert relative(timedelta(seconds=seconds)) == text


def test_a_moment_shows_the_date_unless_it_is_today() -> None:
    today = moment(NOW + timedelta(minutes=1), NOW)
    later = moment(NOW + timedelta(days=400), NOW)
    assert today == f"{(NOW + timedelta(minutes=1)).astimezone():%H:%M:%S} (in 1m)"
    assert later.startswith("2027-04-05 ")
    assert later.endswith("(in 400d)")
    assert moment(None, NOW) == "-"


def test_durations_are_short() -> None:
    assert [rough(1), rough(61), rough(90_000)] == ["1s", "1m 1s", "1d 1h"]
    assert [took(None), took(0.4), took(999), took(1500), took(90_000)] == ["-", "0ms", "999ms", "1.5s", "1m 30s"]


def test_control_characters_are_shown_and_not_sent() -> None:
    assert cell("a\x1b[2Jb\rc\x07").plain == "a\\x1b[2Jb\\x0dc\\x07"
    assert cell("two\nlines").plain == "two\nlines"


@pytest.mark.parametrize(
    ("text", "pairs", "params"),
    [
        (None, [], None),
        ("{}", [], {}),
        ('{"a": 1, "b": 2}', ["b=3"], {"a": 1, "b": 3}),
        (
            None,
            ["n=5", "t=true", "s=plain text", 'q="5"', "e=", "u=a=b"],
            {"n": 5, "t": True, "s": "plain text", "q": "5", "e": "", "u": "a=b"},
        ),
    ],
)
def test_parameters_are_json_where_they_read_as_json(text: str | None, pairs: list[str], params: Any) -> None:
    assert read_params(text, pairs) == params


@pytest.mark.parametrize(("text", "pairs"), [("{", []), ("[]", []), ("1", []), (None, ["x"]), (None, ["=x"])])
def test_parameters_that_cannot_be_read_are_refused(text: str | None, pairs: list[str]) -> None:
    with pytest.raises(click.BadParameter):
        read_params(text, pairs)
