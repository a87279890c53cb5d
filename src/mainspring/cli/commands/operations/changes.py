"""`mainspring changes`: what changed before it broke. `mainspring doctor`: what is wrong with this installation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from ....admin import schema
from ....app.mainspring import Mainspring
from ....core.deploys.records import Conflict
from ....core.queries.changes import DEFAULT_SINCE, RecordedChange
from ....core.render.entities import change_json
from ....core.render.masking import masked
from ....model.values.reading import instant
from ...parameters import past_time, short_id
from ...root import REFUSED, example
from ...screens.jobs import conflict_text
from ...screens.output import compact, moment, without_distance
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


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
    """What changed before it broke: deploys, edits, pauses, newest first."""
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
        Column("WHAT", lambda change: _what(change, at), "cut"),
    ]
    print_table(columns, found)


def _what(change: RecordedChange, at: datetime) -> str:
    subject, _, name = (change.target or "").partition(":")
    what = f"{subject} {short_id(name)}" if name else change.what
    details = _details(change.before, change.after, at)
    return f"{what}: {details}" if details else what


def _details(before: Any, after: Any, at: datetime) -> str:
    """The new values of the fields that differ; of a pause its note and its end.

    >>> _details({}, {"paused": "2026-03-01T00:00:00Z", "note": "server down"}, datetime(2026, 3, 1, tzinfo=UTC))
    'server down'
    >>> _details({"rate": 1.0}, {"rate": 1.0, "concurrency": 2}, datetime(2026, 3, 1, tzinfo=UTC))
    'concurrency 2'
    """
    if not isinstance(after, dict):
        return str(after) if after else ""
    old = before if isinstance(before, dict) else {}
    new = masked({name: value for name, value in after.items() if old.get(name) != value and name != "paused"})
    return ", ".join(_detail(name, value, at) for name, value in new.items() if value not in (None, "", [], {}))


def _detail(name: str, value: Any, at: datetime) -> str:
    if name in ("note", "pause_note", "reason"):
        return str(value)
    text = value if isinstance(value, str) else compact(value)
    if _TIME.fullmatch(text):
        text = moment(instant(name, text), at)
    return f"{'until' if name == 'resume' else name} {text}"
