"""`mainspring watch`, `alerts export` and `grafana export`, as processes of their own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.acceptance.command_line import DEADLINE, CommandLine
from tests.prometheus_server import program
from tests.servers import free_port

URL = "--database-url=sqlite:///watched.db"
WATCHED = """
from mainspring import Mainspring, every

app = Mainspring("sqlite:///watched.db")


@app.job("often", trigger=every(seconds=1), grace=0)
def often() -> None: ...


@app.job("nightly", cron="0 3 * * *", timeout="1h")
def nightly() -> None: ...
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    (tmp_path / "watched.py").write_text(WATCHED)
    yield command_line
    command_line.close()


@pytest.mark.req("OBS-6")
def test_watch_tells_once_and_exits_with_1_while_a_job_is_late(cli: CommandLine) -> None:
    cli.text("jobs", "list", "--app", "watched:app")  # declared, and nobody schedules
    cli.until(lambda: cli("watch", "--once", URL).returncode == 1)
    (late,) = cli.json("watch", "--once", URL, code=1)
    assert (late["job"], late["count"] >= 1) == ("often", True)

    watcher = cli.start("watch", "--interval", "200ms", "-o", "json", URL)
    rival = cli.start("watch", "--interval", "200ms", "-o", "json", URL)

    def told() -> list[dict[str, str]]:
        lines = [json.loads(line) for number in (0, 1) for line in cli.log(number).read_text().splitlines()]
        return [line for line in lines if line.get("event") == "job_missed"]

    for number, process in enumerate((watcher, rival)):  # one alone may tell it all while the other is starting
        cli.until(lambda at=number: "watching" in cli.log(at).read_text(), process, number)
    cli.until(lambda: len(told()) >= 2, watcher)
    for process in (watcher, rival):
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 1  # something was late to the end
    assert {(line["job"], line["level"], line["schedulers"]) for line in told()} == {("often", "ERROR", 0)}
    firsts = [line["missed_from"] for line in told()]
    assert len(set(firsts)) == len(firsts), "no tick is told twice"
    (missed,) = cli.json("watch", "--history", URL)
    assert (missed["job"], missed["first_missed"]) == ("often", late["first_missed"])


@pytest.mark.req("OBS-6")
def test_watch_is_content_while_a_scheduler_runs(cli: CommandLine) -> None:
    cli.text("jobs", "pause", "often", "--app", "watched:app")
    assert cli.text("watch", "--once", URL) == "No job is late.\n"
    assert cli.json("watch", "--once", URL) == []
    watcher = cli.start("watch", URL)
    cli.until(lambda: "watching" in cli.log(0).read_text(), watcher)
    watcher.send_signal(signal.SIGTERM)
    assert watcher.wait(DEADLINE) == 0


@pytest.mark.req("OBS-5")
def test_rules_and_a_dashboard_are_written_from_the_jobs(cli: CommandLine) -> None:
    rules = cli.text("alerts", "export", "--app", "watched:app", "--slack", "30s")
    assert "> 30 or (time()" in rules  # `often` has no grace
    assert "> 4020" in rules  # an hour and a tenth, and twice the slack
    assert cli.text("alerts", "export", URL, "--to", "rules.yml") == ""
    checked = subprocess.run([program("promtool"), "check", "rules", "rules.yml"], cwd=cli.folder, capture_output=True)
    assert checked.returncode == 0, checked.stdout
    assert cli.text("grafana", "export", URL, "--to", "board.json") == ""
    board = json.loads((cli.folder / "board.json").read_text())
    assert board["templating"]["list"][1]["query"] == "nightly,often"
    assert cli("alerts", "export", URL, "--slack", "soon").returncode == 2
    cut = cli("alerts", "export", URL, "--to", "some.yml", MAINSPRING_METRICS_JOBS="1")
    assert (cut.returncode, cut.stdout) == (3, "")
    assert "1 job has no rules, because there are more jobs than the setting metrics_jobs" in cut.stderr
    groups = cli.json("alerts", "export", URL)["groups"]
    assert [each["name"] for each in groups] == ["mainspring", "mainspring job nightly", "mainspring job often"]


@pytest.mark.req("OBS-4")
def test_each_of_several_processes_has_a_port_of_its_own(cli: CommandLine) -> None:
    port = adjacent_ports()
    cli.start("worker", "watched:app", "--processes", "2", "--metrics-port", str(port))
    pages = [cli.until(lambda at=each: scraped(at)) for each in (port, port + 1)]
    assert all('job_currently_running{job_name="often"} 0' in page for page in pages)


def scraped(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def adjacent_ports() -> int:
    """The first of two that are free, one above the other."""
    while True:
        first = free_port()
        with socket.socket() as probe, suppress(OSError, OverflowError):
            probe.bind(("127.0.0.1", first + 1))
            return first
