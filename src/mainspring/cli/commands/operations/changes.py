"""`mainspring changes`: what changed before it broke. `mainspring doctor`: what is wrong with this installation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import click
import msgspec

from ....admin import schema
from ....app.mainspring import Mainspring
from ....core.deploys.records import Conflict
from ....core.queries.changes import DEFAULT_SINCE, RecordedChange
from ....core.render.entities import change_json
from ...parameters import past_time
from ...root import REFUSED, example
from ...screens.changes import new_values, subject
from ...screens.jobs import conflict_text
from ...screens.output import moment, without_distance
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options


@example("changes --since 2h", "changes --since 2d --until 1d --job report")
@click.command()
@click.option(
    "--since",
    metavar="TIME",
    default=DEFAULT_SINCE,
    show_default=True,
    callback=past_time,
    help="At this time or later; 2h is two hours ago.",
)
@click.option("--until", metavar="TIME", callback=past_time, help="Before this time.")
@click.option("--job", help="Changes to this job, and deploys.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many.")
@client_options
def changes(session: ClientSession, since: str, until: str | None, job: str | None, limit: int) -> None:
    """What changed before it broke: deploys, edits, pauses, newest first.

    For every single command, with the values before and after it, see: mainspring audit
    """
    found = session.call(lambda app: app.changes(since, until=until, job=job, limit=limit))
    session.show([change_json(each) for each in found], lambda: _print_changes(found, since))


@example("doctor --app shop.jobs:app")
@click.command()
@client_options
def doctor(session: ClientSession) -> None:
    """Check the schema of the database, and whether two applications declare the same job. Exit code 1: something is
    wrong."""
    found = asyncio.run(schema.status(session.database_url()))
    problems = _schema_problems(found)
    conflicts: list[Conflict] = [] if problems else session.call(_conflicts)
    problems += [f"job {each.job}: {conflict_text(each.declarers)}" for each in conflicts]
    data = {
        "schema": msgspec.structs.asdict(found),
        "conflicts": msgspec.to_builtins(conflicts),
        "problems": problems,
    }
    session.show(data, lambda: _print_problems(problems))
    if problems:
        raise click.exceptions.Exit(REFUSED)


async def _conflicts(app: Mainspring) -> list[Conflict]:
    return await (await app._runtime.engine()).processes.conflicts()


def _schema_problems(found: schema.SchemaStatus) -> list[str]:
    if found.required == 0:
        return ["the database has no tables of Mainspring; run `mainspring db migrate`, or start an application on it"]
    if found.required > found.newest:
        return [f"the schema requires step {found.required}, this release knows {found.newest}; update mainspring"]
    if found.pending or found.outdated:
        return ["the schema is not up to date; run `mainspring db migrate`"]
    return []


def _print_problems(problems: Sequence[str]) -> None:
    for problem in problems or ["No problem found: the schema is up to date, no two applications share a job."]:
        click.echo(problem)


def _print_changes(found: Sequence[RecordedChange], since: str) -> None:
    if not found:
        click.echo(f"Nothing changed since {since}{' ago' if since[-1:].isalpha() and since[-1:] != 'Z' else ''}.")
        return
    at = datetime.now(UTC)
    columns = [
        Column("WHEN", lambda change: moment(change.at, at), "keep", without_distance),
        Column("CHANGE", lambda change: change.kind.replace("_", " "), "keep"),
        Column("BY", lambda change: change.by or "-", "cut"),
        Column("WHAT", lambda change: _what(change, at), "cut", readable=44),
    ]
    print_table(columns, found)


def _what(change: RecordedChange, at: datetime) -> str:
    what = subject(change.target) if change.target else change.what
    details = new_values(change.before, change.after, at)
    return f"{what}: {details}" if details else what
