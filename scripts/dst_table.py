"""Writes the tables of clock changes in docs/time.md from the code: `python scripts/dst_table.py`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from mainspring.model.triggers import cron
from mainspring.model.triggers.clock_changes import ClockChange, clock_changes

PAGE = Path(__file__).parent.parent / "docs" / "time.md"
BEGIN, END = "<!-- clock changes of 2026 -->\n", "<!-- end of clock changes -->"

ZONES = ["America/New_York", "Australia/Lord_Howe", "Europe/Berlin"]
EXPRESSIONS = ["30 2 * * *", "30 1 * * *", "0 * * * *"]
YEAR = 2026
MOST_SHOWN, NEAR = 3, timedelta(minutes=90)
GAPS = {"at_end": "`at_end` (default)", "shift": "`shift`", "skip": "`skip`"}
OVERLAPS = {"first": "`first` (default)", "second": "`second`", "both": "`both`"}


def tables() -> str:
    changes = [(zone, change) for zone in ZONES for change in changes_of(zone)]
    gaps = [row for zone, change in changes if change.kind == "gap" for row in rows(zone, change, "gap")]
    overlaps = [row for zone, change in changes if change.kind == "overlap" for row in rows(zone, change, "overlap")]
    return (
        "Clocks go forward: a time that is skipped.\n\n"
        f"{table(['zone and change', 'expression', *GAPS.values()], gaps)}\n"
        "Clocks go back: a time that comes twice.\n\n"
        f"{table(['zone and change', 'expression', *OVERLAPS.values()], overlaps)}"
    )


def changes_of(zone: str) -> list[ClockChange]:
    begin = datetime(YEAR, 1, 1, tzinfo=UTC)
    return [change for change in clock_changes(ZoneInfo(zone), begin) if change.at.year == YEAR]


def rows(zone: str, change: ClockChange, option: str) -> list[list[str]]:
    old, new = (change.at.replace(tzinfo=None) + offset for offset in (change.before, change.after))
    heading = f"{zone}, {old.day} {old:%B}: {old:%H:%M} becomes {new:%H:%M}"
    policies = GAPS if option == "gap" else OVERLAPS
    return [
        [heading, f"`{text}`", *(runs(text, zone, change, **{option: policy}) for policy in policies)]
        for text in EXPRESSIONS
    ]


def runs(text: str, zone: str, change: ClockChange, **options: str) -> str:
    """The runs of the local day; of many, those around the change."""
    where = ZoneInfo(zone)
    day = change.skipped_or_repeated[0].date()
    begin, end = (datetime.combine(day + timedelta(days=n), time(), where).astimezone(UTC) for n in (0, 1))
    second = timedelta(seconds=1)
    found = list(cron(text, tz=zone, **options).ticks(begin - second, end - second))  # type: ignore[arg-type]
    if len(found) <= MOST_SHOWN:
        return ", ".join(local(run, where) for run in found) or "no run"
    near = ", ".join(local(run, where) for run in found if abs(run - change.at) <= NEAR)
    return f"{len(found)} runs: ... {near} ..."


def local(run: datetime, where: ZoneInfo) -> str:
    text = run.astimezone(where).isoformat(timespec="minutes")
    return f"{text[11:16]} ({text[16:]})"


def table(heading: list[str], lines: list[list[str]]) -> str:
    marked = [heading, ["---"] * len(heading), *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in marked)


def rendered(page: str) -> str:
    return re.sub(f"(?s){BEGIN}.*{END}", lambda _: BEGIN + tables() + END, page)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text()))
