"""`mainspring calendars`: holidays, blackouts and other calendars that jobs name in their hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ....app.mainspring import Mainspring
from ....core.jobs.calendars import CalendarView
from ....core.render.entities import calendar_json
from ....model.calendars.calendar import Calendar, calendar
from ...completion import names_of
from ...parameters import read_text
from ...root import EXIT_CODES, CommandGroup, example
from ...screens.output import moment, note, print_fields, print_lines
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options, operator
from ...terminal import echo

SHOWN = 50


@example("calendars list", "calendars set holidays --file holidays.ics")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def calendars() -> None:
    """Named calendars: the days and times at which jobs run, or do not run."""


@example("calendars list")
@calendars.command("list")
@client_options
def list_calendars(session: ClientSession) -> None:
    """Every calendar, with how many entries it has and who set it."""
    found = session.call(lambda app: app.calendars.all())
    session.show([calendar_json(view) for view in found], lambda: _print_list(found))


@example("calendars show holidays")
@calendars.command("show")
@click.argument("name", shell_complete=names_of("calendar"))
@client_options
def show_calendar(session: ClientSession, name: str) -> None:
    """One calendar with its entries, and the jobs that name it."""
    view, jobs = session.call(lambda app: _with_jobs(app, name))
    session.show({**calendar_json(view), "jobs": jobs}, lambda: _print_one(view, jobs))


@example("calendars set holidays --date 2026-12-31 --date 2027-01-02")
@calendars.command("set")
@click.argument("name", shell_complete=names_of("calendar"))
@click.option(
    "--file", "path", metavar="FILE", type=click.Path(dir_okay=False), help="An .ics file, or - for standard input."
)
@click.option(
    "--date",
    "entries",
    metavar="ENTRY",
    multiple=True,
    help="2026-12-25, 12-25 (every year), sat-sun, or a range 2026-12-24/2027-01-02; may be given again.",
)
@client_options
def set_calendar(session: ClientSession, name: str, path: str | None, entries: Sequence[str]) -> None:
    """Store a calendar, replacing any of the same name. It stays until it is set again or reverted."""
    if not path and not entries:
        raise click.UsageError("the calendar has no entries; give --file FILE or --date ENTRY, or both")
    blocks = [block for given in _given(path, entries) for block in calendar(name, given).blocks]
    view = session.call(lambda app: app.calendars.set(name, Calendar(tuple(blocks)), by=operator()))
    session.show(calendar_json(view), lambda: echo(f"calendar {name!r} set: {_count(view)}"))


def _given(path: str | None, entries: Sequence[str]) -> list[Any]:
    if path is None:
        return [list(entries)]
    text = read_text(path, "--file")
    if not text.lstrip().upper().startswith("BEGIN:VCALENDAR"):
        raise click.UsageError(f"--file {path}: this is not an .ics file, which begins with BEGIN:VCALENDAR")
    return [text, list(entries)]


@example("calendars revert holidays")
@calendars.command("revert")
@click.argument("name", shell_complete=names_of("calendar"))
@client_options
def revert_calendar(session: ClientSession, name: str) -> None:
    """Restore a calendar to what the application's code declares."""
    view = session.call(lambda app: app.calendars.revert(name, by=operator()))
    session.show(calendar_json(view), lambda: echo(f"calendar {name!r} is as code declares it: {_count(view)}"))


@example("calendars remove holidays")
@calendars.command("remove")
@click.argument("name", shell_complete=names_of("calendar"))
@client_options
def remove_calendar(session: ClientSession, name: str) -> None:
    """Delete a calendar. This is refused while a job names it."""

    async def work(app: Mainspring) -> bool:
        declared = (await app.calendars.get(name)).declared
        await app.calendars.remove(name, by=operator())
        return declared

    if session.call(work):
        note("warning: code declares it; it comes back at the next start")
    session.show({"removed": name}, lambda: echo(f"calendar {name!r} removed"))


async def _with_jobs(app: Mainspring, name: str) -> tuple[CalendarView, list[str]]:
    return await app.calendars.get(name), await app.calendars.jobs(name)


def _print_list(found: Sequence[CalendarView]) -> None:
    if not found:
        echo("No calendars. Create one with: mainspring calendars set NAME --date 2026-12-25")
        return
    columns = [
        Column("CALENDAR", lambda view: view.name),
        Column("ENTRIES", lambda view: str(len(view.entries))),
        Column("SET BY", lambda view: view.by),
        Column("WHEN", lambda view: moment(view.updated_at), "drop"),
        Column("FIRST", lambda view: ", ".join(view.entries[:3]), "cut"),
    ]
    print_table(columns, found)


def _print_one(view: CalendarView, jobs: Sequence[str]) -> None:
    overridden = "an operator; code declares it too (revert goes back to that)"
    origin = {"code": "code", "operator": overridden if view.declared else "an operator"}[view.origin]
    print_fields(
        {
            "calendar": view.name,
            "from": origin,
            "set": f"{moment(view.updated_at)} by {view.by}",
            "jobs": ", ".join(jobs) or "none names it",
            "entries": str(len(view.entries)),
        }
    )
    lines = [f"{block.text()}  {block.label}".rstrip() for block in view.calendar.blocks[:SHOWN]]
    more = len(view.entries) - len(lines)
    if lines:
        print_lines([*lines, *([f"... and {more} more (all with -o json)"] if more else [])], "Entries")


def _count(view: CalendarView) -> str:
    count = len(view.entries)
    return f"{count} entr{'y' if count == 1 else 'ies'}"
