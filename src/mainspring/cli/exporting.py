"""Commands whose output is a file: `--to FILE` names it, and `-o` is the format, as everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def export_options(formats: tuple[str, ...]) -> Callable[[Command], Command]:
    """Adds `--to` and `--output`, whose first format is the usual one; the command gets `to` and `output`."""
    to = click.option("--to", metavar="FILE", callback=_checked, help="The file to write  [default: shown]")
    output = click.option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help="The format."
    )
    return lambda command: to(output(command))


def _checked(ctx: click.Context, option: click.Parameter, value: str | None) -> Path | None:
    """What cannot be written is refused before any work is done."""
    if value in (None, "-"):
        return None
    path = Path(str(value))
    if path.is_dir() or not path.parent.is_dir():
        why = "is a directory" if path.is_dir() else f"cannot be written: there is no directory {str(path.parent)!r}"
        raise click.BadParameter(f"{value!r} {why}", ctx, option)
    return path


def export(text: str, to: Path | None) -> None:
    if to is None:
        click.echo(text, nl=False)
        return
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"{str(to)!r} cannot be written: {error.strerror}", param_hint="--to") from None
