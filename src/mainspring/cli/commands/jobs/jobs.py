"""`mainspring jobs`: show jobs and steer them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import click

from ....app.mainspring import Mainspring
from ....core.filters.jobs import FIELDS
from ....core.queries.job_lists import SORTS, JobSort
from ....core.render.entities import job_json
from ....core.views.execution import Execution
from ....core.views.job import JobView
from ....core.views.page import Page
from ....core.views.records import WorkerView
from ....model.errors import CommandRefused, InvalidValue
from ....model.execution import State
from ....model.job import JobState
from ....model.values.reading import duration, instant
from ....model.values.terminal_text import one_line
from ...bulk_actions import bulk_options, run_bulk_action
from ...completion import names_of
from ...filters import SYSTEM, filter_options, given
from ...many import chosen_filter, steer_many
from ...parameters import as_options, params_options, quoting_hint, read_params, textual_parameters, window_option
from ...root import EXIT_CODES, CommandGroup, example
from ...screens.executions import Shown, show_execution, shown
from ...screens.jobs import print_job, print_jobs, print_steered
from ...screens.output import note
from ...screens.queues import pause_words
from ...session import ClientSession, client_options, operator
from ...terminal import confirm, echo
from .executions import leaving, waited
from .job_editing import edit_job, why_job

NAMES = click.argument("names", metavar="NAME...", nargs=-1, shell_complete=names_of("job"))
OPTIONS = {"at": "--at", "to": "--to", "resume_at": "--until"}
"""The options of the command line for the fields of a command."""
AT = "The time of that run, such as 2026-03-01T03:00; without an offset: in the job's zone."


@example("jobs list --queue mail", "jobs why crawl", "jobs trigger crawl --param pages=3 --wait")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def jobs() -> None:
    """Show jobs and steer them."""


jobs.instead = {
    "disable": "use jobs pause NAME, or jobs edit NAME --option enabled=false",
    "enable": "use jobs resume NAME, or jobs edit NAME --option enabled=true",
}


@example("jobs list --status paused", "jobs list --queue mail --sort next_run_at --limit 20")
@jobs.command("list")
@filter_options(FIELDS)
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="A - reverses the order.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most this many.")
@click.option("--after", metavar="NAME", help="Only names after this one, to continue after a page sorted by name.")
@click.option("--page", type=click.IntRange(1), default=1, help="Which page, in any order; the first is 1.")
@SYSTEM
@client_options
def list_jobs(
    session: ClientSession, sort: JobSort, limit: int, after: str | None, page: int, system: bool, **filters: Any
) -> None:
    """Jobs with their schedule, next run and last outcome."""
    wanted, offset = given(filters), (page - 1) * limit
    if after is not None and page > 1:
        raise click.UsageError("--after and --page exclude each other; give one of them")

    paused: list[str] = []

    async def work(app: Mainspring) -> tuple[Page[JobView], bool, list[WorkerView]]:
        if wanted.get("paused") and not session.wants_json:
            paused.extend(
                f"queue {each.name} is {pause_words(each.pause)}" for each in await app.queues.all() if each.pause
            )
            paused.extend(
                f"handler {each.name} is {pause_words(each.pause)}" for each in await app.handlers.all() if each.pause
            )
        found = await app.jobs(sort=sort, limit=limit, offset=offset, after=after, system=system, **wanted)
        return found, bool(found or await app.jobs(limit=1)), await app.workers()

    found, any_jobs, workers = session.call(work)
    session.show([job_json(view) for view in found], lambda: print_jobs(found, any_jobs, bool(workers)))
    if found.next is not None or (sort != "name" and len(found) == limit):
        go_on = f"--page {page + 1}" if found.next is None else f"--after {found.next}"
        note(f"{len(found)} of {found.total} jobs; go on with {go_on}")
    for each in paused:
        echo(one_line(f"Also: {each}"))


@example("jobs show crawl")
@jobs.command("show")
@click.argument("name", shell_complete=names_of("job"))
@client_options
def show_job(session: ClientSession, name: str) -> None:
    """One job in full."""
    _show(session, session.call(lambda app: app.job_view(name)))


jobs.add_command(why_job)
jobs.add_command(edit_job)


@example("jobs trigger crawl --param pages=3 --wait", "jobs trigger report --window 2026-03-01 2026-03-02T06:00")
@jobs.command("trigger")
@click.argument("name", shell_complete=names_of("job"))
@params_options
@window_option
@click.option(
    "--tenant",
    "tenants",
    multiple=True,
    shell_complete=names_of("tenant"),
    help="For a job with tenants: only for this one; may be repeated.",
)
@click.option("--wait", is_flag=True, help="Wait for the end; exit code 1 if it did not complete.")
@client_options
def trigger_job(
    session: ClientSession,
    name: str,
    params: str | None,
    pairs: Sequence[str],
    window: Any,
    tenants: Sequence[str],
    wait: bool,
) -> int:
    """Run a job now. Its schedule stays as it is."""
    made: list[Execution] = []
    if read_params(params, pairs) and not session.knows_handlers:
        note("parameters are not checked here: give --app MODULE:APP to check them")

    async def work(app: Mainspring) -> Shown:
        handler = (await app.job_view(name)).handler
        given = read_params(params, pairs, textual_parameters(app, handler))
        made.append(await _triggered(app, name, given, pairs, window=window or None, tenants=tenants or None))
        return await shown(app, await waited(app, made[0]) if wait else made[0])

    with leaving(lambda: made[0].id if made else ""):
        found = session.call(work)
    show_execution(session, found)
    _hint_at_quotes(found.execution, pairs)
    return 0 if not wait or found.execution.state is State.COMPLETED else 1


async def _triggered(app: Mainspring, name: str, params: Any, pairs: Sequence[str], **options: Any) -> Execution:
    """Errors name the options of the command line, and the command that helps."""
    try:
        return await app.trigger(name, params=params, by=operator(), **options)
    except InvalidValue as error:
        raise as_options(error, pairs) from None
    except CommandRefused as error:
        if error.state != JobState.CANCELLED:
            raise
        raise click.ClickException(f"{error}; bring it back with: mainspring jobs reactivate {name}") from None


def _hint_at_quotes(execution: Execution, pairs: Sequence[str]) -> None:
    """Without the application's code, it is the worker that refuses a parameter."""
    for name in execution.params:
        if f"params.{name}" in (execution.error or "") and (hint := quoting_hint(name, pairs)):
            note(hint)


