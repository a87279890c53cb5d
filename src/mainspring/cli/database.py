"""`mainspring db`: where a database's schema stands, bringing it up to date, and the SQL for administrators."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from .. import databases
from ..config import load
from .output import print_fields, print_json
from .root import EXIT_CODES, CommandGroup

_URL = click.option(
    "--database-url", metavar="URL", help="The database  [default: MAINSPRING_DATABASE_URL, mainspring.toml]"
)
_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", help="For people or programs."
)


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def db() -> None:
    """The database: its schema, and how to bring it up to date."""


@db.command()
@_URL
@_OUTPUT
def status(database_url: str | None, output: str) -> None:
    """Which migrations are applied, and which are not. Changes nothing."""
    _show(asyncio.run(databases.standing(_url(database_url))), output)


@db.command()
@_URL
@_OUTPUT
def migrate(database_url: str | None, output: str) -> None:
    """Apply the migrations that are missing. Safe while applications run, and while others do the same."""
    _show(asyncio.run(databases.migrate(_url(database_url))), output)


@db.command()
@_URL
@click.option("--after", type=click.IntRange(min=0), default=0, help="Leave out migrations up to this number.")
def sql(database_url: str | None, after: int) -> None:
    """Print the SQL that `migrate` runs, for an administrator to read and apply. Connects to nothing."""
    click.echo(databases.script(_url(database_url), after), nl=False)


def _url(given: str | None) -> str:
    return load({"database_url": given}).database_url


def _show(found: databases.Standing, output: str) -> None:
    if output == "json":
        print_json(msgspec.structs.asdict(found))
        return
    pending = ", ".join(map(str, found.pending)) or "none"
    fields: dict[str, Any] = {
        "database": found.database,
        "schema": found.schema,
        "migration": f"{found.current} of {found.newest}",
        "pending": pending,
    }
    print_fields(fields)
