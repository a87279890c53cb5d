"""The root command: the module of each command, and how they are run."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click

from ..model.errors import MainspringError, nearest
from ..model.values.terminal_text import one_line
from ..version import VERSION
from .error_lines import BAD_INPUT as BAD_INPUT
from .error_lines import INTERRUPTED as INTERRUPTED
from .error_lines import REFUSED as REFUSED
from .error_lines import Typed, report
from .terminal import echo, show_traceback

Command = TypeVar("Command", bound=click.Command)

COMMANDS = {
    "init": "init:init",
    "dev": "dev:dev",
    "exec": "run_here:exec_",
    "run": "run:run",
    "worker": "run:worker",
    "jobs": "jobs.jobs:jobs",
    "executions": "jobs.executions:executions",
    "errors": "jobs.errors:errors",
    "windows": "jobs.windows:windows",
    "backfill": "jobs.backfill:backfill",
    "bulk": "jobs.bulk:bulk",
    "problems": "operations.problems:problems",
    "top": "operations.top:top",
    "workers": "operations.cluster:workers",
    "queues": "operations.queues:queues",
    "handlers": "operations.queues:handlers",
    "tenants": "operations.tenants:tenants",
    "locks": "operations.cluster:locks",
    "changes": "operations.changes:changes",
    "audit": "operations.audit:audit",
    "doctor": "operations.doctor:doctor",
    "calendars": "jobs.calendars:calendars",
    "templates": "jobs.templates:templates",
    "webhooks": "webhooks:webhooks",
    "hooks": "hooks:hooks",
    "token": "tokens:token",
    "cron": "jobs.cron:cron",
    "simulate": "jobs.simulate:simulate",
    "watch": "operations.watch:watch",
    "mcp": "mcp:mcp",
    "import": "imports:import_",
    "alerts": "operations.exports:alerts",
    "grafana": "operations.exports:grafana",
    "db": "database:db",
    "config": "config:config",
    "completion": "completion:completion",
}
AREAS = {"": "Run and set up", "jobs": "Jobs and executions", "operations": "Operations"}
"""The folders of `cli/commands`, as the help calls them."""
EXIT_CODES = "Exit codes: 0 done; 1 refused or failed; 2 bad input, such as an unknown name, option or database."
LONGEST_HELP = 200


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    help="The output: a table for people, JSON for programs.",
)


def example(*commands: str) -> Callable[[Command], Command]:
    """Adds examples to the end of the command's help, without the word `mainspring`. A test parses each of them."""

    def add(command: Command) -> Command:
        lines = "\n".join(f"  mainspring {each}" for each in commands)
        title = "Example" if len(commands) == 1 else "Examples"
        others = f"\n\n{command.epilog}" if command.epilog else ""
        command.epilog = f"\b\n{title}:\n{lines}{others}"
        return command

    return add


class CommandGroup(click.Group):
    """A group that suggests the nearest command for one it does not know, or the one in `instead`, which has another
    name here."""

    instead: Mapping[str, str] = {}

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            near = nearest(args[0], known)
            hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
            hint = self.instead.get(args[0], hint)
            raise click.UsageError(f"no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first sentence of each command, wrapped instead of cut."""
        self.format_section(ctx, formatter, "Commands", self.list_commands(ctx))

    def format_section(
        self, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: Sequence[str]
    ) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in names]
        rows = [(name, each.get_short_help_str(LONGEST_HELP)) for name, each in commands if each and not each.hidden]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


class Root(CommandGroup):
    """Imports the module of a command when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(f"{__package__}.commands.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One section for each folder of commands."""
        for area, title in AREAS.items():
            names = [name for name, place in COMMANDS.items() if place.rpartition(".")[0] == area]
            self.format_section(ctx, formatter, title, names)


@example("jobs list --sort next_run_at", "problems", "run shop.jobs:app --roles scheduler,worker,api")
@click.group(cls=Root, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="mainspring %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def root(debug: bool) -> None:
    """Mainspring: a scheduler for jobs that run on time, once."""


def run_command(
    arguments: Sequence[str] | None = None, command: click.Command = root, program: str = "mainspring"
) -> int:
    """Run a command to its exit code. A framework that has a command line of its own gives its root and name."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = _show_warning
    sys.excepthook = show_traceback
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without that character gets a question mark
    try:
        result = command.main(args=given, prog_name=program, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as missing:
        echo(missing.format_message(), err=True)
        return BAD_INPUT
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (click.ClickException, MainspringError, OSError, TimeoutError) as error:
        if "--debug" in given[:1]:
            raise
        return report(error, Typed(command, program, given))


def open_closed_streams() -> None:
    """A process may be started with its output closed, as daemons are. Closed streams are opened on the null device, so
    that no database or socket gets their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # as long as the process lives


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    echo(one_line(f"warning: {message}"), err=True)