@example('jobs pause crawl --note "site moves" --for 2h', "jobs pause --queue mail --dry-run")
@jobs.command("pause")
@NAMES
@filter_options(FIELDS)
@click.option("--note", help="The reason; shown with the pause.")
@click.option("--for", "pause_for", metavar="DURATION", help="Resume automatically after this time, such as 2h.")
@click.option(
    "--until",
    metavar="INSTANT",
    help="Resume automatically at this time, such as 2026-03-01T08:00; without an offset: in the job's zone.",
)
@bulk_options
@client_options
def pause_job(
    session: ClientSession,
    names: Sequence[str],
    note: str | None,
    pause_for: str | None,
    until: str | None,
    dry_run: bool,
    yes: bool,
    pace: str | None,
    **options: Any,
) -> int:
    """Stop the schedule of a job until it is resumed. Running executions end as usual.

    With filters such as --queue and --tag, a bulk action pauses all that match: see mainspring bulk. The commands
    resume, cancel, retry and remove do the same.
    """
    if pause_for and until:
        raise click.UsageError("--for and --until exclude each other; give one of them")
    how = {"dry_run": dry_run, "yes": yes, "pace": pace}
    if (pause_for or until) and (len(names) != 1 or dry_run or pace):
        raise click.UsageError("--for and --until are for one job")
    if (code := steer_many(session, "pause", "jobs", names, options, how, reason=note)) is not None:
        return code
    resume_after = duration("--for", pause_for) if pause_for else None
    if until:
        instant("--until", until, tz="UTC")  # the job's zone is applied later; here only the format is checked

    async def work(app: Mainspring) -> JobView:
        return await app.pause(names[0], by=operator(), note=note, resume_at=until, resume_after=resume_after)

    _show_steered(session, _excepted(session, work))
    return 0


