"""The unit of systemd, judged by systemd itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, env_file, run, unit

UNIT = DEPLOY / "systemd" / "mainspring@.service"
MOST_EXPOSURE = 2.0
"""Of 10, as `systemd-analyze security` counts; below 2 it says OK."""


@pytest.mark.needs_tool("systemd-analyze")
@pytest.mark.parametrize("role", ["scheduler", "worker", "api"])
def test_systemd_accepts_the_unit(role: str, tmp_path: Path) -> None:
    """As an instance, with a program that exists in the place of the installed one."""
    text = UNIT.read_text().replace("/opt/jobs/venv/bin/mainspring", "/bin/true")
    copy = tmp_path / f"mainspring@{role}.service"
    copy.write_text(text)
    done = run("systemd-analyze", "verify", copy)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "mainspring@" in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.needs_tool("systemd-analyze")
def test_the_unit_is_hardened() -> None:
    done = run("systemd-analyze", "security", "--offline=true", "--no-pager", UNIT)
    found = re.search(r"exposure level for .*: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) <= MOST_EXPOSURE


def test_the_unit_stops_restarts_and_gets_its_secret_as_a_credential() -> None:
    directives = unit()
    wanted = {
        "KillSignal": "SIGTERM",
        "KillMode": "mixed",  # handlers in child processes are stopped by the worker, not by systemd
        "Restart": "on-failure",
        "StartLimitIntervalSec": "0",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "DynamicUser": "yes",
        "StateDirectory": "mainspring",
        "LoadCredential": "database-url:/etc/mainspring/database-url",
    }
    assert {name: directives[name] for name in wanted} == {name: [value] for name, value in wanted.items()}
    assert "MAINSPRING_DATABASE_URL_FILE=%d/database-url" in directives["Environment"][0]


def test_a_worker_of_several_processes_leaves_the_scheduler_its_port() -> None:
    """Child processes of a worker take the ports above the first."""
    scheduler, worker = (int(env_file(role)["MAINSPRING_METRICS_PORT"]) for role in ("scheduler", "worker"))
    assert scheduler < worker
