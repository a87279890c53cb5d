"""`mainspring executions`: executions that ran, run or wait."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from ....app.mainspring import Mainspring
from ....core.filters.executions import FIELDS
from ....core.queries.execution_lists import BUDGET
from ....core.queries.queries import LEVELS
from ....core.render.entities import execution_json, execution_live_json, log_json
from ....core.views.execution import Execution
from ....core.views.page import Page
from ....core.views.records import LogEntry
from ....model.execution import State
from ....model.values.given import AnyCaseLogLevel
from ....model.values.terminal_text import one_line
from ...bulk_actions import bulk_options, run_bulk_action
from ...completion import names_of
from ...filters import SYSTEM, filter_options, given
from ...many import chosen_filter, steer_many
from ...parameters import find_execution, read_params, textual_parameters
from ...root import EXIT_CODES, INTERRUPTED, CommandGroup, example
from ...screens.executions import Shown, print_executions, show_execution, shown, warn_if_unclaimable, warn_of_waiting
from ...screens.output import console, first_line, moment, note, now, progress_text
from ...session import ClientSession, client_options, operator
from ...terminal import echo, json_text

FOLLOW_INTERVAL = 0.5
PATIENCE = 5.0
"""For how many seconds a user waits for an execution to begin before being told what it waits for."""
MOST_PAGES = 10
"""Pages of 1,000 running executions that are read to find the longest."""
ID = click.argument("execution_id", metavar="ID", shell_complete=names_of("execution"))
IDS = click.argument("execution_ids", metavar="ID...", nargs=-1, shell_complete=names_of("execution"))


@example("executions list --status failed --since 2h", "executions logs 0123456789ab --follow")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def executions() -> None:
    """Executions that ran, run or wait.

    For an ID, a beginning or an ending of at least 8 characters is enough if no other execution has it.
    """


@example(
    "executions list --job crawl --status failed --since 2h",
    "executions list --search order_id=4711",
    "executions list --longest",
)
@executions.command("list")
@filter_options(FIELDS)
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most this many, newest first."
)
@click.option("--before", metavar="ID", help="Only executions older than this one, to continue after a page.")
@click.option("--longest", is_flag=True, help="Only running executions, the longest-running first.")
@SYSTEM
@client_options
def list_executions(
    session: ClientSession, limit: int, before: str | None, longest: bool, system: bool, **filters: Any
) -> None:
    """Executions, newest first."""
    wanted, job = given(filters), filters["job"]
    if wanted.get("running") and "status" in wanted:
        raise click.UsageError("--running and --status exclude each other; give one of them")
    if longest and (before is not None or "status" in wanted or wanted.get("running") is False):
        raise click.UsageError("--longest shows what is running; leave out --before, --status and --no-running")

    async def work(app: Mainspring) -> Page[Execution]:
        if longest:
            return await _longest(app, limit, system=system, **wanted | {"running": True})
        found = await app.executions(limit=limit, before=before, system=system, **wanted)
        if not found and job and not await app.executions(job, limit=1):
            await app.job_view(job)  # a misspelt name is an error, not an empty list
        if not found and (group := wanted.get("error_group")):
            await app.errors.get(group)  # the same
        return found

    found = session.call(work)
    session.show([execution_json(execution) for execution in found], lambda: print_executions(found))
    if found.searched_until is not None:
        note(
            f"Looked at the {'next' if before else 'newest'} {BUDGET:,} executions, back to "
            f"{moment(found.searched_until, now())}; narrow it with --job or --since, "
            f"or go on with --before {found.next}"
        )


async def _longest(app: Mainspring, limit: int, **wanted: Any) -> Page[Execution]:
    """Those that began first. No list is sorted by that; what runs is bounded by the slots of all processes."""
    page = await app.executions(limit=1_000, **wanted)
    found = list(page)
    for _ in range(MOST_PAGES - 1):
        if page.next is None:
            break
        page = await app.executions(limit=1_000, before=page.next, **wanted)
        found += page
    found.sort(key=lambda execution: execution.started_at or execution.created_at)
    return Page(found[:limit], searched_until=page.searched_until)


@example("executions show 0123456789ab")
@executions.command("show")
@ID
@client_options
def show(session: ClientSession, execution_id: str) -> None:
    """One execution in full, with every attempt."""

    async def work(app: Mainspring) -> Shown:
        return await shown(app, await find_execution(app, execution_id))

    show_execution(session, session.call(work))


@example("executions logs 0123456789ab --follow", "executions logs 0123456789ab --tail 10 --level warning")
@executions.command("logs")
@ID
@click.option("-f", "--follow", is_flag=True, help="Follow the log until the execution has ended, wherever it runs.")
@click.option("-n", "--tail", type=click.IntRange(0, 1_000), help="Of the existing lines, show only the last N.")
@click.option("--level", type=click.Choice(LEVELS, case_sensitive=False), help="Only lines of this level and above.")
@client_options
def logs(
    session: ClientSession, execution_id: str, follow: bool, tail: int | None, level: AnyCaseLogLevel | None
) -> None:
    """The log lines of an execution, from its context, `logging` and `warnings`.

    With --follow and -o json, each line is an object with `event` (log, execution or end) and `data`.
    """
    followed: list[str] = []

    async def work(app: Mainspring) -> list[tuple[int, LogEntry]]:
        execution = await find_execution(app, execution_id)
        followed.append(execution.id)
        if follow:
            await warn_if_unclaimable(app, execution)
        if follow and tail is None:
            found = []
        else:
            found = await app.logs(execution.id, level=level)
        shown = found if tail is None else found[len(found) - min(tail, len(found)) :]
        if follow:
            await _follow(app, execution, shown, found[-1][0] if found else 0, level, session.wants_json)
        return shown

    with leaving(lambda: followed[0] if followed else ""):
        lines = session.call(work)
    if not follow:
        session.show([log_json(*line) for line in lines], lambda: _print_logs(lines))


@example("executions cancel 0123456789ab", "executions cancel --queue slow --status pending --dry-run")
@executions.command("cancel")
@IDS
@filter_options(FIELDS)
@click.option("--note", help="Why; stored with the execution.")
@bulk_options
@client_options
def cancel(
    session: ClientSession,
    execution_ids: Sequence[str],
    note: str | None,
    dry_run: bool,
    yes: bool,
    pace: str | None,
    **options: Any,
) -> int:
    """End a waiting execution; ask the worker of a running one to stop it.

    With filters such as --job and --status, a bulk action cancels all that match: see mainspring bulk.
    """
    how = {"dry_run": dry_run, "yes": yes, "pace": pace}
    code = steer_many(session, "cancel", "executions", execution_ids, options, how, reason=note)
    if code is not None:
        return code

    async def work(app: Mainspring) -> Shown:
        found = await find_execution(app, execution_ids[0])
        return await shown(app, await app.cancel_execution(found.id, by=operator(), reason=note))

    show_execution(session, session.call(work))
    return 0


@example(
    "executions retry 0123456789ab --set order=4712", "executions retry --job crawl --status failed --probe 5 --yes"
)
@executions.command("retry")
@IDS
@filter_options(FIELDS)
@click.option("--set", "pairs", metavar="KEY=VALUE", multiple=True, help="Change a parameter; may be repeated.")
@click.option("--set-json", metavar="JSON", help="Change parameters, as an object.")
@click.option("--unset", metavar="KEY", multiple=True, help="Take a parameter away; may be repeated.")
@click.option("--failed-only", is_flag=True, help="For a job with tenants: only for those that did not complete.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit code 1 if it did not complete.")
@click.option(
    "--probe",
    type=click.IntRange(0, 100),
    default=0,
    help="For a bulk action: run this many first, and stop if one fails.",
)
@click.option("--note", help="For a bulk action: why; stored with it.")
@bulk_options
@client_options
def retry(
    session: ClientSession,
    execution_ids: Sequence[str],
    pairs: Sequence[str],
    set_json: str | None,
    unset: Sequence[str],
    failed_only: bool,
    wait: bool,
    probe: int,
    note: str | None,
    dry_run: bool,
    yes: bool,
    pace: str | None,
    **options: Any,
) -> int:
    """Run a failed execution again, as a new one with the same window, and the same parameters unless --set changes
    them.

    With filters such as --job, --status and --error-group, a bulk action retries all that match: see mainspring bulk.
    """
    edit: dict[str, Any] = {}
    if pairs or set_json or unset:
        edit = {"params": read_params(set_json, pairs) or {}, "remove": unset}
    how: dict[str, Any] = {"dry_run": dry_run, "yes": yes, "pace": pace, "probe": probe, "note": note}
    many = bool(given(options) or len(execution_ids) > 1 or dry_run or pace or probe or note)
    if (failed_only or wait) and many:
        raise click.UsageError(f"{'--failed-only' if failed_only else '--wait'} is for one execution, run at once")
    if failed_only and edit:
        raise click.UsageError("--failed-only excludes --set, --set-json and --unset")
    if edit and many:
        wanted = chosen_filter(execution_ids, options, "executions")
        return run_bulk_action(session, "edit", "executions", wanted, ids=execution_ids, edit=edit, **how)
    code = steer_many(session, "retry", "executions", execution_ids, options, how)
    if code is not None:
        return code
    made: list[Execution] = []

    async def work(app: Mainspring) -> Shown:
        found = await find_execution(app, execution_ids[0])
        if failed_only:
            made.append(await app.tenants.retry_failed(found, by=operator()))
        else:
            if edit:
                edit["params"] = read_params(set_json, pairs, textual_parameters(app, found.handler)) or {}
            made.append(await app.retry(found, by=operator(), **edit))
        return await shown(app, await waited(app, made[0]) if wait else made[0])

    with leaving(lambda: made[0].id if made else ""):
        again = session.call(work)
    show_execution(session, again)
    return 0 if not wait or again.execution.state is State.COMPLETED else 1


@example("executions delete --status failed --until 30d --dry-run")
@executions.command("delete")
@IDS
@filter_options(FIELDS)
@click.option("--note", help="Why; stored with the bulk action.")
@bulk_options
@client_options
def delete(
    session: ClientSession,
    execution_ids: Sequence[str],
    note: str | None,
    pace: str | None,
    yes: bool,
    dry_run: bool,
    **options: Any,
) -> int:
    """Delete executions that have ended, with their logs. Statistics and the audit trail stay.

    By IDs, or by filters such as --status failed --until 30d: a bulk action, see mainspring bulk.
    """
    wanted = chosen_filter(execution_ids, options, "executions")
    how: dict[str, Any] = {"dry_run": dry_run, "yes": yes, "pace": pace, "note": note}
    return run_bulk_action(session, "delete", "executions", wanted, ids=execution_ids, **how)


async def waited(app: Mainspring, execution: Execution) -> Execution:
    """Wait for the end, with its progress on the terminal. What has not begun after some seconds waits for something:
    say what."""
    warned = await warn_if_unclaimable(app, execution)
    if not sys.stderr.isatty():
        try:
            return await app.wait(execution, None if warned else PATIENCE)
        except TimeoutError:
            await warn_of_waiting(app, execution.id)
            return await app.wait(execution)
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    screen = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task, waiting = bar.add_task(execution.job, total=None), 0.0
        while not execution.state.final:
            await asyncio.sleep(FOLLOW_INTERVAL)
            waiting += FOLLOW_INTERVAL
            if not warned and waiting >= PATIENCE:
                warned = True
                await warn_of_waiting(app, execution.id)
            execution = await app.get(execution.id)
            progress = execution.progress or {}
            words = f"{execution.job} {execution.state.value} {progress_text(progress, running=True)}"
            bar.update(task, description=words, completed=progress.get("done") or 0, total=progress.get("total"))
    return execution


@contextmanager
def leaving(execution_id: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C ends the waiting, not the execution."""
    try:
        yield
    except KeyboardInterrupt:
        if id := execution_id():
            note(f"stopped waiting; the execution goes on: mainspring executions show {id}")
        raise click.exceptions.Exit(INTERRUPTED) from None


