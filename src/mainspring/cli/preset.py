"""The command line of a framework: every command, on the framework's own application.

`manage.py mainspring run` is `mainspring run MODULE:APP` with the application of the Django project. The commands are
those of the root; each loses the argument or option that names an application, and its examples follow.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable
from typing import Any

import click

from .root import CommandGroup, root

APPLICATION = "MODULE:APP"
WITHOUT = ("init", "completion")
"""Commands that make no sense here: for those who have no application yet, and for the program `mainspring` itself."""
_EXAMPLE = re.compile(r"^  mainspring ", re.MULTILINE)
_OPTION = re.compile(r"(?<= )--app \S+ ?")
_ARGUMENT = re.compile(r"(?<= )\w+(?:\.\w+)+:\w+ ?")


def preset_root(target: str, program: str) -> click.Group:
    """The root command for the application of this name, called `program`: "manage.py mainspring"."""
    changed = PresetRoot(target, program, name=root.name, params=root.params, callback=root.callback)
    changed.help, changed.epilog = root.help, _examples(root.epilog, program, argument=True)
    changed.context_settings = root.context_settings
    return changed


class PresetRoot(CommandGroup):
    def __init__(self, target: str, program: str, **options: Any) -> None:
        super().__init__(**options)
        self._target, self._program = target, program

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in root.list_commands(ctx) if name not in WITHOUT]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = None if cmd_name in WITHOUT else root.get_command(ctx, cmd_name)
        return None if command is None else _preset(command, self._target, self._program)


def _preset(command: click.Command, target: str, program: str) -> click.Command:
    changed = copy.copy(command)
    named = [each for each in command.params if (each.metavar or "").strip("[]") == APPLICATION]
    names = [each.name for each in named if each.name]
    changed.epilog = _examples(command.epilog, program, any(isinstance(each, click.Argument) for each in named))
    changed.params = [each for each in command.params if each not in named]
    if command.callback is not None and names:
        changed.callback = _with_application(command.callback, names, target)
    if isinstance(changed, click.Group):
        changed.commands = {name: _preset(each, target, program) for name, each in changed.commands.items()}
    return changed


def _with_application(callback: Callable[..., Any], names: list[str], target: str) -> Callable[..., Any]:
    """A database that is given explicitly takes the place of the application, as it does without a framework."""

    @functools.wraps(callback)
    def called(*args: Any, **options: Any) -> Any:
        value = target if options.get("database_url") is None else None
        return callback(*args, **options, **dict.fromkeys(names, value))

    return called


def _examples(epilog: str | None, program: str, argument: bool) -> str | None:
    """The examples under the name that users type here, without the application as an option or `argument`.

    >>> _examples("Example:\\n  mainspring run shop.jobs:app --port 80", "manage.py mainspring", argument=True)
    'Example:\\n  manage.py mainspring run --port 80'
    """
    if epilog is None:
        return None
    lines = [_without(line, argument) if _EXAMPLE.match(line) else line for line in epilog.split("\n")]
    return _EXAMPLE.sub(f"  {program} ", "\n".join(lines))


def _without(line: str, argument: bool) -> str:
    line = _OPTION.sub("", line)
    return (_ARGUMENT.sub("", line) if argument else line).rstrip()
