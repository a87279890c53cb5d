"""`mainspring import`: jobs from a crontab, or from the rows of a scheduler that knows cron."""

from __future__ import annotations

import pwd
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import click

from ...admin.cron_rows import import_rows, rows_of_csv, rows_of_json, rows_of_query
from ...app.mainspring import Mainspring
from ...core.commands.imports import ImportRow, Planned, UndoneJob
from ...core.rules.crontab import CrontabLine, read_crontab
from ..root import EXIT_CODES, REFUSED, CommandGroup, example
from ..screens.output import note
from ..screens.table import Column, print_table
from ..session import ClientSession, client_options, operator

Command = TypeVar("Command", bound=Callable[..., Any])


@example("import crontab crontab.txt --handler shell --dry-run")
@click.group("import", cls=CommandGroup, epilog=EXIT_CODES)
def import_() -> None:
    """Import jobs from other schedulers, and take imports back."""


def import_options(command: Command) -> Command:
    for option in reversed(
        [
            click.option("--handler", metavar="NAME", help="The handler of jobs that name none."),
            click.option("--timezone", metavar="ZONE", help="The zone of schedules that name none  [default: setting]"),
            click.option("--dry-run", is_flag=True, help="Show the whole report, and change nothing."),
            click.option("--undo", is_flag=True, help="Put back what the last import, or --import, changed."),
            click.option("--import", "import_id", metavar="ID", help="With --undo: this import instead of the last."),
        ]
    ):
        command = option(command)
    return client_options(command)


@example("import crontab crontab.txt --handler shell --dry-run", "import crontab --undo")
@import_.command("crontab")
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--map",
    "mapping",
    metavar="PATTERN=HANDLER",
    multiple=True,
    help="For commands that match, such as '*/dump*=dump'.",
)
@click.option("--system", is_flag=True, help="Lines name a user before the command, as in /etc/crontab.")
@click.option("--user", metavar="NAME", default="root", show_default=True, help="With --system: whose lines to import.")
@click.option("--environment", is_flag=True, help="Pass variables of the crontab as the parameter environment.")
@import_options
def import_crontab(
    session: ClientSession,
    file: str | None,
    mapping: Sequence[str],
    system: bool,
    user: str,
    environment: bool,
    **given: Any,
) -> int:
    """Import the lines of a crontab.

    Each line becomes a job whose handler gets the parameter command. Lines that fire at equal distances become
    intervals, the others stay cron; what a job cannot do is listed for review.
    """
    if given["undo"]:
        return _undo(session, file, given)
    pairs = [_pair(each) for each in mapping]
    lines = read_crontab(_text(file), system=system, user=user, users=_users(), environment=environment)
    rows = [_row_of(line, pairs, given["handler"], given["timezone"]) for line in lines]
    return _import(session, rows, f"crontab {file}", given["dry_run"])


@example("import cron-rows rows.csv --format csv --handler shell --dry-run")
@import_.command("cron-rows")
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--format", "form", type=click.Choice(["csv", "json"]), help="Of the file  [default: by its name]")
@click.option("--from", "url", metavar="URL", help="The database to ask: sqlite:///old.db or postgresql://...")
@click.option("--query", metavar="SQL", help="With --from: a query for the rows.")
@import_options
def import_cron_rows(
    session: ClientSession, file: str | None, form: str | None, url: str | None, query: str | None, **given: Any
) -> int:
    """Import rows with name, schedule_time (cron), enabled and parameters (JSON); handler and timezone if they say so.

    The rows come from a CSV or JSON file, or from a query. A row of a job that exists changes its schedule, its
    parameters if it has any, and whether it is enabled.
    """
    if given["undo"]:
        return _undo(session, file or url, given)
    if (url is None) != (query is None) or (file is None) == (url is None):
        raise click.UsageError("which rows? give a FILE, or --from and --query")
    if url is not None and query is not None:
        rows = rows_of_query(url, query)
    else:
        is_json = form == "json" or (form is None and str(file).lower().endswith((".json", ".jsonl")))
        rows = (rows_of_json if is_json else rows_of_csv)(_text(file))
    source = f"cron-rows {file}" if file else "cron-rows of a query"
    return _import(session, import_rows(rows, given["handler"], given["timezone"]), source, given["dry_run"])