@example("jobs resume crawl", "jobs resume --queue mail --paused --yes")
@jobs.command("resume")
@NAMES
@filter_options(FIELDS)
@bulk_options
@client_options
def resume_job(
    session: ClientSession, names: Sequence[str], dry_run: bool, yes: bool, pace: str | None, **options: Any
) -> int:
    """End a pause and plan the next run."""
    how = {"dry_run": dry_run, "yes": yes, "pace": pace}
    if (code := steer_many(session, "resume", "jobs", names, options, how)) is not None:
        return code
    _show_steered(session, session.call(lambda app: app.resume(names[0], by=operator())))
    return 0


@example("jobs skip report --at 2026-12-25T03:00")
@jobs.command("skip")
@click.argument("name", shell_complete=names_of("job"))
@click.option("--at", required=True, metavar="INSTANT", help=AT)
@client_options
def skip_occurrence(session: ClientSession, name: str, at: str) -> None:
    """Leave out one run of the schedule. A record says that it was skipped, and by whom."""
    _show_steered(session, _excepted(session, lambda app: app.skip_occurrence(name, at, by=operator())))


@example("jobs move report --at 2026-12-24T03:00 --to 2026-12-24T09:00")
@jobs.command("move")
@click.argument("name", shell_complete=names_of("job"))
@click.option("--at", required=True, metavar="INSTANT", help=AT)
@click.option("--to", required=True, metavar="INSTANT", help="When it runs instead, earlier or later.")
@client_options
def move_occurrence(session: ClientSession, name: str, at: str, to: str) -> None:
    """Move one run of the schedule to another time. It keeps its window."""
    _show_steered(session, _excepted(session, lambda app: app.move_occurrence(name, at, to, by=operator())))


@example("jobs restore report --at 2026-12-25T03:00")
@jobs.command("restore")
@click.argument("name", shell_complete=names_of("job"))
@click.option("--at", required=True, metavar="INSTANT", help=AT)
@client_options
def restore_occurrence(session: ClientSession, name: str, at: str) -> None:
    """Undo a skip or a move."""
    _show_steered(session, _excepted(session, lambda app: app.restore_occurrence(name, at, by=operator())))


def _excepted(session: ClientSession, work: Callable[[Mainspring], Awaitable[JobView]]) -> JobView:
    """Errors name the options of the command line."""
    try:
        return session.call(work)
    except InvalidValue as error:
        if error.field not in OPTIONS:
            raise
        raise InvalidValue(OPTIONS[error.field], error.value, error.allowed, error.remedy) from None


@example("jobs cancel crawl", "jobs cancel crawl --note 'replaced by crawl-news'")
@jobs.command("cancel")
@NAMES
@filter_options(FIELDS)
@click.option("--note", help="Why; stored with the cancelled executions and in the audit.")
@bulk_options
@client_options
def cancel_job(
    session: ClientSession,
    names: Sequence[str],
    note: str | None,
    dry_run: bool,
    yes: bool,
    pace: str | None,
    **options: Any,
) -> int:
    """Stop a job for good, and cancel its waiting and running executions."""
    how = {"dry_run": dry_run, "yes": yes, "pace": pace}
    if (code := steer_many(session, "cancel", "jobs", names, options, how, reason=note)) is not None:
        return code

    async def work(app: Mainspring) -> JobView:
        await app.job_view(names[0])  # a name is never taken for the id of an execution
        await app.cancel(names[0], by=operator(), reason=note)
        return await app.job_view(names[0])

    _show_steered(session, session.call(work))
    return 0


