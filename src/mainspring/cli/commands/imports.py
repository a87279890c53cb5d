"""`mainspring import`: jobs from a crontab, or from another scheduler."""

from __future__ import annotations

import pwd
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import click
import msgspec

from ...admin.importing.cron_rows import import_rows, rows_of_csv, rows_of_json
from ...admin.importing.databases import rows_of_query
from ...app.mainspring import Mainspring
from ...core.commands.imports import Planned, UndoneJob
from ...core.rules.importing.crontab import CrontabLine, read_crontab
from ...core.rules.importing.rows import ImportRow
from ...model.defaults import SCHEDULED_ATTEMPTS
from ...model.time.zones import zone, zone_name
from ..parameters import read_text
from ..root import EXIT_CODES, REFUSED, CommandGroup, example
from ..screens.imports import print_report, print_undone, report_json, undone_json
from ..session import ClientSession, client_options, operator

Command = TypeVar("Command", bound=Callable[..., Any])

RETRIES = (
    f"failed runs are retried as the handler's own job declares, or have {SCHEDULED_ATTEMPTS} attempts where it says "
    "nothing; the original may not retry at all"
)
NOTES = {
    "crontab": ["cron starts a run while the last one goes on; these jobs skip it, unless overlap= says otherwise"],
    "apscheduler": [
        "misfire_grace_time=1, APScheduler's default, is not taken over: a run that is up to a minute late still runs",
    ],
    "celery-beat": ["the tasks must not run in both places: take them out of beat_schedule once the jobs are enabled"],
    "django-celery-beat": ["the tasks must not run in both places: disable them there once the jobs are enabled"],
    "rq-scheduler": [
        "rq-scheduler looks once a minute and counts intervals from then; here runs start when they are due",
        "RQ stops a run after 180 s by default; a job has no timeout unless its handler declares one",
    ],
}
"""What holds for all rows of a source."""


@example("import crontab crontab.txt --handler shell --dry-run", "import celery-beat --from shop.celery:app --dry-run")
@click.group("import", cls=CommandGroup, epilog=EXIT_CODES)
def import_() -> None:
    """Import jobs from other schedulers, and undo imports."""


def import_options(command: Command) -> Command:
    for option in reversed(
        [
            click.option("--handler", metavar="NAME", help="The handler of jobs that name none."),
            click.option(
                "--timezone",
                metavar="ZONE",
                help="The zone of schedules that name none  [default: the setting timezone]",
            ),
            click.option(
                "--disabled",
                is_flag=True,
                help="Import the jobs without their schedules; to add those later, import again without --disabled.",
            ),
            click.option("--dry-run", is_flag=True, help="Show the whole report, and change nothing."),
            click.option("--undo", is_flag=True, help="Undo the last import, or the one that --import names."),
            click.option(
                "--import", "import_id", metavar="ID", help="With --undo: this import instead of the last one."
            ),
        ]
    ):
        command = option(command)
    return client_options(command)


def map_option(of: str) -> Callable[[Command], Command]:
    return click.option("--map", "mapping", metavar="PATTERN=HANDLER", multiple=True, help=f"For {of}.")


def from_option(of: str) -> Callable[[Command], Command]:
    return click.option("--from", "source", metavar="SOURCE", help=of)


trust_option = click.option(
    "--trust-pickles", is_flag=True, help="Read stored pickles, which runs the code that they name."
)


# --- crontab and rows -------------------------------------------------------------------------------------------------


@example("import crontab crontab.txt --handler shell --dry-run", "import crontab --undo")
@import_.command("crontab")
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@map_option("commands that match, such as '*/dump*=dump'")
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
    intervals, the others stay cron; the report lists for review what a job cannot take over.
    """
    if given["undo"]:
        return _undo(session, file, given)
    pairs = _pairs(mapping)
    lines = read_crontab(_text(file), system=system, user=user, users=_users(), environment=environment)
    rows = [_row_of(line, pairs, given["handler"], given["timezone"]) for line in lines]
    return _import(session, rows, f"crontab {file}", given)


@example("import cron-rows rows.csv --format csv --handler shell --dry-run")
@import_.command("cron-rows")
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--format", "form", type=click.Choice(["csv", "json"]), help="The format of the file  [default: by its name]"
)
@click.option("--from", "url", metavar="URL", help="The database to ask: sqlite:///old.db or postgresql://...")
@click.option("--query", metavar="SQL", help="With --from: a query for the rows.")
@import_options
def import_cron_rows(
    session: ClientSession, file: str | None, form: str | None, url: str | None, query: str | None, **given: Any
) -> int:
    """Import rows with name, schedule_time (cron), enabled and parameters (JSON), and optionally handler and timezone.

    The rows come from a CSV or JSON file, or from a query. For a job that exists, a row changes the schedule,
    whether it is enabled and, if the row has any, the parameters.
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
    wanted = import_rows(rows, given["handler"], given["timezone"])
    return _import(session, wanted, f"cron-rows {file or 'of a query'}", given)


