"""`mainspring dev`: everything of an application on this machine, reloaded on save."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import click

from ...model.errors import ConfigurationError
from ..completion import applications
from ..load import load_app
from ..root import EXIT_CODES, example
from .run import checked_settings

NEEDED = ("fastapi", "uvicorn", "jinja2", "watchfiles")


@example("dev shop.jobs:app", "dev shop.jobs:app --port 8701 --watch config/rates.csv")
@click.command(epilog=EXIT_CODES)
@click.argument("target", metavar="MODULE:APP", shell_complete=applications)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="N",
    help="The port on 127.0.0.1; 0 for a free one  [default: 8700]",
)
@click.option("--watch", "extra", metavar="PATH", multiple=True, help="Reload when this file or folder changes, too.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning, error or critical.")
@click.option("--child", is_flag=True, hidden=True)
@click.option("--again", is_flag=True, hidden=True)
def dev(target: str, port: int | None, extra: Sequence[str], log_level: str | None, child: bool, again: bool) -> int:
    """Run all parts of an application on this machine, and reload it on save.

    Scheduler, worker, HTTP interface and dashboard run in one process on 127.0.0.1, without a login. After a save, a
    new process imports the new code first: if that fails, the last good code keeps running. Work that is running is
    handed back without using an attempt.
    """
    _check_installed()
    checked_settings({"log_level": log_level})
    if child:
        from ..dev.child import run_child

        return run_child(target, port, log_level, again)
    if not all(target.partition(":")):
        load_app(target)  # which says what is wrong with the name
    options = {"--port": port, "--log-level": log_level}
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    command = [sys.executable, "-m", "mainspring", "dev", target, "--child", *given]
    return asyncio.run(_watch_and_run(command, target, [_existing(path) for path in extra]))


async def _watch_and_run(command: Sequence[str], target: str, extra: Sequence[str]) -> int:
    from ..dev.reloader import Reloader

    return await Reloader(command, target, extra).run()


def _check_installed() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(f'mainspring dev needs {", ".join(missing)}; run: pip install "mainspring[server]"')


def _existing(path: str) -> str:
    if not os.path.exists(path):
        raise click.BadParameter(f"there is no file or folder {path!r}", param_hint="--watch")
    return os.path.abspath(path)
