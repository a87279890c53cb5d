"""Commands on several jobs or executions: named one after another, or all that filters such as `--queue` find."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import click

from ..app.mainspring import Mainspring
from ..core.commands.bulk import BulkInterrupted, BulkItem, BulkResult, ExecutionCommand, JobCommand, OnItem
from ..core.render.entities import bulk_json
from ..model.bulk import BulkTarget
from ..model.errors import StoreError
from .bulk_actions import run_bulk_action
from .filters import given
from .parameters import find_execution
from .screens.output import note
from .screens.table import Column, print_table
from .session import ClientSession, operator
from .terminal import echo

Work = Callable[[Mainspring, OnItem], Awaitable[BulkResult]]


def chosen_filter(names: Sequence[str], options: dict[str, Any], target: str) -> dict[str, Any] | None:
    """The filters that were typed; None if the items are named instead."""
    wanted = given(options)
    if bool(wanted) == bool(names):
        raise click.UsageError(f"which {target}? name one or several, or give filters such as --status and --queue")
    return wanted or None


def steer_many(
    session: ClientSession,
    command: JobCommand,
    target: BulkTarget,
    names: Sequence[str],
    options: dict[str, Any],
    how: Mapping[str, Any],
    *,
    reason: str | None = None,
) -> int | None:
    """The exit code; None if a single one is named, which the caller steers. Filters, and options that only a bulk
    action has (`how`), start one; several that are named are handled within the call."""
    wanted = chosen_filter(names, options, target)
    if wanted is not None or any(value for name, value in how.items() if name != "yes"):
        return run_bulk_action(session, command, target, wanted, ids=names, **{"note": reason, **how})
    if len(names) == 1:
        return None

    async def work(app: Mainspring, on_item: OnItem) -> BulkResult:
        if target == "jobs":
            return await app.bulk.jobs(command, names, by=operator(), note=reason, on_item=on_item)
        found = [await find_execution(app, id) for id in names]
        return await app.bulk.executions(
            cast(ExecutionCommand, command), found, by=operator(), note=reason, on_item=on_item
        )

    return run_bulk(session, command, work, target.removesuffix("s").upper())


def run_bulk(session: ClientSession, command: str, work: Work, noun: str) -> int:
    """Returns the exit code: 1 if one of them was refused. A command that is interrupted, by a failure or by Ctrl-C,
    shows what it has done."""
    items: list[BulkItem] = []
    try:
        result = session.call(lambda app: work(app, items.append))
    except KeyboardInterrupt:
        if items:
            stopped = BulkResult(command=command, items=items)
            session.show(bulk_json(stopped), lambda: _print(stopped, noun, command))
            note(f"stopped after {items[-1].id}; name those that are left to go on")
        raise
    except BulkInterrupted as error:
        so_far = error.result
        session.show(bulk_json(so_far), lambda: _print(so_far, noun, command))
        raise StoreError(f"{error}; name those that are left to go on") from error
    session.show(bulk_json(result), lambda: _print(result, noun, command))
    return 1 if result.refused else 0


def _print(result: BulkResult, noun: str, command: str) -> None:
    if not result.items:
        echo("Nothing matches.")
        return
    columns = [
        Column(noun, lambda item: item.id),
        Column("DONE", lambda item: "yes" if item.done else "no"),
        Column("NOW", lambda item: item.execution_id or item.status or str(item.error), "cut"),
    ]
    print_table(columns, result.items)
    echo(f"{command}: {result.done} done, {result.refused} refused")
