"""`mainspring db`: where a database's schema stands, bringing it up to date, its SQL, and moving to another one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from ...admin import schema
from ...admin.copy import Compared, Moved, Progress, verify
from ...admin.copy import copy as copy_all
from ..root import EXIT_CODES, INTERRUPTED, REFUSED, CommandGroup, example, output_option
from ..screens.output import console, note, print_fields, print_json
from ..session import ClientSession, client_options, source_options
from ..terminal import echo

_CONTRACT = click.option(
    "--contract", is_flag=True, help="Also remove what only older releases need; refused while one of them runs."
)


@example("db status", "db migrate")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def db() -> None:
    """The database: its schema, and how to bring it up to date."""


@example("db status")
@db.command()
@client_options
def status(session: ClientSession) -> None:
    """Where the schema stands, what is missing, and which releases of Mainspring are running. Changes nothing."""
    _show(session, asyncio.run(schema.status(session.database_url())))


@example("db migrate", "db migrate --contract")
@db.command()
@client_options
@_CONTRACT
def migrate(session: ClientSession, contract: bool) -> None:
    """Add what the schema lacks. This is safe while applications run, including those of the previous release."""
    _show(session, asyncio.run(schema.migrate(session.database_url(), contract=contract)))


@example("db sql --after 3")
@db.command()
@source_options
@click.option("--after", type=click.IntRange(min=0), default=0, help="Leave out the steps up to this one.")
@_CONTRACT
def sql(session: ClientSession, after: int, contract: bool) -> None:
    """Print the SQL that `migrate` runs, for an administrator to read and apply. Connects to nothing."""
    echo(schema.script(session.database_url(), after, contract=contract), nl=False)


@example("db copy sqlite:///jobs.db postgresql://host/jobs")
@db.command()
@click.argument("source")
@click.argument("target")
@click.option("--verify", "only_verify", is_flag=True, help="Copy nothing: compare the two record by record.")
@click.option("--force", is_flag=True, help="Copy even if processes are at work in the source.")
@output_option
def copy(source: str, target: str, only_verify: bool, force: bool, output: str) -> None:
    """Copy jobs, executions, logs, statistics and audit records from one database to another, then compare them.

    If it is interrupted, run it again: it continues where it stopped. SOURCE and TARGET are addresses such as
    sqlite:///jobs.db or postgresql://host/name.
    """
    if force:
        note("what processes do in the source while it is copied may be missing in the target")
    with _watched() as report:
        if only_verify:
            done = Moved(copied={}, running=0, compared=asyncio.run(verify(source, target, report)))
        else:
            done = asyncio.run(copy_all(source, target, report, force=force))
    if output == "json":
        print_json(msgspec.to_builtins(done) | {"equal": done.equal})
    else:
        _print_compared(done.compared)
    if done.running:
        note(f"{done.running} executions were running: they keep their leases, and are run again when those end")
    if not done.equal:
        note("the two are not equal")
        raise click.exceptions.Exit(REFUSED)


@contextmanager
def _watched() -> Iterator[Progress]:
    """A progress bar on the terminal. After Ctrl-C a note says how to continue."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    screen = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=screen, transient=True, disable=not sys.stderr.isatty()) as bar:
            task = bar.add_task("opening", total=None)

            def report(step: str, kind: str, count: int, far: float | None) -> None:
                bar.update(
                    task, description=f"{step} {kind} {count:,}", completed=far or 0, total=None if far is None else 1
                )

            yield report
    except KeyboardInterrupt:
        note("stopped; run the same command again to continue")
        raise click.exceptions.Exit(INTERRUPTED) from None


def _print_compared(compared: Sequence[Compared]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("records", "source", "target", "checksum", "equal"):
        table.add_column(name, justify="right" if name in ("source", "target") else "left")
    for kind in compared:
        checksum = kind.source_checksum[:16]
        table.add_row(kind.kind, f"{kind.source:,}", f"{kind.target:,}", checksum, "yes" if kind.equal else "NO")
    console().print(table)
    for difference in (words for kind in compared for words in kind.differences):
        note(difference)


def _show(session: ClientSession, found: schema.SchemaStatus) -> None:
    session.show(msgspec.structs.asdict(found), lambda: print_fields(_fields(found)))


def _fields(found: schema.SchemaStatus) -> dict[str, Any]:
    running = [f"{count} of Mainspring {version}" for version, count in found.running.items()]
    outdated = f"{len(found.outdated)}: {', '.join(found.outdated)}"
    contracts = f"{_numbers(found.contracts)}: `mainspring db migrate --contract`, once no older release runs"
    return {
        "database": found.database,
        "schema": found.schema,
        "step": f"{found.expanded} of {found.newest}",
        "pending": _numbers(found.pending) or "none",
        "steps to contract": contracts if found.contracts else None,
        "functions to replace": outdated if found.outdated and found.expanded else None,
        "usable by": f"releases that know step {found.required}",
        "this release": f"Mainspring {found.version}",
        "workers running": ", ".join(running) or "none",
    }


def _numbers(steps: Sequence[int]) -> str:
    return ", ".join(map(str, steps))