# --- other schedulers -------------------------------------------------------------------------------------------------


@example(
    "import apscheduler --from shop.main:scheduler --dry-run",
    "import apscheduler --from sqlite:///old.db --trust-pickles",
)
@import_.command("apscheduler")
@from_option("MODULE:SCHEDULER, or a job store: sqlite:///, postgresql://, redis:// or mongodb://.")
@click.option(
    "--table", metavar="NAME", default="apscheduler_jobs", show_default=True, help="The table of an SQL job store."
)
@trust_option
@map_option("functions that match, such as 'shop.tasks:*=refresh'")
@import_options
def import_apscheduler(
    session: ClientSession, source: str | None, table: str, trust_pickles: bool, mapping: Sequence[str], **given: Any
) -> int:
    """Import the jobs of a scheduler or a job store of APScheduler 3.

    Each job is compared with APScheduler's own next runs, also around the days on which the clocks change.
    """
    from ...admin.importing.apscheduler import apscheduler_jobs, apscheduler_rows

    if given["undo"]:
        return _undo(session, source, given)
    jobs = apscheduler_jobs(_given(source), table=table, trust=trust_pickles)
    return _import_mapped(session, apscheduler_rows(jobs, _now()), "apscheduler", mapping, given)


@example(
    "import celery-beat --from shop.celery:app --dry-run",
    "import celery-beat --from shop.celery:app --map 'mail.*=mail'",
)
@import_.command("celery-beat")
@from_option("The Celery application, as MODULE:CELERY_APP.")
@map_option("tasks that match, such as 'shop.tasks.send_*=send'")
@import_options
def import_celery_beat(session: ClientSession, source: str | None, mapping: Sequence[str], **given: Any) -> int:
    """Import the periodic tasks of a Celery application: its setting beat_schedule.

    Each task is compared with Celery's own next runs, also around the days on which the clocks change.
    """
    from ...admin.importing.celery_beat import beat_rows, beat_settings

    if given["undo"]:
        return _undo(session, source, given)
    settings = beat_settings(_given(source))
    return _import_mapped(session, beat_rows(settings, _now()), "celery-beat", mapping, given)


@example(
    "import django-celery-beat --from postgresql://db/shop --dry-run",
    "import django-celery-beat --from sqlite:///db.sqlite3",
)
@import_.command("django-celery-beat")
@from_option("The database of the Django project: sqlite:/// or postgresql://. It is only read.")
@map_option("tasks that match, such as 'shop.tasks.send_*=send'")
@import_options
def import_django_celery_beat(session: ClientSession, source: str | None, mapping: Sequence[str], **given: Any) -> int:
    """Import the periodic tasks in the tables of django-celery-beat.

    Neither Django nor Celery has to be installed. Where Celery is, each task is compared with its own next runs.
    """
    from ...admin.importing.django_celery_beat import periodic_task_rows, periodic_tasks

    if given["undo"]:
        return _undo(session, source, given)
    tasks = periodic_tasks(_given(source))
    return _import_mapped(session, periodic_task_rows(tasks, _now()), "django-celery-beat", mapping, given)


