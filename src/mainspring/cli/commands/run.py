"""`mainspring run` and `mainspring worker`: the processes that do the work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from ...app.mainspring import Mainspring
from ...config.settings import SETTINGS as ALL_SETTINGS
from ...model.errors import nearest
from ...model.values.reading import duration
from ...observe.logs.setup import already_configured, configure_logging
from ..completion import applications, names_of
from ..load import load_app
from ..root import EXIT_CODES, example
from ..start_report import NextRuns, OrphanWatch, report_start
from ..supervisor import stop_with_parent, supervise
from ..terminal import echo

Command = TypeVar("Command", bound=Callable[..., Any])

SETTINGS = (
    *("roles", "queues", "exclude", "concurrency", "start_timeout", "stop_timeout"),
    *("uvloop", "host", "port", "metrics_port"),
)
SCHEDULERS = 2
"""How many of several equal processes also schedule. With two, one may crash and no tick is late."""


def shared_options(command: Command) -> Command:
    for option in reversed(
        [
            click.argument("target", metavar="MODULE:APP", shell_complete=applications),
            click.option(
                "--queues",
                metavar="A,B",
                shell_complete=names_of("queue", comma_separated=True),
                help="Only these queues; * for all.",
            ),
            click.option(
                "--exclude",
                metavar="A,B",
                shell_complete=names_of("handler", comma_separated=True),
                help="Do not run the executions of these handlers.",
            ),
            click.option(
                "--concurrency", metavar="N", help="How many executions each process runs at once (1 to 1000)."
            ),
            click.option("--processes", type=click.IntRange(1, 256), default=1, help="How many processes to run."),
            click.option("--start-timeout", metavar="DURATION", help="How long to wait for the database, such as 60s."),
            click.option("--stop-timeout", metavar="DURATION", help="How long a stop may take in all, such as 30s."),
            click.option("--uvloop/--no-uvloop", default=None, help="The event loop; uvloop where it is installed."),
            click.option(
                "--metrics-port",
                metavar="N",
                help="Serve /metrics on this port; each further process takes the next one.",
            ),
            click.option(
                "--log-format",
                type=click.Choice(["console", "json"]),
                help="The format of log lines: console for people, json for programs.",
            ),
            click.option("--log-level", metavar="LEVEL", help="debug, info, warning, error or critical."),
            click.option("--process-index", type=int, hidden=True),
        ]
    ):
        command = option(command)
    return command


@example(
    "run shop.jobs:app", "run shop.jobs:app --roles scheduler,worker,api --port 8700", "run shop.jobs:app --processes 4"
)
@click.command(epilog=EXIT_CODES)
@click.option("--roles", metavar="A,B", help="What this process does: scheduler, worker, api.")
@click.option("--host", metavar="ADDRESS", help="Where the API listens  [default: 127.0.0.1]")
@click.option("--port", metavar="N", help="The API's port; 0 for a free one  [default: 8700]")
@shared_options
def run(target: str, **options: Any) -> int:
    """Run the jobs of an application until SIGTERM or Ctrl-C.

    The first signal drains: running jobs get stop-timeout to end. The second one stops at once.
    """
    return _run("run", target, options)


@example("worker shop.jobs:app --queues mail,default", "worker shop.jobs:app --exclude send-mail --concurrency 20")
@click.command(epilog=EXIT_CODES)
@shared_options
def worker(target: str, **options: Any) -> int:
    """Run queued work only: the same as run --roles worker."""
    return _run("worker", target, options | {"roles": "worker"})


def _run(command: str, target: str, options: dict[str, Any]) -> int:
    processes, index = options.pop("processes"), options.pop("process_index")
    checked = checked_settings(options)
    app = load_app(target)
    settings = {name: options[name] for name in SETTINGS if options.get(name) is not None}
    if options["log_format"] or not already_configured():
        level = options["log_level"] or app.settings.log_level
        configure_logging(options["log_format"] or app.settings.log_format, level.upper(), index)
    if index is None:
        report_start(app, checked, processes)
    if processes > 1:
        stop_timeout = duration("--stop-timeout", options["stop_timeout"] or app.settings.stop_timeout)
        return supervise(_child_command(command, target, options), processes, stop_timeout)
    if index is not None:
        stop_with_parent()
        if index >= SCHEDULERS and "roles" not in settings and "worker" in app.settings.roles:
            settings["roles"] = "worker"
        settings |= _beside_the_first(checked.get("roles", app.settings.roles)) if index else {}
        if first_port := checked.get("metrics_port", app.settings.metrics_port):
            settings["metrics_port"] = first_port + index  # each process has numbers of its own
    if not app.settings.enabled:
        echo("warning: the setting enabled is false: this process runs nothing until it is stopped", err=True)
    elif app._runtime.idle:
        echo(f"warning: {target} declares no jobs: this process runs nothing until it is stopped", err=True)
    if not index:
        _warn_of_unknown(app, checked.get("exclude", app.settings.exclude))
        app.observe(NextRuns(app))
        app.observe(OrphanWatch(app))
    app.run(**settings)
    return 0


def _warn_of_unknown(app: Mainspring, excluded: Sequence[str]) -> None:
    """Warn of unknown names, so that a misspelt handler is not believed to be switched off."""
    known = app._runtime.registry.names
    for name in excluded:
        if name not in known:
            guess = nearest(name, known)
            hint = f"; did you mean {guess!r}?" if guess else ""
            echo(f"warning: exclude: this application has no handler named {name!r}{hint}", err=True)


def checked_settings(options: dict[str, Any]) -> dict[str, Any]:
    """By the same rules as every other source, and under the name the user typed."""
    given = {name: value for name, value in options.items() if value is not None}
    return {name: ALL_SETTINGS[name].rule(f"--{name.replace('_', '-')}", value) for name, value in given.items()}


def _beside_the_first(roles: tuple[str, ...]) -> dict[str, str]:
    """Only the first of several equal processes listens, because a port has one owner."""
    return {"roles": ",".join(role for role in roles if role != "api")} if "api" in roles else {}


def _child_command(command: str, target: str, options: dict[str, Any]) -> list[str]:
    given = {name: value for name, value in options.items() if value is not None}
    if command == "worker":
        del given["roles"]
    uvloop = given.pop("uvloop", None)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    if uvloop is not None:
        flags.append("--uvloop" if uvloop else "--no-uvloop")
    return [sys.executable, "-m", "mainspring", command, target, *flags]
