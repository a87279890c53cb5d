"""Every command's help ends with examples, and the real parser accepts each of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mainspring.cli.root import root

PREFIX = "    mainspring "
NAMED_FILES = ("crontab.txt", "rows.csv", "holidays.ics")
"""Files that examples read: the parser checks that they exist."""


def commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, click.Context(inner, info_name=name, parent=context))


def examples(context: click.Context) -> list[str]:
    lines = context.command.get_help(context).splitlines()
    return [line.removeprefix(PREFIX) for line in lines if line.startswith(PREFIX)]


def parsed(command: click.Command, context: click.Context, words: list[str]) -> click.Context:
    """The context of the innermost command. Nothing is executed."""
    if not isinstance(command, click.Group) or not words:
        return context
    name, inner, rest = command.resolve_command(context, words)
    assert inner is not None
    return parsed(inner, inner.make_context(name, rest[:], parent=context), rest)


@pytest.mark.req("OPS-4")
def test_every_help_has_examples_that_the_parser_accepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NAMED_FILES:
        (tmp_path / name).touch()
    everything = list(commands(root, click.Context(root, info_name="mainspring")))
    without = [context.command_path for context in everything if not examples(context)]
    assert not without, "add @example(...) above these commands"
    assert [*filter(None, (fault(context, text) for context in everything for text in examples(context)))] == []


def fault(context: click.Context, text: str) -> str | None:
    if len(PREFIX + text) > 80:
        return f"too long for a terminal: {text}"
    try:
        innermost = parsed(root, click.Context(root, info_name="mainspring"), shlex.split(text.partition(" < ")[0]))
    except click.UsageError as error:
        return f"{text}: {error.format_message()}"
    if not innermost.command_path.startswith(context.command_path):
        return f"{text} is no example of {context.command_path}"
    return None


def test_the_parser_refuses_an_example_that_has_rotted() -> None:
    for text in ("jobs pauze crawl", "jobs pause crawl --fur 2h", "executions list --limit many"):
        with pytest.raises(click.UsageError):
            parsed(root, click.Context(root, info_name="mainspring"), shlex.split(text))
