"""The next changes of a clock and what they mean for a trigger, in words and on the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from mainspring.cli.root import run_command
from mainspring.model.triggers import cron, daily_at
from mainspring.model.triggers.clock_changes import clock_changes, effect

START = datetime(2026, 1, 1, tzinfo=UTC)
NEW_YORK = "America/New_York"
EXPLAIN = ["cron", "explain", "30 2 * * *", "--tz", NEW_YORK, "--after", "2026-03-07", "--count", "2"]


def here(utc: str) -> str:
    """By the clock of this machine."""
    return f"{datetime.fromisoformat(f'{utc}+00:00').astimezone():%Y-%m-%d %H:%M:%S %z}"


def changes(zone: str, after: datetime = START, count: int = 2):
    return list(islice(clock_changes(ZoneInfo(zone), after), count))


@pytest.mark.req("TIM-4")
def test_the_next_changes_of_new_york():
    spring, autumn = changes(NEW_YORK)
    assert (spring.at, spring.kind) == (datetime(2026, 3, 8, 7, tzinfo=UTC), "gap")
    assert spring.skipped_or_repeated == (datetime(2026, 3, 8, 2), datetime(2026, 3, 8, 3))
    assert (autumn.at, autumn.kind, autumn.size) == (
        datetime(2026, 11, 1, 6, tzinfo=UTC),
        "overlap",
        timedelta(hours=1),
    )
    assert autumn.skipped_or_repeated == (datetime(2026, 11, 1, 1), datetime(2026, 11, 1, 2))
    assert changes(NEW_YORK, spring.at)[0] == autumn


def test_a_zone_without_changes_has_none():
    assert changes("Asia/Kolkata") == changes("UTC") == []


def test_the_end_of_the_calendar_is_no_crash():
    assert len(changes(NEW_YORK, datetime(9998, 12, 1, tzinfo=UTC))) == 0


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize(
    ("expression", "gap", "words", "runs"),
    [
        ("30 2 * * *", "at_end", "02:30 is skipped: one run at 03:00, the end of the gap (at_end)", ["07:00"]),
        ("30 2 * * *", "shift", "02:30 is skipped: runs at 03:30 (shift)", ["07:30"]),
        ("30 2 * * *", "skip", "02:30 is skipped: no run (skip)", []),
        ("10,20 2 * * *", "shift", "02:10, 02:20 are skipped: runs at 03:10, 03:20 (shift)", ["07:10", "07:20"]),
        ("30 4 * * *", "at_end", "none of its times is skipped: nothing changes", []),
        (
            "*/10 * * * *",
            "at_end",
            "02:00, 02:10, 02:20 and 3 more are skipped: no run; it follows the wall clock, as its minute or hour "
            "starts with *",
            [f"0{hour}:{minute}0" for hour in (6, 7) for minute in range(6)],
        ),
    ],
)
def test_what_a_gap_does(expression, gap, words, runs):
    spring, _ = changes(NEW_YORK)
    found = effect(cron(expression, tz=NEW_YORK, gap=gap), spring)
    assert (found.words, [f"{run:%H:%M}" for run in found.runs]) == (words, runs)


@pytest.mark.req("TIM-4")
@pytest.mark.parametrize(
    ("expression", "overlap", "words", "runs"),
    [
        ("30 1 * * *", "first", "01:30 is repeated: runs the first time (first)", ["05:30"]),
        ("30 1 * * *", "second", "01:30 is repeated: runs the second time (second)", ["06:30"]),
        ("30 1 * * *", "both", "01:30 is repeated: runs both times (both)", ["05:30", "06:30"]),
        ("30 2 * * *", "both", "none of its times is repeated: nothing changes", []),
        ("5 30 1 * * *", "both", "01:30:05 is repeated: runs both times (both)", ["05:30", "06:30"]),
        (
            "0 * * * *",
            "first",
            "01:00 is repeated: runs both times; it follows the wall clock, as its minute or hour starts with *",
            ["05:00", "06:00"],
        ),
    ],
)
def test_what_an_overlap_does(expression, overlap, words, runs):
    _, autumn = changes(NEW_YORK)
    found = effect(cron(expression, tz=NEW_YORK, overlap=overlap), autumn)
    assert (found.words, [f"{run:%H:%M}" for run in found.runs]) == (words, runs)


def test_every_calendar_trigger_can_be_asked():
    spring, _ = changes(NEW_YORK)
    assert effect(daily_at("02:30", NEW_YORK, gap="skip"), spring).runs == []
    assert effect(daily_at("02:30", NEW_YORK), spring).runs == [spring.at]


@pytest.mark.req("TIM-2", "TIM-4", "OPS-4")
def test_explain_for_programs(capsys):
    assert run_command([*EXPLAIN, "--dst-gap", "shift", "--dst-overlap", "both", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["next_runs"] == [
        {"local": "2026-03-07T02:30:00-05:00", "utc": "2026-03-07T07:30:00Z"},
        {"local": "2026-03-08T03:30:00-04:00", "utc": "2026-03-08T07:30:00Z"},
    ]
    assert (found["dst_gap"], found["dst_overlap"], found["follows_wall_clock"]) == ("shift", "both", False)
    spring, autumn = found["clock_changes"]
    assert spring == {
        "at": "2026-03-08T07:00:00Z",
        "kind": "gap",
        "begin": "2026-03-08T02:00:00",
        "end": "2026-03-08T03:00:00",
        "seconds": 3600,
        "times": ["2026-03-08T02:30:00"],
        "runs": [{"local": "2026-03-08T03:30:00-04:00", "utc": "2026-03-08T07:30:00Z"}],
        "effect": "02:30 is skipped: runs at 03:30 (shift)",
    }
    assert (autumn["kind"], autumn["times"], autumn["runs"]) == ("overlap", [], [])


@pytest.mark.req("TIM-2", "TIM-4", "OPS-4")
def test_explain_for_people(capsys):
    """Times are in the zone of the job and in that of the viewer."""
    assert run_command(EXPLAIN) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "means       At 02:30 (America/New_York)" in lines
    assert any("Sun 2026-03-08 03:00:00 -0400" in line and here("2026-03-08 07:00") in line for line in lines)
    place = lines.index(f"Clocks go forward 1 h, Sun 2026-03-08 02:00 to 03:00 ({here('2026-03-08 07:00')})")
    assert lines[place + 1 :] == [
        "02:30 is skipped: one run at 03:00, the end of the gap (at_end)",
        f"Clocks go back 1 h, Sun 2026-11-01 02:00 to 01:00 ({here('2026-11-01 06:00')})",
        "none of its times is repeated: nothing changes",
    ]


def test_explain_says_when_clocks_never_change(capsys):
    assert run_command(["cron", "explain", "@hourly"]) == 0
    assert "do not change in the next ten years" in capsys.readouterr().out


def test_explain_shows_both_dates_of_a_lost_day(capsys):
    assert run_command(["cron", "explain", "0 9 * * *", "--tz", "Pacific/Apia", "--after", "2011-12-29T12:00"]) == 0
    assert "Clocks go forward 24 h, Fri 2011-12-30 00:00 to Sat 2011-12-31 00:00" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--dst-gap", "later"], ["--dst-overlap", "third"], ["--tz", "Mars"]])
@pytest.mark.req("REG-11")
def test_bad_options_are_bad_input(option, capsys):
    assert run_command([*EXPLAIN, *option]) == 2
    assert option[1] in capsys.readouterr().err
