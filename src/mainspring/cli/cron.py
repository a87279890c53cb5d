"""`mainspring cron`: what an expression means, in words and in instants."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any

import click

from ..model.triggers import Cron
from ..model.triggers import cron as cron_trigger
from ..model.values import instant, zone, zone_name
from .output import print_fields, print_json, relative
from .root import EXIT_CODES, CommandGroup
from .shapes import instant_text
from .table import print_table


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def cron() -> None:
    """Work with cron expressions; needs no database."""


@cron.command("explain")
@click.argument("expression")
@click.option("--tz", default="UTC", show_default=True, help="The time zone it is read in.")
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many runs to show.")
@click.option("--after", metavar="INSTANT", help="Runs after this time, ISO 8601  [default: now]")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="For people or programs.")
def explain(expression: str, tz: str, count: int, after: str | None, output: str) -> None:
    """Say EXPRESSION in plain words and show its next runs, in local and UTC time.

    Five fields, or six with the seconds first: '0 30 3 * * *' is 03:30 every day.
    """
    where = zone("--tz", tz)
    trigger = cron_trigger(expression, tz=where)
    begin = instant("--after", after, tz=where) if after else datetime.now(UTC)
    runs = _next_runs(trigger, begin, count)
    if output == "json":
        print_json(_shape(expression, trigger, where, runs))
    else:
        _print(expression, trigger, where, runs)


def _next_runs(trigger: Cron, begin: datetime, count: int) -> list[datetime]:
    runs: list[datetime] = []
    at = trigger.next_after(begin)
    while at is not None and len(runs) < count:
        runs.append(at)
        at = trigger.next_after(at)
    return runs


def _shape(expression: str, trigger: Cron, where: tzinfo, runs: list[datetime]) -> dict[str, Any]:
    return {
        "expression": expression,
        "normalised": trigger.expr,
        "description": trigger.describe(),
        "timezone": zone_name(where),
        "next_runs": [{"local": run.astimezone(where).isoformat(), "utc": instant_text(run)} for run in runs],
    }


def _print(expression: str, trigger: Cron, where: tzinfo, runs: list[datetime]) -> None:
    print_fields({"expression": expression, "means": trigger.describe(), "zone": zone_name(where)})
    click.echo()
    if not runs:
        click.echo("It never runs: no such time within 50 years.")
        return
    now = datetime.now(UTC)
    rows = [
        [f"{run.astimezone(where):%a %Y-%m-%d %H:%M:%S %z}", f"{run:%Y-%m-%d %H:%M:%S}Z", relative(run - now)]
        for run in runs
    ]
    print_table({"LOCAL": "keep", "UTC": "keep", "WHEN": "keep"}, rows)
