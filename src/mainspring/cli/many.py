"""Commands on several jobs or executions at once: named one after another, or found with `--filter`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click

from ..app.mainspring import Mainspring
from ..core.commands.bulk import BulkInterrupted, BulkItem, BulkResult, OnItem
from ..core.render.entities import bulk_json
from ..model.errors import StoreError, shown
from .screens.output import note
from .screens.table import Column, print_table
from .session import ClientSession

Command = TypeVar("Command", bound=Callable[..., Any])

_SWITCHES = {"true": True, "yes": True, "false": False, "no": False}


def filter_option(fields: str) -> Callable[[Command], Command]:
    """Adds `--filter FIELD=VALUE`, which the command gets as `filters`."""
    return click.option("--filter", "filters", metavar="FIELD=VALUE", multiple=True, help=f"All that match: {fields}.")


_GO_ON = "; after=ID continues after that one"
JOB_FILTER = filter_option(f"status, handler, queue, origin, last_status, paused, orphaned or search{_GO_ON}")
EXECUTION_FILTER = filter_option(f"job, status, tenant, trace_id, parent_id, trigger, since or until{_GO_ON}")


def check_choice(names: Sequence[str], filters: Sequence[str], noun: str) -> None:
    if bool(names) == bool(filters):
        raise click.UsageError(f"which {noun}? name one or several, or give --filter FIELD=VALUE")


def read_filters(pairs: Sequence[str]) -> dict[str, Any]:
    """The fields of `--filter`; a status given several times means any of them.

    >>> read_filters(["status=failed", "status=paused", "paused=no", "queue=web"])
    {'status': ['failed', 'paused'], 'paused': False, 'queue': 'web'}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name or not value:
            raise click.BadParameter(f"{shown(pair)} is not FIELD=VALUE", param_hint="--filter")
        if name == "status":
            found.setdefault(name, []).append(value)
        elif name in found:
            raise click.BadParameter(f"{name} is given twice", param_hint="--filter")
        else:
            found[name] = _switch(pair, value) if name in ("paused", "orphaned") else value
    return found


def _switch(pair: str, value: str) -> bool:
    if value.lower() not in _SWITCHES:
        raise click.BadParameter(f"{shown(pair)} is neither true nor false", param_hint="--filter")
    return _SWITCHES[value.lower()]


Work = Callable[[Mainspring, OnItem], Awaitable[BulkResult]]


def run_bulk(session: ClientSession, command: str, work: Work, noun: str) -> int:
    """Returns the exit code: 1 if one of them was refused. A command that is interrupted, by a failure or by Ctrl-C,
    shows what it has done."""
    items: list[BulkItem] = []
    try:
        result = session.call(lambda app: work(app, items.append))
    except KeyboardInterrupt:
        if items:
            stopped = BulkResult(command=command, items=items, next=items[-1].id)
            session.show(bulk_json(stopped), lambda: _print(stopped, noun, command))
            note(f"stopped after {items[-1].id}; with a filter, --filter after={items[-1].id} goes on")
        raise
    except BulkInterrupted as error:
        so_far = error.result
        session.show(bulk_json(so_far), lambda: _print(so_far, noun, command))
        raise StoreError(_interrupted(error)) from error
    session.show(bulk_json(result), lambda: _print(result, noun, command))
    return 1 if result.refused else 0


def _interrupted(error: BulkInterrupted) -> str:
    if error.rest:
        return f"{error}; name those that are left to go on"
    return f"broke off: {error.error}; to go on add --filter after={error.result.next}"


def _print(result: BulkResult, noun: str, command: str) -> None:
    if not result.items:
        click.echo("Nothing matches.")
        return
    columns = [
        Column(noun, lambda item: item.id),
        Column("DONE", lambda item: "yes" if item.done else "no"),
        Column("NOW", lambda item: item.execution_id or item.status or str(item.error), "cut"),
    ]
    print_table(columns, result.items)
    click.echo(f"{command}: {result.done} done, {result.refused} refused")
