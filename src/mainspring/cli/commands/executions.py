"""`mainspring executions`: executions that ran, run or wait."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from ...app.mainspring import Mainspring
from ...core.commands.bulk import BulkResult, OnItem
from ...core.queries.queries import LEVELS
from ...core.render.entities import execution_json, execution_live_json, log_json
from ...core.views.execution import Execution
from ...core.views.records import LogEntry
from ...model.execution import State
from ..many import EXECUTION_FILTER, check_choice, read_filters, run_bulk
from ..parameters import find_execution
from ..root import EXIT_CODES, INTERRUPTED, CommandGroup
from ..screens.executions import Shown, print_executions, show_execution, shown, warn_if_unclaimable
from ..screens.output import console, first_line, note, progress_text
from ..session import ClientSession, client_options, operator

FOLLOW_INTERVAL = 0.5
ID = click.argument("execution_id", metavar="ID")
IDS = click.argument("execution_ids", metavar="ID...", nargs=-1)


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def executions() -> None:
    """Executions that ran, run or wait.

    For an ID, a beginning or an ending of at least 8 characters is enough if no other execution has it.
    """


@executions.command("list")
@click.option("--job", help="Only executions of this job, also of a removed one.")
@click.option(
    "--status", multiple=True, type=click.Choice([state.value for state in State]), help="Only these; may be repeated."
)
@click.option("--running", is_flag=True, help="Only running executions.")
@click.option("--tenant", help="Only executions of this tenant.")
@click.option("--trace-id", help="Only executions of this trace.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many, newest first."
)
@client_options
def list_executions(session: ClientSession, running: bool, status: Sequence[str], **filters: Any) -> None:
    """Executions, newest first."""
    if running and status:
        raise click.UsageError("--running and --status exclude each other; give one of them")

    async def work(app: Mainspring) -> list[Execution]:
        found = await app.executions(status=status or None, running=running or None, **filters)
        if not found and filters["job"] and not await app.executions(filters["job"], limit=1):
            await app.job_view(filters["job"])  # a misspelt name is an error, not an empty list
        return found

    found = session.call(work)
    session.show([execution_json(execution) for execution in found], lambda: print_executions(found))


@executions.command("show")
@ID
@client_options
def show(session: ClientSession, execution_id: str) -> None:
    """One execution in full, with every attempt."""

    async def work(app: Mainspring) -> Shown:
        return await shown(app, await find_execution(app, execution_id))

    show_execution(session, session.call(work))


@executions.command("logs")
@ID
@click.option("-f", "--follow", is_flag=True, help="Go on until the execution has ended, wherever it runs.")
@click.option("-n", "--tail", type=click.IntRange(0, 1_000), help="Of the lines there are, only the last so many.")
@click.option("--level", type=click.Choice(LEVELS, case_sensitive=False), help="Only lines of this level and above.")
@client_options
def logs(session: ClientSession, execution_id: str, follow: bool, tail: int | None, level: str | None) -> None:
    """What an execution logged: through its context, `logging` and `warnings`.

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


@executions.command("cancel")
@IDS
@EXECUTION_FILTER
@click.option("--note", help="Why; stored with the execution.")
@client_options
def cancel(session: ClientSession, execution_ids: Sequence[str], filters: Sequence[str], note: str | None) -> int:
    """End a waiting execution; ask the worker of a running one to stop it."""
    check_choice(execution_ids, filters, "execution")
    if filters or len(execution_ids) > 1:
        return _end_many(session, "cancel", execution_ids, filters, note)

    async def work(app: Mainspring) -> Shown:
        found = await find_execution(app, execution_ids[0])
        return await shown(app, await app.cancel_execution(found.id, by=operator(), reason=note))

    show_execution(session, session.call(work))
    return 0


@executions.command("retry")
@IDS
@EXECUTION_FILTER
@click.option("--failed-only", is_flag=True, help="Of a job with tenants: for those only that did not complete.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit code 1 if it did not complete.")
@client_options
def retry(
    session: ClientSession, execution_ids: Sequence[str], filters: Sequence[str], failed_only: bool, wait: bool
) -> int:
    """Run a failed execution again, as a new one with the same parameters and window."""
    check_choice(execution_ids, filters, "execution")
    if filters or len(execution_ids) > 1:
        if failed_only or wait:
            raise click.UsageError(f"{'--failed-only' if failed_only else '--wait'} is for one execution")
        return _end_many(session, "retry", execution_ids, filters, None)
    made: list[Execution] = []

    async def work(app: Mainspring) -> Shown:
        found = await find_execution(app, execution_ids[0])
        made.append(await (app.tenants.retry_failed if failed_only else app.retry)(found, by=operator()))
        return await shown(app, await waited(app, made[0]) if wait else made[0])

    with leaving(lambda: made[0].id if made else ""):
        again = session.call(work)
    show_execution(session, again)
    return 0 if not wait or again.execution.state is State.COMPLETED else 1


def _end_many(
    session: ClientSession, command: str, ids: Sequence[str], filters: Sequence[str], note: str | None
) -> int:
    wanted = read_filters(filters)

    async def work(app: Mainspring, on_item: OnItem) -> BulkResult:
        found = [await find_execution(app, id) for id in ids] if ids else None
        return await app.bulk.executions(command, found, by=operator(), note=note, on_item=on_item, **wanted)

    return run_bulk(session, command, work, "EXECUTION")


async def waited(app: Mainspring, execution: Execution) -> Execution:
    """Wait for the end, with its progress on the terminal."""
    await warn_if_unclaimable(app, execution)
    if not sys.stderr.isatty():
        return await app.wait(execution)
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    screen = Console(stderr=True, markup=False, highlight=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(execution.job, total=None)
        while not execution.state.final:
            await asyncio.sleep(FOLLOW_INTERVAL)
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
    level: str | None,
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
    click.echo(json.dumps({"event": event, "data": data}, ensure_ascii=False))


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
    console().print(f"{local:%Y-%m-%d %H:%M:%S} {line.level:<8} {origin}{line.message}", soft_wrap=True)
