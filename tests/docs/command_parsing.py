"""Parses the `mainspring` commands that pages show as the command line would, without running them."""

from __future__ import annotations

import re

import click

from mainspring.cli.root import root

FREE = re.compile(r"^(?:[A-Z][A-Z_]*|\.\.\.|…)$")
"""What stands for a command of the reader's choice: `mainspring COMMAND --help`, `mainspring ...`."""


def parse(words: list[str], group: click.Group = root) -> None:
    """Raises `click.UsageError` if there is no such command or option. `skip|move` means each of them, `[...]` is
    optional, an option may be named without its value, and required arguments may be left out."""
    words = [word.strip("[]") for word in words]
    words = [word for word in words if word not in ("", "...", "…")]
    _walk(group, words, click.Context(group, info_name="mainspring"))


def _walk(command: click.Command, words: list[str], context: click.Context) -> None:
    if not isinstance(command, click.Group):
        _options(command, words, context)
        return
    own = [word for word in words[:1] if word.startswith("-")]
    if own:  # an option of the group itself: `mainspring --debug jobs list`
        _options(command, own, context)
        _walk(command, words[1:], context)
        return
    if not words or FREE.match(words[0]):
        return
    for name in words[0].split("|"):
        inner = command.get_command(context, name)
        if inner is None:
            raise click.UsageError(f"there is no command {context.command_path} {name}")
        _walk(inner, words[1:], click.Context(inner, info_name=name, parent=context))


def _options(command: click.Command, words: list[str], context: click.Context) -> None:
    parser = command.make_parser(context)
    try:
        parser.parse_args(list(words))
    except click.BadOptionUsage as error:
        if isinstance(error, click.NoSuchOption) or "requires" not in error.message:
            raise
