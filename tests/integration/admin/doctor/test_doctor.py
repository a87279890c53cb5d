"""Every check of the doctor finds the misconfiguration that it is for, and nothing in an installation that is well."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from mainspring.cli.root import root
from mainspring.core.doctor.checks import CHECKS
from tests.integration.admin.doctor import induced_databases, induced_jobs, induced_settings
from tests.integration.admin.doctor.clinic import INDUCED, Clinic, checks_of

INDUCTIONS = (induced_databases, induced_jobs, induced_settings)
"""Importing them registers what they induce."""


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.chdir(tmp_path)
    return Clinic(tmp_path, monkeypatch)


@pytest.mark.req("DEV-2")
@pytest.mark.parametrize("check", [each.id for each in CHECKS])
async def test_each_misconfiguration_is_found(check: str, clinic: Clinic) -> None:
    result = await INDUCED[check](clinic)
    assert check in checks_of(result)


@pytest.mark.req("DEV-2")
async def test_nothing_is_found_where_all_is_well(clinic: Clinic) -> None:
    await clinic.worker()
    report = await clinic.examine()
    assert report.findings == []
    assert report.skipped == []
    assert report.fine == ["database", "schema", "settings", "machine", "access", "processes", "jobs"]


@pytest.mark.req("DEV-2")
async def test_every_worker_delivers_webhooks_whatever_its_queues(clinic: Clinic) -> None:
    async with clinic.at_work() as app:
        await app.webhooks.create("https://example.com/hook")
        app.job("send")(induced_jobs.noop)
        await app.open()
    await clinic.worker(queues=("default",), handlers=("send", "mainspring.webhooks"), declares=("send",))
    assert "queue_unserved" not in checks_of(await clinic.examine())


@pytest.mark.req("DEV-2")
def test_the_table_has_a_remedy_and_an_induction_for_each_of_its_checks() -> None:
    ids = [check.id for check in CHECKS]
    assert len(ids) == len(set(ids)) >= 30
    assert set(INDUCED) == set(ids)
    assert all(check.remedy and check.looks_at and check.needs for check in CHECKS)


def test_remedies_name_commands_and_options_that_exist() -> None:
    named = [
        found
        for check in CHECKS
        for found in re.findall(r"(?:^|`|: )mainspring ([a-z]+)(?: ([a-z]+))?(.*)", check.remedy)
    ]
    assert len(named) > 10
    for name, action, rest in named:
        command = root.get_command(click.Context(root), name)
        if isinstance(command, click.Group):
            command = command.get_command(click.Context(command), action)
        assert command is not None, (name, action)
        options = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options, (name, action, rest)
