"""What the text of a page names in backticks exists: commands, settings, names of the public interface."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from mainspring import JobContext, Mainspring
from mainspring.config.load import load
from mainspring.config.settings import PREFIX, SETTINGS
from tests.docs.blocks import PAGES, ROOT, prose
from tests.docs.command_parsing import parse

IN_BACKTICKS = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
OTHER_LIBRARIES = {
    "docs/moving/celery.md": {"app.task"},
    "docs/moving/procrastinate.md": {"app.task", "app.periodic"},
}
"""Names of another library's `app`, in the guide for those who come from there."""
NOT_SETTINGS = {"CONFIG", "APP", "API_TOKEN", "API_TOKEN_FILE"}
"""Variables that the command line reads beside the settings."""


def backticks(page: Path) -> list[str]:
    return IN_BACKTICKS.findall(prose(page))


@pytest.mark.req("DEV-4")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_in_the_text_exist(page: Path) -> None:
    wrong = []
    for text in backticks(page):
        if not re.match(r"(?:\.venv/bin/)?mainspring ", text):
            continue
        try:
            parse(shlex.split(text)[1:])
        except (click.UsageError, ValueError) as error:
            wrong.append(f"`{text}`: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.req("DEV-4")
def test_a_wrong_command_would_be_noticed() -> None:
    for wrong in ("jobs lst", "jobs list --colour", "nothing", "jobs skip|mve NAME"):
        with pytest.raises(click.UsageError):
            parse(wrong.split())


@pytest.mark.req("DEV-4")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_environment_variables_are_settings(page: Path) -> None:
    named = set(re.findall(r"\bMAINSPRING_([A-Z][A-Z_]*[A-Z])\b(?!\*)", page.read_text()))
    assert {name for name in named if not is_variable(name)} == set()


def is_variable(name: str) -> bool:
    setting = name.lower()
    secret = setting.removesuffix("_file")
    return name in NOT_SETTINGS or setting in SETTINGS or (secret in SETTINGS and SETTINGS[secret].secret)


def test_the_variables_beside_the_settings_are_accepted() -> None:
    load(environ={f"{PREFIX}{name}": "mainspring_x" for name in NOT_SETTINGS - {"CONFIG"}})


@pytest.mark.req("DEV-4")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_names_of_the_application_and_of_the_context_exist(page: Path) -> None:
    app = Mainspring("memory://")
    wrong = []
    for text in backticks(page):
        for owner, chain in re.findall(r"(?<![\w.])(app|ctx)\.([a-z_]\w*(?:\.[a-z_]\w*)*)", text):
            found: object = app if owner == "app" else JobContext
            for name in chain.split("."):
                if not has(found, name):
                    wrong.append(f"{owner}.{chain}")
                    break
                found = getattr(found, name, None)
                if found is None or isinstance(found, property):
                    break
    assert set(wrong) == OTHER_LIBRARIES.get(page.relative_to(ROOT).as_posix(), set())


def has(owner: object, name: str) -> bool:
    kind = owner if isinstance(owner, type) else type(owner)
    return hasattr(owner, name) or any(name in vars(each).get("__annotations__", {}) for each in kind.__mro__)