@example(
    "import rq-scheduler --from redis://localhost/0 --dry-run",
    "import rq-scheduler --from redis://localhost/0 --timezone UTC",
)
@import_.command("rq-scheduler")
@from_option("The Redis server: redis://host:6379/0. It is only read.")
@trust_option
@map_option("functions that match, such as 'shop.tasks.*=refresh'")
@import_options
def import_rq_scheduler(
    session: ClientSession, source: str | None, trust_pickles: bool, mapping: Sequence[str], **given: Any
) -> int:
    """Import the jobs of rq-scheduler.

    Its cron expressions follow the clock of the machine that it runs on: give that machine's zone with --timezone if it
    is not this machine's.
    """
    from ...admin.importing.rq_scheduler import scheduled_jobs, scheduled_rows

    if given["undo"]:
        return _undo(session, source, given)
    tz = given["timezone"] or zone_name(zone("--timezone", "local"))
    jobs = scheduled_jobs(_given(source), trust_pickles)
    return _import_mapped(session, scheduled_rows(jobs, tz, _now()), "rq-scheduler", mapping, given)


def _import_mapped(
    session: ClientSession, rows: Sequence[ImportRow], kind: str, mapping: Sequence[str], given: dict[str, Any]
) -> int:
    pairs = _pairs(mapping)
    wanted = [_with_handler(row, pairs, given["handler"], given["timezone"]) for row in rows]
    return _import(session, wanted, kind, given)


def _with_handler(row: ImportRow, pairs: Sequence[tuple[str, str]], handler: str | None, tz: str | None) -> ImportRow:
    mapped = _mapped(row.task or "", pairs)
    return msgspec.structs.replace(row, handler=mapped, usual_handler=handler, tz=row.tz or tz)


def _given(source: str | None) -> str:
    if source is None:
        raise click.UsageError("no source; give --from")
    return source


def _now() -> datetime:
    return datetime.now(UTC)


# --- importing --------------------------------------------------------------------------------------------------------


def _import(session: ClientSession, rows: Sequence[ImportRow], source: str, given: dict[str, Any]) -> int:
    """`source` names the command, and the file if there is one."""
    dry_run, kind = given["dry_run"], source.partition(" ")[0]
    wanted = [msgspec.structs.replace(row, enabled=False) for row in rows] if given["disabled"] else rows

    async def work(app: Mainspring) -> tuple[str | None, list[Planned]]:
        imports = (await app._runtime.engine()).imports
        planned = await imports.plan(wanted)
        return (None, planned) if dry_run else await imports.apply(planned, by=operator(), source=source)

    id, planned = (session.rehearse if dry_run else session.call)(work)
    notes = [*NOTES.get(kind, []), RETRIES]
    session.show(report_json(id, planned, notes, dry_run), lambda: print_report(id, planned, notes, dry_run))
    return 0


def _undo(session: ClientSession, source: str | None, given: dict[str, Any]) -> int:
    if source is not None:
        raise click.UsageError("--undo takes no source: it puts back what the last import, or --import ID, changed")

    dry_run = given["dry_run"]

    async def work(app: Mainspring) -> tuple[str, list[UndoneJob]]:
        imports = (await app._runtime.engine()).imports
        return await imports.undo(given["import_id"], by=operator(), dry_run=dry_run)

    id, undone = (session.look if dry_run else session.call)(work)
    session.show(undone_json(id, undone, dry_run), lambda: print_undone(id, undone, dry_run))
    return REFUSED if any(each.outcome == "kept" for each in undone) else 0


# --- reading ----------------------------------------------------------------------------------------------------------


def _text(file: str | None) -> str:
    if file is None:
        raise click.UsageError("which file? give its path, or - for standard input")
    return read_text(file, "FILE")


def _users() -> frozenset[str]:
    return frozenset(entry.pw_name for entry in pwd.getpwall())


def _pairs(mapping: Sequence[str]) -> list[tuple[str, str]]:
    return [_pair(each) for each in mapping]


def _pair(text: str) -> tuple[str, str]:
    pattern, equals, handler = text.rpartition("=")
    if not equals or not pattern or not handler:
        raise click.BadParameter(f"{text!r} is not PATTERN=HANDLER", param_hint="--map")
    return pattern, handler


def _mapped(text: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    return next((name for pattern, name in pairs if fnmatchcase(text, pattern)), None)


def _row_of(line: CrontabLine, pairs: Sequence[tuple[str, str]], handler: str | None, tz: str | None) -> ImportRow:
    environment = {"environment": line.environment} if line.environment else {}
    return ImportRow(
        source=f"line {line.number}",
        name=line.name,
        schedule=line.schedule,
        handler=_mapped(line.command, pairs) or handler,
        params={"command": line.command, **environment},
        tz=line.tz or tz,
        reason=line.reason,
    )
