"""`mainspring jobs`: look at jobs and steer them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from ..app import Mainspring
from ..core.views import JobView
from ..model.changes import WorkerInfo
from ..model.execution import Execution, State
from ..model.job import JobState
from ..model.values import duration
from .executions import show_execution, waited
from .output import compact, first_line, moment, print_fields, status, took
from .parameters import read_params
from .root import EXIT_CODES, CommandGroup
from .session import Session, client_options, now, operator
from .shapes import job_shape
from .table import Way, print_table


@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def jobs() -> None:
    """Look at jobs and steer them."""


@jobs.command("list")
@click.option("--status", type=click.Choice([state.value for state in JobState]), help="Only jobs in this state.")
@click.option("--queue", help="Only jobs of this queue.")
@client_options
def list_jobs(session: Session, status: str | None, queue: str | None) -> None:
    """All jobs with their schedule, next run and last outcome."""

    async def work(app: Mainspring) -> tuple[list[JobView], list[WorkerInfo]]:
        return await app.jobs(), await app.workers()

    everything, workers = session.call(work)
    found = [view for view in everything if status in (None, view.state.value) and queue in (None, view.queue)]
    session.show([job_shape(view) for view in found], lambda: _print_jobs(found, bool(everything), bool(workers)))


@jobs.command("show")
@click.argument("name")
@client_options
def show_job(session: Session, name: str) -> None:
    """One job in full."""
    _show(session, session.call(lambda app: app.job_view(name)))


@jobs.command("trigger")
@click.argument("name")
@click.option("--params", metavar="JSON", help="Parameters as one JSON object.")
@click.option(
    "--param", "pairs", metavar="KEY=VALUE", multiple=True, help="One parameter; JSON where it reads as JSON."
)
@click.option("--window", nargs=2, metavar="BEGIN END", help="The data window, as ISO 8601; zoneless: the job's zone.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit code 1 if it did not complete.")
@client_options
def trigger_job(session: Session, name: str, params: str | None, pairs: Sequence[str], window: Any, wait: bool) -> int:
    """Run a job now. Its schedule stays as it is."""
    given = read_params(params, pairs)

    async def work(app: Mainspring) -> Execution:
        execution = await app.trigger(name, params=given, window=window or None, by=operator())
        return await waited(app, execution) if wait else execution

    execution = session.call(work)
    show_execution(session, execution)
    return 0 if not wait or execution.state is State.COMPLETED else 1


@jobs.command("pause")
@click.argument("name")
@click.option("--note", help="Why, for those who find it paused.")
@click.option("--for", "pause_for", metavar="DURATION", help="Resume by itself after this time, such as 2h.")
@click.option("--until", metavar="INSTANT", help="Resume by itself at this time, such as 2026-03-01T08:00Z.")
@client_options
def pause_job(session: Session, name: str, note: str | None, pause_for: str | None, until: str | None) -> None:
    """No more ticks until resumed. What runs now ends as usual."""
    if pause_for and until:
        raise click.UsageError("--for and --until exclude each other; give one of them")
    resume_at = now() + timedelta(seconds=duration("--for", pause_for)) if pause_for else until
    _show(session, session.call(lambda app: app.pause(name, by=operator(), note=note, resume_at=resume_at)))


@jobs.command("resume")
@click.argument("name")
@client_options
def resume_job(session: Session, name: str) -> None:
    """End a pause and plan the next run anew."""
    _show(session, session.call(lambda app: app.resume(name, by=operator())))


@jobs.command("cancel")
@click.argument("name")
@client_options
def cancel_job(session: Session, name: str) -> None:
    """Stop a job for good, with everything of it that waits or runs."""

    async def work(app: Mainspring) -> JobView:
        await app.job_view(name)  # never an execution, whatever the name looks like
        await app.cancel(name, by=operator())
        return await app.job_view(name)

    _show(session, session.call(work))


@jobs.command("reactivate")
@click.argument("name")
@client_options
def reactivate_job(session: Session, name: str) -> None:
    """Bring a cancelled job back to its schedule."""
    _show(session, session.call(lambda app: app.reactivate(name, by=operator())))


@jobs.command("retry")
@click.argument("name")
@client_options
def retry_job(session: Session, name: str) -> None:
    """Run the last failed execution of a job again, as a new one."""

    async def work(app: Mainspring) -> Execution:
        await app.job_view(name)  # never an execution, whatever the name looks like
        return await app.retry(name, by=operator())

    show_execution(session, session.call(work))


@jobs.command("remove")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also while something of it waits or runs: that is cancelled.")
@click.option("--purge", is_flag=True, help="Remove its history too.")
@click.option("--yes", is_flag=True, help="Do not ask before a purge.")
@client_options
def remove_job(session: Session, name: str, force: bool, purge: bool, yes: bool) -> None:
    """Delete a job. Its history stays, unless purged."""
    if purge and not yes and sys.stdin.isatty():
        click.confirm(f"Remove job {name!r} and its whole history?", abort=True)
    session.call(lambda app: app.remove_job(name, by=operator(), force=force, purge=purge))
    kept = "with its history" if purge else "its history is kept"
    session.show({"removed": name, "purged": purge}, lambda: click.echo(f"job {name!r} removed; {kept}"))


def _show(session: Session, view: JobView) -> None:
    session.show(job_shape(view), lambda: _print_job(view))


def _print_jobs(found: Sequence[JobView], any_jobs: bool, any_process: bool) -> None:
    if not found:
        click.echo(
            "No job matches." if any_jobs else "No jobs yet: they appear when an application that has some starts."
        )
        return
    titles: dict[str, Way] = {
        "JOB": "keep",
        "STATUS": "keep",
        "LAST": "keep",
        "NEXT RUN": "keep",
        "SCHEDULE": "cut",
        "LAST RUN": "drop",
        "RUNS": "drop",
        "FAILED": "drop",
        "QUEUE": "drop",
    }
    print_table(titles, [_job_row(view, any_process) for view in found])
    if not any_process:
        click.echo("\nNo process is running, so nothing runs. Start one with: mainspring run MODULE:APP")


def _job_row(view: JobView, any_process: bool) -> list[Any]:
    at = now()
    return [
        view.name,
        status(view.state.value),
        status(view.last_status),
        moment(view.next_run_at, at),
        view.description_of_schedule + (" (orphaned)" if view.orphaned and any_process else ""),
        moment(view.last_run_at, at),
        str(view.stats.total),
        str(view.stats.failed),
        view.queue,
    ]


def _print_job(view: JobView) -> None:
    at, stats = now(), view.stats
    rate = stats.success_rate
    live = {"pending": view.live.pending, "running": view.live.running, "waiting": view.live.waiting}
    print_fields(
        {
            "job": view.name,
            "status": status(view.state.value),
            "handler": view.handler,
            "queue": view.queue,
            "schedule": f"{view.description_of_schedule}  [{view.schedule}]" if view.schedule else "on demand",
            "next run": moment(view.next_run_at, at) if view.next_run_at else None,
            "last run": moment(view.last_run_at, at) if view.last_run_at else None,
            "last status": status(view.last_status) if view.last_status else None,
            "last error": first_line(view.error_message),
            "alive": ", ".join(f"{count} {name}" for name, count in live.items() if count),
            "runs": f"{stats.total} ({stats.completed} completed, {stats.failed} failed, {stats.skipped} skipped)",
            "success rate": None if rate is None else f"{rate:.1%}",
            "average": None if stats.average_duration_ms is None else took(stats.average_duration_ms),
            "params": compact(view.params),
            "metadata": compact(view.metadata),
            "paused": _pause_text(view) if view.is_paused else None,
            "cancelled": moment(view.cancelled_at, at) if view.cancelled_at else None,
            "changed": compact(view.overrides),
            "orphaned": "no running process declares this job" if view.orphaned else None,
            "created": moment(view.created_at, at),
        }
    )


def _pause_text(view: JobView) -> str:
    at = now()
    words = [moment(view.paused_at, at), f"by {view.paused_by}" if view.paused_by else "", view.pause_note or ""]
    words.append(f"resumes {moment(view.resume_at, at)}" if view.resume_at else "")
    return ", ".join(word for word in words if word)
