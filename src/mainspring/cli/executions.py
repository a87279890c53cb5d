"""`mainspring executions`: what ran, what runs, what waits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import click

from ..app import Mainspring
from ..model.changes import LogLine
from ..model.execution import Attempt, Execution, State
from ..model.instants import to_datetime
from .output import compact, console, first_line, moment, print_fields, print_lines, status, took
from .root import EXIT_CODES, CommandGroup
from .session import Session, client_options, now, operator
from .shapes import execution_shape, log_shape
from .table import Way, print_table

FOLLOW_INTERVAL = 0.5


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def executions() -> None:
    """What ran, what runs, what waits."""


@executions.command("list")
@click.option("--job", help="Only executions of this job.")
@click.option(
    "--status", multiple=True, type=click.Choice([state.value for state in State]), help="Only these; may be repeated."
)
@click.option("--running", is_flag=True, help="Only what runs now.")
@click.option("--tenant", help="Only executions of this tenant.")
@click.option("--trace-id", help="Only executions of this trace.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many, newest first."
)
@client_options
def list_executions(session: Session, running: bool, status: Sequence[str], **filters: Any) -> None:
    """Executions, newest first."""
    if running and status:
        raise click.UsageError("--running and --status exclude each other; give one of them")

    async def work(app: Mainspring) -> list[Execution]:
        if filters["job"]:
            await app.job_view(filters["job"])  # a misspelt name is an error, not an empty list
        return await app.executions(status=status or None, running=running or None, **filters)

    found = session.call(work)
    session.show([execution_shape(execution) for execution in found], lambda: _print_executions(found))


@executions.command("show")
@click.argument("execution_id")
@client_options
def show(session: Session, execution_id: str) -> None:
    """One execution in full, with every attempt."""
    show_execution(session, session.call(lambda app: app.get(execution_id)))


@executions.command("logs")
@click.argument("execution_id")
@click.option("-f", "--follow", is_flag=True, help="Go on until the execution has ended.")
@client_options
def logs(session: Session, execution_id: str, follow: bool) -> None:
    """The log lines an execution wrote through its context."""

    async def work(app: Mainspring) -> list[tuple[int, LogLine]]:
        if follow and not session.wants_json:
            return await _follow(app, execution_id)
        return await app.logs(execution_id)

    lines = session.call(work)
    session.show([log_shape(*line) for line in lines], lambda: _print_logs(lines, follow))


@executions.command("cancel")
@click.argument("execution_id")
@client_options
def cancel(session: Session, execution_id: str) -> None:
    """End what waits; ask the worker of what runs to stop it."""
    show_execution(session, session.call(lambda app: app.cancel_execution(execution_id, by=operator())))


@executions.command("retry")
@click.argument("execution_id")
@client_options
def retry(session: Session, execution_id: str) -> None:
    """Run a failed execution again, as a new one with the same parameters and window."""

    async def work(app: Mainspring) -> Execution:
        return await app.retry(await app.get(execution_id), by=operator())

    show_execution(session, session.call(work))


async def waited(app: Mainspring, execution: Execution) -> Execution:
    """Wait for the end, with its progress on the terminal."""
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
            words = f"{execution.job} {execution.state.value} {progress.get('message') or ''}"
            bar.update(task, description=words, completed=progress.get("done") or 0, total=progress.get("total"))
    return execution


def show_execution(session: Session, execution: Execution) -> None:
    session.show(execution_shape(execution), lambda: _print_execution(execution))


def _print_executions(found: Sequence[Execution]) -> None:
    if not found:
        click.echo("No execution matches.")
        return
    titles: dict[str, Way] = {
        "ID": "keep",
        "JOB": "cut",
        "STATUS": "keep",
        "STARTED": "keep",
        "TOOK": "drop",
        "TRIGGER": "drop",
        "TRY": "drop",
        "TENANT": "drop",
        "REASON": "last",
    }
    print_table(titles, [_execution_row(execution) for execution in found])


def _execution_row(execution: Execution) -> list[Any]:
    return [
        execution.id,
        execution.job,
        status(execution.state.value),
        moment(execution.started_at, now()),
        took(execution.duration_ms),
        execution.trigger,
        f"{min(execution.attempt, execution.rules.max_attempts)}/{execution.rules.max_attempts}",
        execution.tenant or "",
        first_line(execution.error) or execution.reason or "",
    ]


def _print_execution(execution: Execution) -> None:
    at = now()
    begin, end = execution.window_begin, execution.window_end
    window = None if begin is None or end is None else f"{to_datetime(begin)} to {to_datetime(end)}"
    waits = execution.state is State.PENDING
    print_fields(
        {
            "execution": execution.id,
            "job": execution.job + (f"  (run {execution.number})" if execution.number else ""),
            "status": status(execution.state.value),
            "reason": execution.reason,
            "trigger": f"{execution.trigger} by {execution.triggered_by}",
            "queue": execution.queue,
            "tenant": execution.tenant,
            "window": window,
            "params": compact(execution.arguments),
            "created": moment(execution.created_at, at),
            "due": moment(execution.start_at, at) if waits else None,
            "started": moment(execution.started_at, at) if execution.started_at else None,
            "finished": moment(execution.finished_at, at) if execution.finished_at else None,
            "took": took(execution.duration_ms) if execution.duration_ms is not None else None,
            "worker": execution.owner,
            "cancel asked": moment(execution.cancel_requested_at, at) if execution.cancel_requested else None,
            "retry of": execution.retry_of,
            "trace": execution.trace_id,
            "progress": compact(execution.progress),
            "counters": compact(execution.counters),
            "result": compact(execution.result),
            "error": execution.error,
        }
    )
    if execution.attempts:
        _print_attempts(execution.attempts)


def _print_attempts(attempts: Sequence[Attempt]) -> None:
    click.echo()
    titles: dict[str, Way] = {
        "TRY": "keep",
        "END": "keep",
        "STARTED": "keep",
        "TOOK": "keep",
        "ERROR": "last",
        "WORKER": "drop",
    }
    at = now()
    rows = [
        [str(a.number), a.end, moment(a.started_at, at), took(a.duration_ms), first_line(a.error), a.worker]
        for a in attempts
    ]
    print_table(titles, rows)
    traceback = next((a.traceback for a in reversed(attempts) if a.traceback), None)
    if traceback:
        print_lines(traceback, "last traceback")


async def _follow(app: Mainspring, execution_id: str) -> list[tuple[int, LogLine]]:
    """Print lines as they come; the rest, after the end, is returned."""
    seen = 0
    while True:
        ended = (await app.get(execution_id)).state.final
        lines = await app.logs(execution_id, after=seen)
        if ended:
            return lines
        for number, line in lines:
            seen = number
            _print_log(line)
        await asyncio.sleep(FOLLOW_INTERVAL)


def _print_logs(lines: Sequence[tuple[int, LogLine]], follow: bool) -> None:
    for _, line in lines:
        _print_log(line)
    if not lines and not follow:
        click.echo("No log lines: a handler writes them with ctx.logger.")


def _print_log(line: LogLine) -> None:
    local = to_datetime(line.at).astimezone()
    console().print(f"{local:%Y-%m-%d %H:%M:%S} {line.level:<8} {line.message}", soft_wrap=True)
