"""`mainspring windows` and `mainspring backfill` as operators use them: real processes, a real SQLite file."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command_line import DEADLINE, CommandLine

APP = "--app=shop:app"
RANGE = ("--from", "2026-03-01", "--to", "2026-03-11")
DAYS = 10

LEDGER = """
import asyncio
from mainspring import Mainspring

app = Mainspring("sqlite:///shop.db", poll_interval="1s", stop_timeout="10s")


@app.job("revenue", cron="0 30 3 * * *", tz="Europe/Istanbul", window="yesterday", max_attempts=1)
async def revenue(ctx, currency: str = "EUR") -> str:
    if ctx.window.begin.day == 4:
        raise ValueError("closed")
    return currency


@app.job("slow", cron="0 30 3 * * *", window="yesterday")
async def slow(ctx) -> None:
    await asyncio.sleep(600)


@app.job("plain")
async def plain(ctx) -> None: ...
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    (tmp_path / "shop.py").write_text(LEDGER)
    yield command_line
    command_line.close()


@pytest.mark.req("WIN-5", "WIN-6", "OPS-4")
def test_windows_are_listed_planned_and_run(cli: CommandLine) -> None:
    cli.serve()
    found = cli.json("windows", "revenue", *RANGE, APP)
    assert found["counts"] == {"done": 0, "failed": 0, "missing": DAYS, "running": 0}
    assert found["windows"][0]["begin"] == "2026-03-01T00:00:00+03:00"

    planned = cli.json("backfill", "start", "revenue", *RANGE, "--dry-run", "--newest-first", APP)
    assert (planned["status"], planned["total"], planned["id"]) == ("planned", DAYS, None)
    assert planned["windows"][::-1] == [{"begin": each["begin"], "end": each["end"]} for each in found["windows"]]
    said = cli("backfill", "start", "revenue", *RANGE, "--dry-run", APP)
    assert said.stdout.splitlines()[0] == "2026-03-01 00:00 to 2026-03-02 00:00"
    assert said.stderr == "10 windows of revenue would run, oldest first (times in Europe/Istanbul)\n"
    assert cli.json("backfill", "list", APP) == []

    options = ("--concurrency", "3", "--param", "currency=USD", "--note", "two currencies", "--wait")
    over = cli.json("backfill", "start", "revenue", *RANGE, *options, APP, code=1)
    assert (over["status"], over["completed"], over["failed"], over["total"]) == ("partial", DAYS - 1, 1, DAYS)
    assert (over["params"], over["note"], over["concurrency"]) == ({"currency": "USD"}, "two currencies", 3)
    listed = cli.text("windows", "revenue", *RANGE, "--state", "failed", APP)
    assert "2026-03-04 00:00 to 2026-03-05 00:00  failed" in listed
    summary = "revenue: 9 done, 1 failed; fill the holes with: mainspring backfill start revenue\n"
    assert cli("windows", "revenue", *RANGE, APP).stderr.endswith(summary)
    shown = cli.text("backfill", "show", over["id"][-12:], APP)
    assert "10/10 (100%), 1 failed" in shown
    assert "two currencies" in shown
    assert "partial" in cli.text("backfill", "list", "--job", "revenue", APP)
    assert cli.json("executions", "list", "--status", "failed", APP)[0]["trigger"] == "backfill"


@pytest.mark.req("WIN-5", "OPS-4")
def test_pause_resume_wait_and_cancel(cli: CommandLine) -> None:
    cli.serve()
    made = cli.json("backfill", "start", "slow", *RANGE, "--concurrency", "2", APP)
    assert (made["status"], made["running"]) == ("running", 2)
    assert cli.json("backfill", "pause", made["id"], APP)["status"] == "paused"
    refused = cli("backfill", "pause", made["id"], APP)
    assert refused.returncode == 1, refused.stderr
    assert "it is paused; pause is possible when running" in refused.stderr
    assert cli.json("backfill", "resume", made["id"], APP)["status"] == "running"
    waiting = cli.piped("backfill", "wait", made["id"], APP)
    assert cli.json("backfill", "cancel", made["id"], APP)["status"] in ("cancelling", "cancelled")
    said, _ = waiting.communicate(timeout=DEADLINE)
    assert (waiting.returncode, "cancelled" in said) == (1, True)
    assert cli.json("windows", "slow", *RANGE, APP)["counts"]["missing"] == DAYS


@pytest.mark.req("WIN-5")
def test_waiting_at_a_terminal_shows_a_bar(cli: CommandLine) -> None:
    cli.serve()
    terminal, screen = pty.openpty()
    command = [sys.executable, "-m", "mainspring", "backfill", "start", "revenue", *RANGE, "--wait", APP]
    environ = cli.environ | {"TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        command, cwd=cli.folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=screen
    ) as process:
        os.close(screen)
        shown = b"".join(iter(lambda: read_from(terminal), b"")).decode()
    os.close(terminal)
    assert process.returncode == 1
    assert "revenue running" in shown
    assert "/10" in shown


def read_from(terminal: int) -> bytes:
    """Nothing once the other end is closed, which Linux tells by an error."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


@pytest.mark.req("OPS-4")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["windows", "revnue"], "no job named 'revnue'; did you mean 'revenue'?"),
        (["windows", "plain"], 'Declare it with window=, such as window="yesterday"'),
        (
            ["windows", "revenue", "--from", "monday"],
            "--from: 'monday' is not valid; allowed: a time such as 2026-03-01",
        ),
        (["windows", "revenue", *RANGE, "--to", "2026-02-01"], "allowed: an instant after --from"),
        (["backfill", "start", "revenue", "--concurrency", "0"], "--concurrency: 0 is not valid"),
        (["backfill", "start", "revenue", "--pace", "soon"], "--pace: 'soon' is not valid"),
        (["backfill", "start", "revenue", "--param", "currency=5", "--param", "sum=1"], "sum"),
        (["backfill", "strat", "revenue"], "did you mean 'start'?"),
        (["backfill", "show", "0123456789ab"], "no backfill with id '0123456789ab'"),
    ],
)
def test_bad_input_is_one_line_and_code_2(cli: CommandLine, arguments: list[str], words: str) -> None:
    done = cli(*arguments, APP)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
