"""`mainspring init`: a starter application."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

import click

from ...version import VERSION
from ..root import EXIT_CODES, example
from ..terminal import echo

FILES = ("jobs.py", "mainspring.toml", "test_jobs.py", "Dockerfile")
"""Each is a text in the folder `cli/starter`."""
SUFFIX = ".txt"


@example("init", "init shop")
@click.command(epilog=EXIT_CODES)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default=Path())
def init(folder: Path) -> None:
    """Write a starter application: jobs.py, its settings, a test and a Dockerfile.

    FOLDER is created if it does not exist; by default, the files go into the working folder. Files that exist are never
    overwritten.
    """
    if taken := [name for name in FILES if (folder / name).exists()]:
        where = "this folder" if folder == Path() else f"{os.fspath(folder)!r}"
        remedy = "choose another folder: mainspring init FOLDER"
        raise click.ClickException(f"already in {where}: {', '.join(taken)}; nothing was written; {remedy}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        with (folder / name).open("x", encoding="utf-8") as file:
            file.write(starter(name))
        echo(f"wrote {folder / name}")
    echo(_next_steps(folder))


def starter(name: str) -> str:
    text = (files("mainspring.cli") / "starter" / (name + SUFFIX)).read_text(encoding="utf-8")
    return text.replace("@VERSION@", VERSION)


def _next_steps(folder: Path) -> str:
    enter = "" if folder == Path() else f"cd {folder} && "
    steps = {
        f"{enter}mainspring dev jobs:app": "runs it, reloads it on save, and shows its dashboard",
        "mainspring exec greet --app jobs:app --param name=Ada": "runs one job here and now, for a debugger",
        "python -m pytest": "runs its test",
    }
    width = max(map(len, steps))
    return "\n".join(["\nNext:", *(f"  {command:<{width}}  # {words}" for command, words in steps.items())])
