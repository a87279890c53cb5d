"""`mainspring config`: the settings in force, and where each of them came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import click
import msgspec
from rich.text import Text

from ...config.report import SettingRow, setting_rows, value_text
from ...config.settings import Settings
from ..root import EXIT_CODES, CommandGroup, example
from ..screens.output import note
from ..screens.table import Column, print_table
from ..session import ClientSession, client_options
from ..terminal import echo


@example("config show --origin", "config show --changed --app shop.jobs:app")
@click.group(cls=CommandGroup, epilog=EXIT_CODES)
def config() -> None:
    """The settings in force, and where each of them came from."""


@example("config show --origin", "config show --changed --origin --app shop.jobs:app")
@config.command("show")
@click.option("--origin", is_flag=True, help="Where each came from: an argument, a variable, a file, or the default.")
@click.option("--changed", is_flag=True, help="Only those that differ from their defaults.")
@client_options
def show(session: ClientSession, origin: bool, changed: bool) -> None:
    """Every setting in force, without secrets.

    With --app, it shows the settings of the application; without it, those that the environment and the TOML file of
    this folder give to every process started here.
    """
    settings, uses_url = session.settings()
    rows = [row for row in setting_rows(settings) if row.changed or not changed]
    data = {"file": settings.file, "settings": [_json(row) for row in rows]}
    session.show(data, lambda: _print(settings, rows, origin))
    if not uses_url:
        note("The application has a store of its own: database_url is not used.")


def _json(row: SettingRow) -> dict[str, Any]:
    """Durations are seconds."""
    return {
        "name": row.name,
        "section": row.section,
        "value": msgspec.to_builtins(row.value, enc_hook=str),
        "default": msgspec.to_builtins(row.default, enc_hook=str),
        "is_default": not row.changed,
        "origin": row.origin,
        "source": row.source,
        "meaning": row.meaning,
    }


def _print(settings: Settings, rows: Sequence[SettingRow], origin: bool) -> None:
    if not rows:
        echo("Every setting has its default.")
    else:
        print_table(_ORIGIN if origin else _MEANING, _with_headings(rows))
    note(f"File: {settings.file}" if settings.file else "No mainspring.toml, no [tool.mainspring] in pyproject.toml.")


def _with_headings(rows: Sequence[SettingRow]) -> Iterator[SettingRow | str]:
    """The rows, with the name of each section above its settings."""
    for section, inner in groupby(rows, lambda row: row.section):
        yield section
        yield from inner


def _name(row: SettingRow | str) -> Text:
    return Text(row, style="bold") if isinstance(row, str) else Text(f"  {row.name}")


def _value(row: SettingRow | str) -> Text:
    return Text() if isinstance(row, str) else Text(row.text, style="cyan" if row.given else "")


def _default(row: SettingRow | str) -> str:
    return "" if isinstance(row, str) or not row.changed else value_text(row.default)


def _source(row: SettingRow | str) -> str:
    return "" if isinstance(row, str) else row.source


def _meaning(row: SettingRow | str) -> str:
    return "" if isinstance(row, str) else row.meaning.replace("`", "")


_SETTING = [Column("SETTING", _name), Column("VALUE", _value, "cut", readable=16)]
_ORIGIN = [*_SETTING, Column("FROM", _source, "cut", readable=30), Column("DEFAULT", _default, "drop")]
_MEANING = [*_SETTING, Column("DEFAULT", _default, "drop"), Column("MEANING", _meaning, "cut", readable=24)]