async def _follow(
    app: Mainspring,
    execution: Execution,
    shown: Sequence[tuple[int, LogEntry]],
    after: int,
    level: AnyCaseLogLevel | None,
    wants_json: bool,
) -> None:
    """Print what happens as it happens: lines to standard output, progress for people to standard error."""
    show, progress = _echo_event if wants_json else _print_event, ""
    for _, line in shown:
        show(line)
    async for item in app.follow(execution, after, level):
        if isinstance(item, LogEntry) or wants_json:
            show(item)
        elif (words := progress_text(item.progress, item.state is State.RUNNING)) != progress:
            progress = words
            note(words)
        if isinstance(item, Execution) and item.state.final and not wants_json:
            note(f"{item.state.value}: {first_line(item.error)}" if item.error else item.state.value)


def _echo_event(item: LogEntry | Execution) -> None:
    """The same events as those of the live stream of the HTTP interface."""
    if isinstance(item, LogEntry):
        event, data = "log", log_json(item.number, item)
    elif item.state.final:
        event, data = "end", execution_json(item)
    else:
        event, data = "execution", execution_live_json(item)
    echo(json_text({"event": event, "data": data}))


def _print_event(item: LogEntry | Execution) -> None:
    if isinstance(item, LogEntry):
        _print_log(item)


def _print_logs(lines: Sequence[tuple[int, LogEntry]]) -> None:
    for _, line in lines:
        _print_log(line)
    if not lines:
        note(
            "No log lines: a handler writes them with ctx.logger, the logging module, or print if it runs in a process."
        )


def _print_log(line: LogEntry) -> None:
    local = line.at.astimezone()
    origin = "" if not line.logger or line.logger.partition(".")[0] == "mainspring" else f"{line.logger}: "
    message = line.message.replace("\n", "\n    ")  # further lines are indented: none passes for another entry
    head = one_line(f"{local:%Y-%m-%d %H:%M:%S} {line.level:<8} {origin}")
    console().print(head + message, soft_wrap=True)
