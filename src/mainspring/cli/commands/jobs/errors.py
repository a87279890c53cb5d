"""`mainspring errors`: error groups."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, get_args

import click

from ....core.errors.commands import Affected, ErrorGroupView, ErrorOrder, failed_with
from ....core.render.entities import bulk_action_json
from ....core.render.errors import error_group_detail_json, error_group_json
from ....model.errors import ExecutionNotFound
from ....model.values.reading import duration
from ...bulk_actions import run_bulk_action
from ...completion import names_of
from ...parameters import local_time, past_time
from ...root import EXIT_CODES, CommandGroup, example
from ...screens.output import moment, now, print_fields, print_text, without_distance
from ...screens.output import note as hint
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options, operator
from ...terminal import echo

BARS = " ▁▂▃▄▅▆▇█"


@example("errors list --sort count", "errors retry 5f0c8a3b9d21 --probe 5")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def errors() -> None:
    """Error groups: which errors occur, how often, since when and where."""


@example("errors list --sort count --since 1d", "errors list --job charge --muted")
@errors.command("list")
@click.option("--job", shell_complete=names_of("job"), help="Only errors that occurred in this job.")
@click.option("--tenant", shell_complete=names_of("tenant"), help="Only errors that occurred for this tenant.")
@click.option(
    "--since",
    metavar="TIME",
    callback=past_time,
    help="Only errors last seen at this time or later; 2h is two hours ago.",
)
@click.option("--muted/--not-muted", default=None, help="Only errors that are muted, or only those that are not.")
@click.option(
    "--sort",
    default="last_seen",
    show_default=True,
    type=click.Choice(get_args(ErrorOrder)),
    help="Sort by this, the greatest first.",
)
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1_000))
@click.option("--offset", default=0, type=click.IntRange(0))
@client_options
def list_errors(session: ClientSession, **wanted: Any) -> None:
    """Errors with their trend over 24 hours: the last seen first or, with --sort count, the most common."""
    found = session.call(lambda app: app.errors.all(**wanted))
    session.show([error_group_json(view) for view in found], lambda: _print_list(found))
    if found and not session.wants_json:
        hint(f"More about one: mainspring errors show {found[0].id}")
        hint(f"Run its executions again: mainspring errors retry {found[0].id} --probe 5")


@example("errors show 5f0c8a3b9d21")
@errors.command("show")
@click.argument("group", shell_complete=names_of("error_group"))
@client_options
def show_error(session: ClientSession, group: str) -> None:
    """One error with its jobs, tenants, releases and a sample traceback."""
    view = session.call(lambda app: app.errors.get(group))
    session.show(error_group_detail_json(view), lambda: _print_one(view))


@example("errors retry 5f0c8a3b9d21 --dry-run", "errors retry 5f0c8a3b9d21 --probe 5 --pace 100/s")
@errors.command("retry")
@click.argument("group", shell_complete=names_of("error_group"))
@click.option(
    "--probe", default=0, metavar="N", type=click.IntRange(0), help="Run N first, and the rest if they complete."
)
@click.option("--pace", metavar="RATE", help="The maximum rate, such as 100/s or 60/m.")
@click.option("--note", help="Why; kept with the bulk action.")
@click.option("--dry-run", is_flag=True, help="Change nothing; only count what would be retried, with a sample.")
@client_options
def retry_error(
    session: ClientSession, group: str, probe: int, pace: str | None, note: str | None, dry_run: bool
) -> None:
    """Retry all executions that failed with this error and were not retried since, as a bulk action that any node
    carries out."""
    view = session.call(lambda app: app.errors.get(group))
    if not view.open_failures and not session.wants_json:
        echo(f"nothing to retry: {_retried(session, view)}")
        return
    if dry_run:
        run_bulk_action(session, "retry", "executions", failed_with(group), dry_run=True, yes=False)
        return
    begun = session.call(lambda app: app.errors.retry(group, probe=probe, pace=pace, note=note, by=operator()))
    line = f"retrying {_count(view.open_failures or 0, 'execution')}: follow it with mainspring bulk wait {begun.id}"
    session.show(bulk_action_json(begun), lambda: echo(line))


@example('errors mute 5f0c8a3b9d21 --note "the bank is down" --for 2h')
@errors.command("mute")
@click.argument("group", shell_complete=names_of("error_group"))
@click.option("--note", default="", help="Why; shown with the group.")
@click.option(
    "--until",
    metavar="TIME",
    callback=lambda context, option, value: None if value is None else local_time("--until", value),
    help="The mute ends then at the latest, such as 2026-03-01T08:00.",
)
@click.option("--for", "length", metavar="DURATION", help="The mute ends after this time at the latest, such as 2h.")
@client_options
def mute_error(session: ClientSession, group: str, note: str, until: datetime | None, length: str | None) -> None:
    """Mute an error: it fires no alerts until it occurs in a job or a release that had not shown it."""
    if until is not None and length is not None:
        raise click.UsageError("--for and --until exclude each other; give one of them")
    if length is not None:
        until = now() + timedelta(seconds=duration("--for", length))
    view = session.call(lambda app: app.errors.mute(group, note=note, until=until, by=operator()))
    end = "" if view.mute is None or view.mute.until is None else f", at the latest until {moment(view.mute.until)}"
    session.show(error_group_detail_json(view), lambda: echo(f"{group} is muted until it changes{end}"))


@example("errors unmute 5f0c8a3b9d21")
@errors.command("unmute")
@click.argument("group", shell_complete=names_of("error_group"))
@client_options
def unmute_error(session: ClientSession, group: str) -> None:
    """Unmute an error: it fires alerts again."""
    view = session.call(lambda app: app.errors.unmute(group, by=operator()))
    session.show(error_group_detail_json(view), lambda: echo(f"{group} fires alerts again"))


def sparkline(counts: Sequence[int]) -> str:
    """One bar for each count, relative to the greatest.

    >>> sparkline([0, 1, 4, 8])
    ' ▁▄█'
    """
    most = max(counts, default=0)
    return "".join(BARS[0 if not count else max(1, round(count * 8 / most))] for count in counts)


def _by_three_hours(trend: Sequence[int]) -> list[int]:
    return [sum(trend[at : at + 3]) for at in range(0, len(trend), 3)]


def _print_list(found: Sequence[ErrorGroupView]) -> None:
    if not found:
        echo("No error matches.")
        return
    at = now()
    columns = [
        Column("GROUP", lambda view: view.id),
        Column("COUNT", lambda view: f"{view.count:,}", right=True),
        Column("LAST SEEN", lambda view: moment(view.last_seen_at, at), "keep", without_distance),
        Column("MUTED", lambda view: "muted" if view.muted else ""),
        Column("JOBS", lambda view: _names(view.jobs, view.jobs_total, 2), "cut", readable=16),
        Column("ERROR", _short_error, "last", readable=36),
        Column("LAST 24 H", lambda view: sparkline(_by_three_hours(view.trend)), "drop"),
        Column("FIRST SEEN", lambda view: moment(view.first_seen_at, at), "drop"),
        Column("WHERE", lambda view: view.frame, "drop"),
    ]
    print_table(columns, found)


def _print_one(view: ErrorGroupView) -> None:
    at = now()
    mute = view.mute
    muted = None
    if mute is not None:
        muted = f"since {moment(mute.at, at)} by {mute.by}" + (f": {mute.note}" if mute.note else "")
        muted += f", until {moment(mute.until, at)}" if mute.until is not None else ""
    releases = [each for each in dict.fromkeys((view.first_release, view.last_release)) if each]
    print_fields(
        {
            "group": view.id,
            "error": _error(view),
            "where": view.frame,
            "count": f"{_count(view.count, 'failed attempt')}, {view.failures:,} for good, {view.open_failures:,} open",
            "last 24 h": f"{sparkline(view.trend)}  ({sum(view.trend):,})",
            "first seen": moment(view.first_seen_at, at),
            "last seen": moment(view.last_seen_at, at),
            "releases": " to ".join(releases),
            "muted": muted,
            "jobs": _names(view.jobs, view.jobs_total, len(view.jobs), counts=True),
            "tenants": _names(view.tenants, view.tenants_total, len(view.tenants), counts=True),
            "newest": view.execution_id,
        }
    )
    if view.sample is not None:
        print_text(view.sample.traceback or view.sample.error, f"execution {view.sample.execution_id}")


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _retried(session: ClientSession, view: ErrorGroupView) -> str:
    """What became of its failed runs: `its 1 run was retried at 15:30:00 and completed`."""
    if not view.failures:
        return "no run has failed with it"
    id = view.last_retry_id
    if id is None:
        return "its failed runs are no longer kept"
    words = "its 1 run was retried" if view.failures == 1 else f"its {view.failures:,} runs were retried, the last"
    try:
        last = session.call(lambda app: app.get(id))
    except ExecutionNotFound:
        return words.removesuffix(", the last")
    became = "and completed" if last.state == "completed" else f"and is {last.state}"
    return f"{words} at {without_distance(moment(last.created_at))} {became}; see mainspring executions show {id}"


def _error(view: ErrorGroupView) -> str:
    return ": ".join(part for part in (view.type, view.message) if part)


def _short_error(view: ErrorGroupView) -> str:
    """The type without its module, which `show` has."""
    return ": ".join(part for part in (view.short_type, view.message) if part)


def _names(shown: Sequence[Affected], total: int, most: int, *, counts: bool = False) -> str:
    names = [f"{each.name} ({each.count:,})" if counts else each.name for each in shown[:most]]
    more = total - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
