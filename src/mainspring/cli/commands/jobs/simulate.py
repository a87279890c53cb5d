"""`mainspring simulate`: when the jobs of an application will run, before they do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import click
import msgspec

from ....admin.schema import status
from ....app.mainspring import Mainspring
from ....core.forecast.forecast import forecast
from ....core.jobs.calendars import CalendarView
from ....core.views.job import job_of
from ....model.calendars.calendar import Calendar
from ....model.calendars.hours import hours_of
from ....model.errors import InvalidValue, JobNotFound
from ....model.job import Job, JobSpec
from ....model.time.instants import to_micros
from ....model.values.database_url import parse_url
from ....model.values.reading import duration, instant, zone, zone_name
from ...completion import applications
from ...load import load_app
from ...root import EXIT_CODES, example, output_option
from ...screens.output import note
from ...screens.simulate import show, write_json
from ...session import silence_logger

LONGEST = timedelta(days=3_660)
SHOWN = 100
READ_TIMEOUT = 5.0


@example("simulate shop.jobs:app --from 2026-03-01 --to 2026-04-01", "simulate shop.jobs:app --hourly --limit 0")
@click.command(epilog=EXIT_CODES)
@click.argument("target", metavar="MODULE:APP", shell_complete=applications)
@click.option("--from", "begin", metavar="INSTANT", help="Where it begins, such as 2026-03-01  [default: now]")
@click.option("--to", "end", metavar="INSTANT", help="Where it ends, not included  [default: a week later]")
@click.option("--tz", help="The zone of --from, --to and the hours of the day  [default: the application's]")
@click.option("--job", "names", metavar="NAME", multiple=True, help="Only this job; may be given again.")
@click.option(
    "--duration", "durations", metavar="NAME=DURATION", multiple=True, help="How long a run of this job takes: job=5m."
)
@click.option("--no-history", is_flag=True, help="Do not ask the database for past durations and single occurrences.")
@click.option("--hourly", is_flag=True, help="Show the load of each hour of the day.")
@click.option("--limit", type=click.IntRange(0), help=f"How many runs to list  [default: {SHOWN}; with -o json all]")
@output_option
def simulate(
    target: str,
    begin: str | None,
    end: str | None,
    tz: str | None,
    names: Sequence[str],
    durations: Sequence[str],
    no_history: bool,
    hourly: bool,
    limit: int | None,
    output: str,
) -> None:
    """List every run of an application's jobs between two instants, without running any.

    The application is imported, but not started. The command only reads its database: past durations, to predict
    overlaps, and single occurrences that were skipped or moved.
    """
    app = load_app(target)
    where = zone_name(zone("--tz", tz or app.settings.timezone, warn=False))
    first = instant("--from", begin, tz=where) if begin else datetime.now(UTC).replace(microsecond=0)
    last = instant("--to", end, tz=where) if end else first + timedelta(days=7)
    _check_span(first, last, end)
    specs = _chosen(app, names)
    past = Past() if no_history else past_of(app.settings.database_url)
    takes, sources = _durations(specs, durations, past)
    found = forecast(
        specs, to_micros(first), to_micros(last), where, takes, past.excepted, _calendars(app, specs, past)
    )
    if output == "json":
        write_json(found, sources, limit)
    else:
        show(found, sources, hourly, SHOWN if limit is None else limit)


def _check_span(first: datetime, last: datetime, end: str | None) -> None:
    if last <= first:
        raise InvalidValue("--to", end, f"an instant after --from, which is {first.isoformat()}")
    if last - first > LONGEST:
        raise InvalidValue("--to", end, f"at most {LONGEST.days:,} days after --from")


def _chosen(app: Mainspring, names: Sequence[str]) -> list[tuple[str, JobSpec]]:
    declared = app._runtime.declares
    for name in names:
        if name not in declared:
            raise JobNotFound(name, declared)
    specs = app._runtime.registry.declared_jobs(app.settings.lookup, app.settings.timezone, app.settings.job_defaults)
    return [(name, spec) for name, spec in specs if not names or name in names]


def _calendars(app: Mainspring, specs: Sequence[tuple[str, JobSpec]], past: Past) -> dict[str, Calendar]:
    """As they would be after a deploy: declared by code, with the operators' changes on top."""
    stored = {view.name: view.calendar for view in past.calendars}
    edited = {view.name: view.calendar for view in past.calendars if view.origin == "operator"}
    known = {**stored, **app._runtime.registry.calendars, **edited}
    for name, spec in specs:
        for missing in [each for each in hours_of(spec.hours).calendars if each not in known] if spec.hours else ():
            note(f"job {name!r} names calendar {missing!r}, which is not known here: it is taken as closed")
    return known


def _durations(
    specs: Sequence[tuple[str, JobSpec]], given: Sequence[str], past: Past
) -> tuple[dict[str, float], dict[str, str]]:
    """Seconds by job, with their sources. Durations given on the command line win."""
    named = dict(_named_duration(text, [name for name, _ in specs]) for text in given)
    if past.why and not named:
        note(f"no past durations: {past.why}; overlaps are predicted for --duration NAME=5m only")
    sources = {**dict.fromkeys(past.durations, "mean of the past"), **dict.fromkeys(named, "given")}
    return {**past.durations, **named}, sources


def _named_duration(text: str, known: Sequence[str]) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidValue("--duration", text, "a job and a duration, such as report=5m")
    if name not in known:
        raise JobNotFound(name, known)
    return name, duration(f"--duration {name}", value, allow_zero=True)


# ---------------------------------------------------------------- the past


class Past(msgspec.Struct, frozen=True):
    """What the database knows: mean seconds of timed runs by job, the jobs with single occurrences that were skipped or
    moved, and the stored calendars; or `why` it could not be read."""

    durations: dict[str, float] = {}
    excepted: dict[str, Job] = {}
    calendars: tuple[CalendarView, ...] = ()
    why: str = ""


def past_of(url: str) -> Past:
    if parse_url(url).scheme == "memory":
        return Past(why="a store in memory keeps no history")
    try:
        return asyncio.run(_past(url))
    except Exception as error:  # the schedule can be shown without the database
        return Past(why=f"the database could not be read ({type(error).__name__}: {error})")


async def _past(url: str) -> Past:
    """Opening a store creates or migrates its tables, so only an up-to-date one is opened."""
    silence_logger()
    async with asyncio.timeout(READ_TIMEOUT):
        found = await status(url)
        if found.required == 0:
            return Past(why="the database holds no tables of Mainspring yet")
        if found.pending:
            return Past(why="the database is not migrated to this release")
        app = Mainspring(url, prune=False)
        try:
            views, calendars = await app.jobs(), await app.calendars.all()
        finally:
            await app.close()
    means = {view.name: view.stats.average_duration_ms for view in views}
    return Past(
        {name: mean / 1000 for name, mean in means.items() if mean is not None},
        {view.name: job_of(view) for view in views if view.occurrences},
        tuple(calendars),
    )
