"""`mainspring changes`: what changed before it broke."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from ....core.queries.changes import DEFAULT_SINCE, RecordedChange
from ....core.render.entities import change_json
from ...completion import names_of
from ...parameters import past_time
from ...root import example
from ...screens.changes import new_values, subject
from ...screens.output import moment, without_distance
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options
from ...terminal import echo


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
@click.option("--job", shell_complete=names_of("job"), help="Changes to this job, and deploys.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most this many.")
@client_options
def changes(session: ClientSession, since: str, until: str | None, job: str | None, limit: int) -> None:
    """What changed before it broke: deploys, edits, pauses, newest first.

    For every single command, with the values before and after it, see: mainspring audit
    """
    found = session.call(lambda app: app.changes(since, until=until, job=job, limit=limit))
    session.show([change_json(each) for each in found], lambda: _print_changes(found, since))


def _print_changes(found: Sequence[RecordedChange], since: str) -> None:
    if not found:
        echo(f"Nothing changed since {since}{' ago' if since[-1:].isalpha() and since[-1:] != 'Z' else ''}.")
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