@example("jobs reactivate crawl")
@jobs.command("reactivate")
@click.argument("name", shell_complete=names_of("job"))
@client_options
def reactivate_job(session: ClientSession, name: str) -> None:
    """Bring a cancelled job back to its schedule."""
    _show_steered(session, session.call(lambda app: app.reactivate(name, by=operator())))


@example("jobs revert crawl")
@jobs.command("revert")
@click.argument("name", shell_complete=names_of("job"))
@client_options
def revert_job(session: ClientSession, name: str) -> None:
    """Undo all changes that operators made to a job: it is again as code declares it."""
    _show(session, session.call(lambda app: app.revert_job(name, by=operator())))


@example("jobs retry crawl", "jobs retry crawl report")
@jobs.command("retry")
@NAMES
@filter_options(FIELDS)
@bulk_options
@client_options
def retry_job(
    session: ClientSession, names: Sequence[str], dry_run: bool, yes: bool, pace: str | None, **options: Any
) -> int:
    """Run the last failed execution of a job again, as a new one."""
    how = {"dry_run": dry_run, "yes": yes, "pace": pace}
    if (code := steer_many(session, "retry", "jobs", names, options, how)) is not None:
        return code

    async def work(app: Mainspring) -> Shown:
        view = await app.job_view(names[0])  # a name is never taken for the id of an execution
        try:
            return await shown(app, await app.retry(names[0], by=operator()))
        except CommandRefused as error:
            if view.last_status != State.PARTIAL:
                raise
            hint = f"mainspring executions retry {view.last_execution_id} --failed-only"
            raise click.ClickException(f"{error}; run it again for the tenants that failed with: {hint}") from None

    show_execution(session, session.call(work))
    return 0


@example("jobs remove crawl --force", "jobs remove crawl --purge --yes")
@jobs.command("remove")
@NAMES
@filter_options(FIELDS)
@click.option(
    "--force", is_flag=True, help="Even if executions wait or run (they are cancelled), or other jobs depend on it."
)
@click.option("--purge", is_flag=True, help="Remove its history too; asks first.")
@bulk_options
@client_options
def remove_job(
    session: ClientSession,
    names: Sequence[str],
    force: bool,
    purge: bool,
    dry_run: bool,
    yes: bool,
    pace: str | None,
    **options: Any,
) -> int:
    """Delete a job. Its history stays, unless purged."""
    wanted = chosen_filter(names, options, "jobs")
    if len(names) != 1 or dry_run or pace:
        if force or purge:
            raise click.UsageError("--force and --purge are for one job")
        how: dict[str, Any] = {"dry_run": dry_run, "yes": yes, "pace": pace}
        return run_bulk_action(session, "delete", "jobs", wanted, ids=names, **how)
    name = names[0]
    if purge and not yes:
        _confirm_purge(name)

    async def work(app: Mainspring) -> tuple[bool, Sequence[str]]:
        dependents = (await app.job_view(name)).dependents
        await app.remove_job(name, by=operator(), force=force, purge=purge)
        return any(name in worker.declares for worker in await app.workers()), dependents

    comes_back, dependents = session.call(work)
    if dependents:
        note(f"warning: {', '.join(dependents)} came after it, and will not follow until it is there again")
    if comes_back:
        note(
            "warning: a running process declares it; it comes back at the next start; "
            "to stop it use jobs pause or jobs cancel"
        )
    kept = "with its history" if purge else "its history is kept"
    session.show({"removed": name, "purged": purge}, lambda: echo(f"job {name!r} removed; {kept}"))
    return 0


def _confirm_purge(name: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("--purge removes the whole history, and there is no terminal to ask at; add --yes")
    confirm(f"Remove job {name!r} and its whole history?")


def _show(session: ClientSession, view: JobView) -> None:
    session.show(job_json(view), lambda: print_job(view))


def _show_steered(session: ClientSession, view: JobView) -> None:
    session.show(job_json(view), lambda: print_steered(view))
