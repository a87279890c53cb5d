"""`make demo`: it shows something within seconds, ends by itself, and stops cleanly."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support import held_up

ROOT = Path(__file__).parent.parent.parent
JOBS = ("heartbeat", "order-statistics", "nightly-summary", "send-reminder", "sync-stock", "export-invoices")
WORDS = ("tick ", "start ", "done ", "retry ", "skip ", "progress ")


@contextmanager
def demo(*arguments: str, folder: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Not left behind, however the test ends. `folder` is where it keeps its files; the system's place for such unless
    told."""
    command = [sys.executable, "-u", "-m", "examples.demo", *arguments]
    environment = os.environ | ({} if folder is None else {"TMPDIR": str(folder)})
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.req("REG-1", "EXE-3", "WIN-1")
def test_the_demo_tells_of_ticks_runs_and_retries_and_ends_with_a_summary() -> None:
    """It goes on for as long as it takes to see everything. (That it ends by itself is seen with servers, below.)"""
    with demo() as process:
        assert process.stdout is not None
        hint = next(line for line in process.stdout if " jobs list --database-url " in line)
        listed = subprocess.run(hint.split(), cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert (listed.returncode, "heartbeat" in listed.stdout) == (0, True), listed.stderr
        output = ""
        while not all(re.search(words, output) for words in (*WORDS, *(f"start +{job}" for job in JOBS))):
            line = process.stdout.readline()
            assert line, output
            output += line
        while "The dashboard: " not in output:
            output += process.stdout.readline()
        page = httpx.get(output.partition("The dashboard: ")[2].split()[0])
        assert (page.status_code, "Overview" in page.text) == (200, True)
        process.send_signal(signal.SIGTERM)
        output += process.communicate(timeout=60)[0]
    assert process.returncode == 0
    summary = output[output.index("What happened") :]
    assert [job for job in JOBS if job not in summary] == []
    assert re.search(r"[1-9]\d* executions completed", summary)
    assert "Traceback" not in output
    assert "TROUBLE" not in output


def test_a_signal_ends_the_demo_cleanly_and_something_ran_within_five_seconds() -> None:
    """Five seconds in which it could run: on a busy machine it waits for a processor. (The other signal is above.)"""
    with demo() as process:
        began = time.monotonic()
        assert process.stdout is not None
        seen = next(line for line in process.stdout if "done " in line)
        assert time.monotonic() - began - held_up(process.pid) < 5, seen
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "executions completed" in output
    assert "Traceback" not in output


@pytest.mark.req("REL-1", "WRK-1")
@pytest.mark.parametrize(("store", "end"), [("postgres", "seconds"), ("mongo", "signal")])
def test_the_demo_on_a_server_has_two_workers_and_leaves_nothing_behind(store: str, end: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="mainspring-test-"))
    folder.chmod(0o755)  # the server runs as an ordinary user
    seconds = ["--seconds", "4"] if end == "seconds" else []
    try:
        with demo("--store", store, *seconds, folder=folder) as process:
            assert process.stdout is not None
            seen = ""
            while end == "signal" and ": done " not in seen:
                line = process.stdout.readline()
                assert line, seen
                seen += line
            if end == "signal":
                process.send_signal(signal.SIGINT)
            output = seen + process.communicate(timeout=90)[0]
        assert "1: stopped" in output
        assert "2: stopped" in output
        assert process.returncode == 0, output
        assert re.search(r"[1-9]\d* executions completed", output)
        assert "Traceback" not in output
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
