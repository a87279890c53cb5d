"""The parent of several processes: real ones, that do as little as possible."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from mainspring.cli import supervisor
from mainspring.cli.supervisor import MOST_CRASHES, Supervisor

RECORD = """
import os, pathlib, signal, sys, time
index = sys.argv[-1].rpartition("=")[2]
with (pathlib.Path(sys.argv[1]) / f"starts-{index}").open("a") as file:
    file.write("x")
"""
SERVE = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); time.sleep(60)"


def starts(folder: Path, index: int) -> int:
    file = folder / f"starts-{index}"
    return len(file.read_text()) if file.exists() else 0


def run(folder: Path, script: str, count: int) -> int:
    command = [sys.executable, "-S", "-E", "-c", RECORD + script, str(folder)]

    async def supervised() -> int:
        async with asyncio.timeout(60):
            return await Supervisor(command, count, 20.0).run()

    return asyncio.run(supervised())


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.002)


@pytest.mark.req("WRK-1")
def test_one_that_crashes_again_and_again_ends_them_all_with_a_failure(tmp_path: Path) -> None:
    assert run(tmp_path, f"sys.exit(3) if index == '1' else None\n{SERVE}", 2) == 1
    assert (starts(tmp_path, 0), starts(tmp_path, 1)) == (1, MOST_CRASHES)


@pytest.mark.req("WRK-1")
def test_one_that_recovers_goes_on(tmp_path: Path) -> None:
    """It crashes less often than is too often, and then ends well."""
    script = f"""
count = len((pathlib.Path(sys.argv[1]) / "starts-0").read_text())
if count < {MOST_CRASHES}: os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(tmp_path, script, 1) == 0
    assert starts(tmp_path, 0) == MOST_CRASHES


def test_steady_runs_in_between_are_not_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "STEADY_AFTER", 0.0)
    script = f"""
count = len((pathlib.Path(sys.argv[1]) / "starts-0").read_text())
sys.exit(3 if count < {2 * MOST_CRASHES} else 0)
"""
    assert run(tmp_path, script, 1) == 0
    assert starts(tmp_path, 0) == 2 * MOST_CRASHES


def test_bad_input_is_not_tried_again_and_ends_them_all(tmp_path: Path) -> None:
    assert run(tmp_path, f"sys.exit(2) if index == '0' else None\n{SERVE}", 2) == 2
    assert (starts(tmp_path, 0), starts(tmp_path, 1) <= 1) == (1, True)


def test_one_that_has_run_is_started_again_whatever_it_says_next(tmp_path: Path) -> None:
    """The database was away for a while, say."""
    script = """
count = len((pathlib.Path(sys.argv[1]) / "starts-0").read_text())
sys.exit([3, 2, 2, 0][count - 1])
"""
    assert run(tmp_path, script, 1) == 0
    assert starts(tmp_path, 0) == 4