def _import(session: ClientSession, rows: Sequence[ImportRow], source: str, dry_run: bool) -> int:
    async def work(app: Mainspring) -> tuple[str | None, list[Planned]]:
        imports = (await app._runtime.engine()).imports
        planned = await imports.plan(rows)
        return (None, planned) if dry_run else await imports.apply(planned, by=operator(), source=source)

    id, planned = session.call(work)
    report = {
        "import": id,
        "dry_run": dry_run,
        "counts": _counts(planned),
        "rows": [_row_json(each) for each in planned],
    }
    session.show(report, lambda: _print(id, planned, dry_run))
    return 0


def _undo(session: ClientSession, file: str | None, given: dict[str, Any]) -> int:
    if file is not None:
        raise click.UsageError("--undo takes no file: it puts back what the last import, or --import ID, changed")

    async def work(app: Mainspring) -> tuple[str, list[UndoneJob]]:
        imports = (await app._runtime.engine()).imports
        return await imports.undo(given["import_id"], by=operator(), dry_run=given["dry_run"])

    id, undone = session.call(work)
    jobs = [{"job": each.job, "outcome": each.outcome, "reason": each.reason} for each in undone]
    session.show({"import": id, "dry_run": given["dry_run"], "jobs": jobs}, lambda: _print_undone(id, undone, given))
    return REFUSED if any(each.outcome == "kept" for each in undone) else 0


# --- reading ----------------------------------------------------------------------------------------------------------


def _text(file: str | None) -> str:
    if file is None:
        raise click.UsageError("which file? give its path, or - for standard input")
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file!r} cannot be read: {error}", param_hint="FILE") from None


def _users() -> frozenset[str]:
    return frozenset(entry.pw_name for entry in pwd.getpwall())


def _pair(text: str) -> tuple[str, str]:
    pattern, equals, handler = text.rpartition("=")
    if not equals or not pattern or not handler:
        raise click.BadParameter(f"{text!r} is not PATTERN=HANDLER", param_hint="--map")
    return pattern, handler


def _row_of(line: CrontabLine, pairs: Sequence[tuple[str, str]], handler: str | None, tz: str | None) -> ImportRow:
    mapped = next((name for pattern, name in pairs if fnmatchcase(line.command, pattern)), handler)
    environment = {"environment": line.environment} if line.environment else {}
    return ImportRow(
        source=f"line {line.number}",
        name=line.name,
        schedule=line.schedule,
        handler=mapped,
        params={"command": line.command, **environment},
        tz=line.tz or tz,
        reason=line.reason,
    )


# --- showing ----------------------------------------------------------------------------------------------------------


def _counts(planned: Sequence[Planned]) -> dict[str, int]:
    return {
        action: sum(each.action == action for each in planned) for action in ("create", "update", "unchanged", "review")
    }


def _row_json(planned: Planned) -> dict[str, Any]:
    row = planned.row
    return {
        "source": row.source,
        "job": row.name,
        "schedule_time": row.schedule,
        "becomes": planned.becomes,
        "interval_minutes": planned.interval_minutes,
        "enabled": row.enabled,
        "handler": row.handler,
        "parameters": dict(row.params),
        "action": planned.action,
        "reason": planned.reason,
    }


_COLUMNS = [
    Column("SOURCE", lambda each: each.row.source),
    Column("JOB", lambda each: each.row.name),
    Column("CRON", lambda each: each.row.schedule),
    Column("BECOMES", lambda each: each.becomes),
    Column("ACTION", lambda each: each.action),
    Column("REASON", lambda each: each.reason or "-", "cut"),
]
_UNDONE = [
    Column("JOB", lambda each: each.job),
    Column("OUTCOME", lambda each: each.outcome),
    Column("REASON", lambda each: each.reason or "-", "cut"),
]


def _print(id: str | None, planned: Sequence[Planned], dry_run: bool) -> None:
    if planned:
        print_table(_COLUMNS, planned)
    counts = ", ".join(f"{count} {action}" for action, count in _counts(planned).items() if count)
    if dry_run:
        note(f"dry run, nothing was changed: {counts or 'no rows'}")
    elif id is None:
        note(f"nothing to change: {counts or 'no rows'}")
    else:
        note(f"import {id}: {counts}; take it back with --undo --import {id}")


def _print_undone(id: str, undone: Sequence[UndoneJob], given: dict[str, Any]) -> None:
    if undone:
        print_table(_UNDONE, undone)
    note(f"import {id}: " + ("dry run, nothing was changed" if given["dry_run"] else "taken back"))
