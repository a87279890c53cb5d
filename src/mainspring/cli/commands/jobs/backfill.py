"""`mainspring backfill`: run the windows of a range, watch it, steer it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

import click

from ....app.mainspring import Mainspring
from ....core.render.entities import backfill_json
from ....core.render.masking import shown_params
from ....core.views.records import Backfill
from ....model.backfill import Only, Order
from ....model.errors import BackfillNotFound, InvalidValue, JobNotFound
from ....model.values.reading import duration_text
from ...completion import names_of
from ...parameters import SHORTEST, as_options, params_options, read_params, short_id, textual_parameters
from ...root import EXIT_CODES, INTERRUPTED, CommandGroup, example
from ...screens.following import followed
from ...screens.output import compact, moment, note, print_fields, status, without_distance
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options, operator
from ...terminal import echo
from .windows import begin_option, end_option, joined, typed_options, window_words

LISTED = 20
ID = click.argument("backfill_id", metavar="ID", shell_complete=names_of("backfill"))


@example("backfill start revenue --from 2026-03-01 --dry-run", "backfill list --job revenue")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def backfill() -> None:
    """Run the windows of a range that are not done.

    For an ID, a beginning or an ending of at least 8 characters is enough if no other backfill has it.
    """


@example("backfill start revenue --only failed --concurrency 4 --wait")
@backfill.command("start")
@click.argument("job", shell_complete=names_of("job"))
@begin_option
@end_option
@click.option("--dry-run", is_flag=True, help="List the windows and change nothing.")
@click.option("--newest-first", is_flag=True, help="Begin with the newest window.")
@click.option("--concurrency", type=int, default=1, show_default=True, help="How many windows may run at a time.")
@click.option("--pace", metavar="DURATION", help="Time between two starts, such as 10s.")
@click.option("--only", type=click.Choice(get_args(Only)), default="holes", show_default=True, help="Which windows.")
@click.option("--force", is_flag=True, help="Run windows that are done, too.")
@params_options
@click.option("--note", help="The reason; stored with the backfill.")
@click.option("--wait", is_flag=True, help="Wait for the end; exit code 1 if not all of it completed.")
@client_options
def start(
    session: ClientSession,
    job: str,
    newest_first: bool,
    params: str | None,
    pairs: Sequence[str],
    dry_run: bool,
    wait: bool,
    **options: Any,
) -> int:
    """Run the windows of a job that are missing or have failed.

    Without --from and --to it covers everything from the first known window of the job to now.
    """
    made: list[Backfill] = []

    async def work(app: Mainspring) -> tuple[Backfill, str]:
        view = await app.job_view(job)
        given = read_params(params, pairs, textual_parameters(app, view.handler))
        order: Order = "newest" if newest_first else "oldest"
        try:
            with typed_options():
                begun = await app.backfill(job, params=given, order=order, dry_run=dry_run, by=operator(), **options)
        except InvalidValue as error:
            raise as_options(error, pairs) from None
        made.append(begun)
        return await _waited(app, begun) if wait and not dry_run else begun, view.tz

    with _leaving(made):
        found, tz = session.call(work)
    session.show(backfill_json(found), lambda: _print_plan(found, tz) if dry_run else _print(found, tz))
    if not wait or dry_run:
        return 0
    return 0 if found.state == "completed" else 1


@example("backfill list --job revenue --limit 5")
@backfill.command("list")
@click.option("--job", shell_complete=names_of("job"), help="Only backfills of this job.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many ended backfills to list."
)
@client_options
def list_backfills(session: ClientSession, job: str | None, limit: int) -> None:
    """Live backfills, and the last ones that have ended, newest first."""
    found = session.call(lambda app: app.backfills.recent(job, limit))
    session.show([backfill_json(each) for each in found], lambda: _print_all(found))


@example("backfill show 0123456789ab")
@backfill.command("show")
@ID
@client_options
def show(session: ClientSession, backfill_id: str) -> None:
    """One backfill in full."""
    _steered(session, backfill_id, None)


@example("backfill wait 0123456789ab")
@backfill.command("wait")
@ID
@client_options
def wait(session: ClientSession, backfill_id: str) -> int:
    """Wait for the end, with a progress bar; exit code 1 if not all of it completed."""
    seen: list[Backfill] = []

    async def work(app: Mainspring) -> tuple[Backfill, str]:
        seen.append(await _find(app, backfill_id))
        return await _waited(app, seen[0]), await _zone(app, seen[0].job)

    with _leaving(seen):
        found, tz = session.call(work)
    session.show(backfill_json(found), lambda: _print(found, tz))
    return 0 if found.state == "completed" else 1


@example("backfill pause 0123456789ab")
@backfill.command("pause")
@ID
@client_options
def pause(session: ClientSession, backfill_id: str) -> None:
    """Start no more windows; those that run end as usual."""
    _steered(session, backfill_id, "pause")


@example("backfill resume 0123456789ab")
@backfill.command("resume")
@ID
@client_options
def resume(session: ClientSession, backfill_id: str) -> None:
    """Continue a paused backfill."""
    _steered(session, backfill_id, "resume")


@example("backfill cancel 0123456789ab")
@backfill.command("cancel")
@ID
@client_options
def cancel(session: ClientSession, backfill_id: str) -> None:
    """Start no more windows, and cancel those that wait or run."""
    _steered(session, backfill_id, "cancel")


def _steered(session: ClientSession, backfill_id: str, method: str | None) -> None:
    async def work(app: Mainspring) -> tuple[Backfill, str]:
        found = await _find(app, backfill_id)
        if method is not None:
            found = await getattr(app.backfills, method)(found.id, by=operator())
        return found, await _zone(app, found.job)

    found, tz = session.call(work)
    session.show(backfill_json(found), lambda: _print(found, tz))


async def _find(app: Mainspring, text: str) -> Backfill:
    """The backfill with this id, or with this beginning or ending of an id."""
    part = text.strip().lstrip("….").lower()
    if len(part) < SHORTEST:
        return await app.backfills.get(text)
    known = await app.backfills.recent(limit=1_000)
    found = [each for each in known if each.id.startswith(part) or each.id.endswith(part)]
    if not found:
        raise BackfillNotFound(text)
    if len(found) > 1:
        fits = f"It fits {found[0].id} and {found[1].id}"
        raise InvalidValue("backfill id", text, "a part that one backfill has alone", fits)
    return found[0]


async def _zone(app: Mainspring, job: str) -> str:
    """The zone of the job, which may have been removed."""
    try:
        return (await app.job_view(job)).tz
    except JobNotFound:
        return "UTC"


# ---------------------------------------------------------------- waiting


@contextmanager
def _leaving(made: Sequence[Backfill]) -> Iterator[None]:
    """Ctrl-C ends the waiting, not the backfill."""
    try:
        yield
    except KeyboardInterrupt:
        if made:
            note(f"stopped waiting; the backfill goes on: mainspring backfill show {made[0].id}")
        raise click.exceptions.Exit(INTERRUPTED) from None


async def _waited(app: Mainspring, backfill: Backfill) -> Backfill:
    if not any({"scheduler", "worker"} & set(worker.roles) for worker in await app.workers()):
        note("no process is running, so it waits. Ctrl-C leaves it as it is")
    return await followed(
        app.backfills,
        backfill,
        lambda each: f"backfill {each.id}: {_progress(each)}",
        lambda each: f"{each.job} {_failures(each)}",
        lambda each: each.ended,
    )


# ---------------------------------------------------------------- screens


def _progress(backfill: Backfill) -> str:
    """`12/31 (39%), 2 running, 1 failed`."""
    share = f" ({backfill.ended / backfill.total:.0%})" if backfill.total else ""
    running = [f"{backfill.running:,} running"] if backfill.running else []
    return joined([f"{backfill.ended:,}/{backfill.total:,}{share}", *running, *_others(backfill)])


def _failures(backfill: Backfill) -> str:
    return f"{backfill.state} {joined(_others(backfill))}".strip()


def _others(backfill: Backfill) -> list[str]:
    names = ("failed", "cancelled", "skipped", "held")
    return [f"{count:,} {name}" for name in names if (count := getattr(backfill, name))]


def _left_out(backfill: Backfill) -> str:
    parts = {"done": backfill.already_done, "running": backfill.already_running}
    return joined([f"{count:,} {name}" for name, count in parts.items() if count])


def _print(backfill: Backfill, tz: str) -> None:
    paced = f", {duration_text(backfill.pace)} apart" if backfill.pace else ""
    print_fields(
        {
            "backfill": backfill.id,
            "job": backfill.job,
            "status": status(backfill.state),
            "reason": backfill.reason,
            "range": f"{window_words(backfill.window, tz)} ({tz})",
            "windows": _progress(backfill) if backfill.total else "none: there is nothing to do",
            "left out": _left_out(backfill),
            "order": f"{backfill.order} first, {backfill.concurrency:,} at a time{paced}",
            "forced": "windows that are done too" if backfill.force else "",
            "params": compact(shown_params(backfill)),
            "note": backfill.note,
            "created": f"{moment(backfill.created_at)} by {backfill.created_by}",
            "finished": moment(backfill.finished_at) if backfill.finished_at else "",
        }
    )


def _print_plan(backfill: Backfill, tz: str) -> None:
    for window in backfill.windows[:LISTED]:
        echo(window_words(window, tz))
    if backfill.total > LISTED:
        echo(f"... and {backfill.total - LISTED:,} more; all of them with -o json")
    left_out = f"; left out: {_left_out(backfill)}" if _left_out(backfill) else ""
    note(f"{backfill.total:,} windows of {backfill.job} would run, {backfill.order} first{left_out} (times in {tz})")


def _print_all(found: Sequence[Backfill]) -> None:
    if not found:
        echo("No backfill. Start one with: mainspring backfill start JOB")
        return
    columns = [
        Column("ID", lambda each: each.id, "keep", short_id),
        Column("JOB", lambda each: each.job, "cut", readable=20),
        Column("STATUS", lambda each: status(each.state)),
        Column("WINDOWS", _progress),
        Column("CREATED", lambda each: moment(each.created_at), "keep", without_distance),
        Column("BY", lambda each: each.created_by, "drop"),
        Column("NOTE", lambda each: each.note or each.reason or "", "last"),
    ]
    print_table(columns, found)
