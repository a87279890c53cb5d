"""`mainspring cron`: what an expression means, in words and in instants, and what happens when the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Any, get_args

import click

from ....core.render.entities import instant_text
from ....model.time.timeline import Gap, Overlap
from ....model.triggers import Cron
from ....model.triggers import cron as cron_trigger
from ....model.triggers.clock_changes import ClockChange, clock_changes, effect
from ....model.values.reading import instant, zone, zone_name
from ...root import EXIT_CODES, CommandGroup, example, output_option
from ...screens.output import now, own_clock, print_fields, print_json, relative
from ...screens.table import Column, print_table
from ...terminal import echo

CHANGES_SHOWN = 2


@example('cron explain "30 2 * * *" --tz America/New_York')
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def cron() -> None:
    """Work with cron expressions; needs no database."""


@example('cron explain "30 2 * * *" --tz America/New_York --count 3')
@cron.command("explain")
@click.argument("expression")
@click.option("--tz", default="UTC", show_default=True, help="The time zone of the expression.")
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many runs to show.")
@click.option("--after", metavar="INSTANT", help="Runs after this time, ISO 8601  [default: now]")
@click.option(
    "--dst-gap",
    type=click.Choice(get_args(Gap)),
    default="at_end",
    show_default=True,
    help="A time that the clocks skip: run at the end of the gap, later by its size, or not.",
)
@click.option(
    "--dst-overlap",
    type=click.Choice(get_args(Overlap)),
    default="first",
    show_default=True,
    help="A time that the clocks repeat: which of the two runs.",
)
@output_option
def explain(
    expression: str, tz: str, count: int, after: str | None, dst_gap: Gap, dst_overlap: Overlap, output: str
) -> None:
    """Explain EXPRESSION in plain words and show its next runs, in its zone and in yours, and the next two clock
    changes.

    Five fields, or six with the seconds first: '0 30 3 * * *' is 03:30 every day.
    """
    where = zone("--tz", tz)
    trigger = cron_trigger(expression, gap=dst_gap, overlap=dst_overlap).with_zone(where)
    begin = instant("--after", after, tz=where) if after else datetime.now(UTC)
    runs = list(trigger.ticks(begin, datetime.max.replace(tzinfo=UTC), count))
    changes = list(islice(clock_changes(where, begin), CHANGES_SHOWN))
    if output == "json":
        print_json(_shape(expression, trigger, where, runs, changes))
    else:
        _print(expression, trigger, where, runs, changes)


def _shape(
    expression: str, trigger: Cron, where: tzinfo, runs: list[datetime], changes: list[ClockChange]
) -> dict[str, Any]:
    return {
        "expression": expression,
        "normalised": trigger.expr,
        "description": trigger.describe(),
        "timezone": zone_name(where),
        "dst_gap": trigger.gap,
        "dst_overlap": trigger.overlap,
        "follows_wall_clock": trigger.follows_the_wall_clock,
        "next_runs": [_run(run, where) for run in runs],
        "clock_changes": [_change(trigger, change, where) for change in changes],
    }


def _run(run: datetime, where: tzinfo) -> dict[str, str | None]:
    return {"local": run.astimezone(where).isoformat(), "utc": instant_text(run)}


def _change(trigger: Cron, change: ClockChange, where: tzinfo) -> dict[str, Any]:
    begin, end = change.skipped_or_repeated
    times, runs, words = effect(trigger, change)
    return {
        "at": instant_text(change.at),
        "kind": change.kind,
        "begin": begin.isoformat(),
        "end": end.isoformat(),
        "seconds": int(change.size.total_seconds()),
        "times": [time.isoformat() for time in times],
        "runs": [_run(run, where) for run in runs],
        "effect": words,
    }


def _print(expression: str, trigger: Cron, where: tzinfo, runs: list[datetime], changes: list[ClockChange]) -> None:
    print_fields({"expression": expression, "means": trigger.describe(), "zone": zone_name(where)})
    echo()
    if not runs:
        echo("It never runs: no such time within 50 years.")
        return
    at = now()
    columns = [
        Column(zone_name(where), lambda run: f"{run.astimezone(where):%a %Y-%m-%d %H:%M:%S %z}"),
        Column("HERE", own_clock),
        Column("WHEN", lambda run: relative(run - at)),
    ]
    print_table(columns, runs)
    echo()
    if not changes:
        echo("The clocks of this zone do not change in the next ten years.")
    for change in changes:
        echo(_change_in_words(trigger, change))


def _change_in_words(trigger: Cron, change: ClockChange) -> str:
    """Two lines: when the clock is changed and how, and what becomes of the runs."""
    begin, end = change.skipped_or_repeated
    old, new = (begin, end) if change.kind == "gap" else (end, begin)
    verb = "forward" if change.kind == "gap" else "back"
    until = f"{new:%H:%M}" if old.date() == new.date() else f"{new:%a %Y-%m-%d %H:%M}"
    heading = f"Clocks go {verb} {_size(change.size)}, {old:%a %Y-%m-%d %H:%M} to {until}"
    return f"{heading} ({own_clock(change.at)})\n  {effect(trigger, change).words}"


def _size(size: timedelta) -> str:
    minutes = int(size.total_seconds()) // 60
    return f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"
