"""The command line of a framework: every command, on the framework's application."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mainspring.cli.preset import preset_root
from tests.unit.cli.test_examples import NAMED_FILES, commands, parsed

PROGRAM = "manage.py mainspring"
ROOT = preset_root("shop.site:load", PROGRAM)


def every_command() -> Iterator[click.Context]:
    return commands(ROOT, click.Context(ROOT, info_name=PROGRAM))


def test_no_command_asks_for_an_application() -> None:
    for context in every_command():
        assert [each for each in context.command.params if "MODULE:APP" in (each.metavar or "")] == [], (
            context.command_path
        )
    assert ROOT.get_command(click.Context(ROOT), "init") is None, "there is an application already"


def test_examples_are_those_of_the_framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in NAMED_FILES:
        (tmp_path / name).touch()
    found = [text for context in every_command() for text in examples(context)]
    assert len(found) > 50
    assert [text for text in found if "shop.jobs:app" in text] == []
    for text in found:
        parsed(ROOT, click.Context(ROOT, info_name=PROGRAM), shlex.split(text.partition(" < ")[0]))


def examples(context: click.Context) -> list[str]:
    lines = context.command.get_help(context).splitlines()
    return [line.strip().removeprefix(PROGRAM) for line in lines if line.startswith(f"    {PROGRAM} ")]


def test_the_application_is_the_frameworks_own_unless_a_database_is_given(tmp_path: Path) -> None:
    ended = CliRunner().invoke(ROOT, ["jobs", "list"])
    assert "shop.site:load" in str(ended.exception), "it is loaded by its name"
    given = CliRunner().invoke(ROOT, ["jobs", "list", "--database-url", f"sqlite:///{tmp_path / 'none.db'}"])
    assert "there is no file" in given.output + str(given.exception)
