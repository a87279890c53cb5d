"""The filter options of lists and of bulk actions, generated from the tables in `core/filters`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..core.filters.fields import Field, Table
from .completion import Kind, names_of
from .parameters import past_time

Command = TypeVar("Command", bound=Callable[..., Any])

SYSTEM = click.option("--system", is_flag=True, help="Include Mainspring's own jobs.")
_NAMES: dict[str, Kind] = {
    "job": "job",
    "name": "job",
    "handler": "handler",
    "queue": "queue",
    "tenant": "tenant",
    "worker": "worker",
    "error_group": "error_group",
}
_VALUES = {"pair": "KEY=VALUE", "duration": "DURATION", "instant": "TIME", "name": "NAME"}


def filter_options(table: Table) -> Callable[[Command], Command]:
    """Adds an option for each field of the table. `given(...)` picks the filters out of the arguments of the
    command."""

    def add(command: Command) -> Command:
        for field in reversed([*table.values()]):
            command = _option(field)(command)
        return command

    return add


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The filters that the user typed."""
    return {name: value for name, value in options.items() if value not in (None, ())}


def _option(field: Field) -> Callable[[Command], Command]:
    name = f"--{field.name.replace('_', '-')}"
    meaning = field.meaning.replace("`", "")
    help = f"{meaning[0].upper()}{meaning[1:]}{'; may be repeated' if field.several else ''}."
    if field.kind == "switch":
        return click.option(
            name if field.only_true else f"{name}/--no-{name[2:]}", default=None, help=help, is_flag=True
        )
    kind: Any = click.Choice(field.choices) if field.choices else str
    metavar = None if field.choices else _VALUES.get(field.kind, "TEXT")
    reads = past_time if field.kind == "instant" else None
    complete = names_of(_NAMES[field.name]) if field.name in _NAMES else None
    options: dict[str, Any] = {"metavar": metavar, "multiple": field.several, "shell_complete": complete}
    return click.option(name, type=kind, help=help, callback=reads, **options)
