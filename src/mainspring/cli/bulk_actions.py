"""Bulk actions of the command line: dry run, confirmation, a progress bar that follows the record, results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from ..app.mainspring import Mainspring
from ..core.bulk.rules import outcome
from ..core.render.entities import bulk_action_json, bulk_preview_json
from ..core.render.masking import shown_params
from ..core.views.records import BulkAction
from ..model.bulk import BulkItemRow, BulkPreview, BulkTarget, BulkVerb
from .parameters import find_execution
from .root import INTERRUPTED
from .screens import following
from .screens.output import compact, moment, note, print_fields, status
from .screens.table import Column, print_table
from .session import ClientSession, operator
from .terminal import confirm, echo

SKIPS = {"already_retried": "retried before", "with_parent": "run again by their parents"}
"""Why items are left out, by code."""
Command = TypeVar("Command", bound=Callable[..., Any])


def bulk_options(command: Command) -> Command:
    """How a bulk action is carried out; the command gets `dry_run`, `yes` and `pace`."""
    for option in (
        click.option("--pace", metavar="RATE", help="The maximum rate, such as 100/s or 60/m."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Change nothing; only count what matches, with a sample."),
    ):
        command = option(command)
    return command


def run_bulk_action(
    session: ClientSession,
    action: BulkVerb,
    target: BulkTarget,
    filter: Any,
    *,
    dry_run: bool,
    yes: bool,
    ids: Sequence[str] = (),
    edit: Mapping[str, Any] | None = None,
    **options: Any,
) -> int:
    """Act on what the filter finds; without a filter, on the jobs or executions with these ids. Returns the exit code:
    1 if an item was refused, or if the probe stopped the bulk action."""
    if not (dry_run or yes) and not sys.stdin.isatty():
        raise click.UsageError("add --yes to do it, or --dry-run to see what it would do")
    edit = edit or {}
    begun: list[BulkAction] = []

    async def work(app: Mainspring) -> BulkPreview | BulkAction:
        chosen = None if filter is not None else list(ids)
        if chosen is not None and target == "executions":
            chosen = [(await find_execution(app, id)).id for id in ids]
        if dry_run or not yes:
            seen = await app.bulk.preview(action, target, chosen, filter=filter, **edit)
            if dry_run or not seen.total:
                return seen
            _print_preview(seen)
            confirm(f"{action} {_total(seen)} {target}?", err=True)
        begun.append(await app.bulk.start(action, target, chosen, filter=filter, by=operator(), **edit, **options))
        return await followed(app, begun[0])

    with leaving(begun):
        done = session.call(work)
    if isinstance(done, BulkPreview):
        session.show(bulk_preview_json(done), lambda: _print_preview(done))
        return 0
    show_bulk(session, done)
    return exit_code(done)


def exit_code(bulk: BulkAction) -> int:
    return 1 if bulk.refused or bulk.state == "stopped" else 0


@contextmanager
def leaving(begun: Sequence[BulkAction]) -> Iterator[None]:
    """On Ctrl-C, stop waiting and leave the bulk action running."""
    try:
        yield
    except KeyboardInterrupt:
        if begun:
            id = begun[0].id
            note(f"stopped waiting; nodes go on: mainspring bulk show {id}; to end it: mainspring bulk abort {id}")
        raise click.exceptions.Exit(INTERRUPTED) from None


async def followed(app: Mainspring, bulk: BulkAction) -> BulkAction:
    """Wait until it is over. This process helps to carry it out, so it ends even if no node runs."""
    return await following.followed(
        app.bulk, bulk, lambda each: f"bulk {each.id}: {progress_words(each)}", _title, lambda each: each.handled
    )


def _title(bulk: BulkAction) -> str:
    return f"{bulk.action} {bulk.state}{f', {bulk.refused:,} refused' if bulk.refused else ''}"


# ---------------------------------------------------------------- screens


def progress_words(bulk: BulkAction) -> str:
    """`1,200/4,000 (30%), 3 refused`."""
    share = f" ({bulk.handled / bulk.total:.0%})" if bulk.total and bulk.total_is_exact else ""
    others = [f"{bulk.refused:,} refused"] if bulk.refused else []
    others += [f"{count:,} {SKIPS.get(code, code)}" for code, count in bulk.skips.items()]
    return ", ".join([f"{bulk.handled:,}/{_total(bulk)}{share}", *others])


def _total(bulk: BulkAction | BulkPreview) -> str:
    return f"{bulk.total:,}{'' if bulk.total_is_exact else '+'}"


def filter_words(bulk: BulkAction | BulkPreview) -> str:
    """`job=pay status=failed`."""
    named = getattr(bulk, "ids", ())
    if named:
        return f"{len(named):,} named"
    parts = [(name, value if isinstance(value, list) else [value]) for name, value in bulk.filter.items()]
    return " ".join(f"{name}={each}" for name, values in parts for each in values)


def show_bulk(session: ClientSession, bulk: BulkAction, items: Sequence[BulkItemRow] = ()) -> None:
    def show() -> None:
        errors = ", ".join(f"{count:,} {code}" for code, count in bulk.errors.items())
        print_fields(
            {
                "bulk": bulk.id,
                "action": f"{bulk.action} {bulk.target}",
                "of": filter_words(bulk),
                "status": status(bulk.state),
                "reason": bulk.reason,
                "stopped by": bulk.stopped_by,
                "items": f"{progress_words(bulk)}, {bulk.done:,} done" if bulk.total else "none: nothing matches",
                "refused": errors,
                "pace": f"{bulk.pace:g}/s" if bulk.pace else "",
                "probe": f"{len(bulk.probed)} of {bulk.probe} started" if bulk.probe else "",
                "params": compact(shown_params(bulk)) if bulk.params else "",
                "removed": ", ".join(bulk.remove),
                "note": bulk.note,
                "created": f"{moment(bulk.created_at)} by {bulk.created_by}",
                "finished": moment(bulk.finished_at) if bulk.finished_at else "",
            }
        )
        if items:
            echo()
            print_items(items, bulk)

    session.show(bulk_action_json(bulk), show)
    if bulk.refused and not items:
        note(f"what was refused, and why: mainspring bulk items {bulk.id} --status refused")


def print_items(items: Sequence[BulkItemRow], bulk: BulkAction) -> None:
    columns = [
        Column(bulk.target.removesuffix("s").upper(), lambda item: item.id),
        Column("RESULT", lambda item: outcome(bulk.action, item)),
        Column("NOW", _item_words, "cut"),
    ]
    print_table(columns, items)


def _item_words(item: BulkItemRow) -> str:
    if item.error is not None:
        return item.error
    return f"{item.now or ''}, as {item.execution_id}" if item.execution_id else item.now or ""


def _print_preview(seen: BulkPreview) -> None:
    if not seen.total:
        echo("Nothing matches.")
        return
    columns = [
        Column(seen.target.removesuffix("s").upper(), lambda item: item.id),
        Column("WOULD BE", _foreseen_words, "cut"),
    ]
    print_table(columns, seen.sample)
    more = f", of which {len(seen.sample)} are shown" if seen.total > len(seen.sample) else ""
    one = seen.total == 1
    which = f"match{'es' * one} ({filter_words(seen)})" if seen.filter else "is named" if one else "are named"
    noun = seen.target.removesuffix("s") if one else seen.target
    echo(f"{_total(seen)} {noun} {which}{more}.")


def _foreseen_words(item: BulkItemRow) -> str:
    left_out = "left out: " if item.status == "skipped" else ""
    return item.now or f"{left_out}{item.error or item.status}"
