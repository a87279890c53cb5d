"""The pages about deploying quote lines that are in the files, and commands that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from mainspring.cli.root import root
from mainspring.version import VERSION
from tests.deploy.files import DEPLOY, ROOT
from tests.deploy.test_facts import innermost

PAGES = {name: ROOT / "docs" / "deploy" / f"{name}.md" for name in ("index", "systemd", "docker", "kubernetes")}
QUOTED = re.compile(r"^```(ini|dockerfile|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
FOREIGN = "# prometheus.yml\n"
"""The first line of blocks that belong to another program."""


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> Path:
    return PAGES[request.param]


def test_quoted_lines_are_in_the_files(page: Path) -> None:
    files = [file for file in DEPLOY.rglob("*") if file.is_file()]
    present = {line.strip() for file in files for line in file.read_text().splitlines()}
    blocks = [text for _, text in QUOTED.findall(page.read_text()) if not text.startswith(FOREIGN)]
    assert blocks or page.name == "index.md"
    for line in (line.strip() for text in blocks for line in text.splitlines()):
        assert line in present, line


def test_commands_of_mainspring_parse(page: Path) -> None:
    lines = [line for text in COMMANDS.findall(page.read_text()) for line in text.splitlines()]
    commands = [line[line.index("mainspring ") :] for line in lines if re.search(r"(^[$#] |-- |api )mainspring ", line)]
    assert commands
    for line in commands:
        words = shlex.split(line.partition(" > ")[0])[1:]
        innermost(root, root.make_context("mainspring", words[:]), words)


def test_commands_named_in_sentences_exist(page: Path) -> None:
    text = COMMANDS.sub("", page.read_text())
    for line in re.findall(r"`mainspring ([a-z][^`]*)`", text):
        command: click.Command = root
        for word in line.split():
            if not isinstance(command, click.Group) or not word.isalpha():
                break
            found = command.get_command(click.Context(command), word)
            assert found is not None, line
            command = found


def test_named_files_and_versions_exist(page: Path) -> None:
    text = page.read_text()
    for named in re.findall(r"\bdeploy/(?:systemd|docker|kubernetes|helm)[\w/.@-]*[\w]", text):
        assert (ROOT / named).exists(), named
    assert set(re.findall(r"==(\d+\.\d+\.\d+)", text)) <= {VERSION}
