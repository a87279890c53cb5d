"""`mainspring run` and `mainspring worker`: starting, stopping, several processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command_line import DEADLINE, CommandLine

URL = "--database-url=sqlite:///shop.db"
STOP = ("--stop-timeout", "8s")
"""Half of it for handing back. A watchdog ends what takes longer, with exit code 1."""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    yield command_line
    command_line.close()


def pids(cli: CommandLine) -> set[int]:
    return {worker["pid"] for worker in cli.json("workers", URL)}


def two_processes(cli: CommandLine) -> set[int]:
    """Both, once both take part; nothing before."""
    started = cli.log().read_text().count(" running ")
    return found if started >= 2 and len(found := pids(cli)) == 2 else set()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.req("OBS-1", "OPS-8", "DEV-2")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_logs_its_settings_and_stops_in_order(cli: CommandLine, number: signal.Signals) -> None:
    process = cli.serve("--log-format", "json", "--concurrency", "3")
    cli.until(lambda: '"next_runs"' in cli.log().read_text(), process)
    process.send_signal(number)
    assert process.wait(DEADLINE) == 0
    lines = [json.loads(line) for line in cli.log().read_text().splitlines()]
    first = lines[0]
    assert (first["event"], first["database"], first["jobs"]) == ("starting", "sqlite:///shop.db", 4)
    assert (first["roles"], first["concurrency"], first["timezone"]) == ("scheduler,worker", 3, "UTC")
    running = next(line for line in lines if line.get("event") == "running")
    assert (running["settings"]["lease"], running["settings"]["concurrency"]) == (30.0, 3)
    assert "fold_interval" in running["settings"]
    [next_runs] = [line["jobs"] for line in lines if line.get("event") == "next_runs"]
    assert [each["job"] for each in next_runs] == ["report", "broken", "greet", "slow"]  # those on demand come last
    assert next_runs[0]["next_run_at"].endswith("T00:30:00+00:00")  # 03:30 in Istanbul
    assert [line["event"] for line in lines[-2:]] == ["stopping", "stopped"]
    assert pids(cli) == set()


@pytest.mark.req("WRK-5")
def test_the_first_signal_waits_for_what_runs_and_the_second_stops_at_once(cli: CommandLine) -> None:
    process = cli.serve("--stop-timeout", "60s")
    started = cli.json("jobs", "trigger", "slow", URL)
    cli.until(lambda: cli.status(started["id"]) == "running")
    process.send_signal(signal.SIGTERM)
    assert cli.status(started["id"]) == "running"  # another process was started and has answered meanwhile
    assert process.poll() is None
    cli.until(lambda: "stopped at once" in cli.log().read_text() or process.send_signal(signal.SIGTERM))
    process.wait(DEADLINE)  # not at the very next signal: what follows within half a second counts as the same one


@pytest.mark.req("WRK-5", "NUM-3")
def test_a_stop_ends_within_its_timeout_and_hands_back_without_a_failure(cli: CommandLine) -> None:
    process = cli.serve(*STOP)
    started = cli.json("jobs", "trigger", "slow", URL)
    cli.until(lambda: cli.status(started["id"]) == "running")
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 0
    handed_back = cli.json("executions", "show", started["id"], URL)
    assert (handed_back["status"], handed_back["retry_attempt"]) == ("pending", 0)
    assert [attempt["end"] for attempt in handed_back["attempts"]] == ["handed_back"]


@pytest.mark.req("OPS-4", "WRK-1")
def test_worker_takes_queued_work_only(cli: CommandLine) -> None:
    process = cli.start("worker", "shop:app", "--queues", "default,mail", "--exclude", "broken,great")
    cli.until(lambda: "running" in cli.log().read_text(), process)
    assert (
        "warning: exclude: this application has no handler named 'great'; did you mean 'greet'?"
        in cli.log().read_text()
    )
    (worker,) = cli.until(lambda: cli.json("workers", URL), process)  # its first beat may come after that word
    assert (worker["roles"], worker["queues"]) == (["worker"], ["default", "mail"])
    assert "broken" not in worker["handlers"]
    done = cli.json("jobs", "trigger", "greet", URL, "--param", "name=ada", "--wait")
    assert done["status"] == "completed"


@pytest.mark.req("WRK-1", "NUM-2")
def test_processes_are_supervised_started_again_and_stopped_together(cli: CommandLine) -> None:
    parent = cli.start("run", "shop:app", "--processes", "2")
    first = cli.until(lambda: two_processes(cli), parent)
    assert parent.pid not in first
    os.kill(min(first), signal.SIGKILL)
    cli.until(lambda: len(pids(cli) - first) == 1, parent)
    log = cli.log().read_text()
    assert "starting it again in 1 s" in log
    assert [number for number in ("[0]", "[1]") if f"{number} running " not in log] == []
    assert ("processes=2" in log, log.count("starting      ")) == (True, 1)
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(DEADLINE) == 0
    cli.until(lambda: not any(map(alive, first)))


@pytest.mark.req("WRK-1")
def test_processes_end_when_their_supervisor_is_killed(cli: CommandLine) -> None:
    parent = cli.start("run", "shop:app", "--processes", "2")
    children = cli.until(lambda: two_processes(cli), parent)
    parent.kill()
    cli.until(lambda: not any(map(alive, children)))
    assert pids(cli) == set()


def test_bad_input_of_many_processes_is_told_once(cli: CommandLine) -> None:
    done = cli("run", "shop:ap", "--processes", "3")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.req("WRK-1")
def test_of_many_processes_two_tick_and_all_work(cli: CommandLine) -> None:
    parent = cli.start("run", "shop:app", "--processes", "3")
    cli.until(lambda: cli.log().read_text().count("] running ") == 3, parent)
    workers = cli.until(lambda: len(found := cli.json("workers", URL)) == 3 and found, parent)
    roles = sorted(worker["roles"] for worker in workers)
    assert roles == [["scheduler", "worker"], ["scheduler", "worker"], ["worker"]]
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(DEADLINE) == 0


@pytest.mark.req("WRK-5", "WRK-1")
def test_the_second_signal_reaches_all_processes(cli: CommandLine) -> None:
    parent = cli.start("run", "shop:app", "--processes", "2", "--stop-timeout", "60s")
    children = cli.until(lambda: two_processes(cli), parent)
    started = cli.json("jobs", "trigger", "slow", URL)
    cli.until(lambda: cli.status(started["id"]) == "running")
    parent.send_signal(signal.SIGINT)
    cli.until(lambda: len(pids(cli)) == 1)  # the one that had nothing to do has left; the other waits for its handler
    assert parent.poll() is None
    cli.until(lambda: "stopped at once" in cli.log().read_text() or parent.send_signal(signal.SIGINT))
    assert parent.wait(DEADLINE) == 1
    cli.until(lambda: not any(map(alive, children)))


@pytest.mark.req("WRK-5")
@pytest.mark.parametrize("event_loop", ["uvloop", "asyncio"])
def test_work_and_stop_are_the_same_on_both_event_loops(cli: CommandLine, event_loop: str) -> None:
    process = cli.serve("--uvloop" if event_loop == "uvloop" else "--no-uvloop", *STOP)
    assert f"event_loop={event_loop}" in cli.log().read_text()
    assert cli.json("jobs", "trigger", "greet", URL, "--param", "name=ada", "--wait")["status"] == "completed"
    slow = cli.json("jobs", "trigger", "slow", URL)
    cli.until(lambda: cli.status(slow["id"]) == "running")
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 0
    assert cli.status(slow["id"]) == "pending"  # handed back


@pytest.mark.req("OPS-2", "SEC-4")
def test_only_a_process_that_serves_http_needs_the_secrets_of_http(cli: CommandLine) -> None:
    cli.environ |= {"MAINSPRING_JWT_SECRET_FILE": "nowhere.txt", "MAINSPRING_JWT_AUDIENCE": "shop"}
    cli.serve("--roles", "worker")
    assert len(pids(cli)) == 1
    assert cli.json("jobs", "trigger", "greet", URL, "--param", "name=ada", "--wait")["status"] == "completed"
    refused = cli("run", "shop:app", "--roles", "api,worker")
    assert refused.returncode == 2
    assert "MAINSPRING_JWT_SECRET_FILE: the file 'nowhere.txt' cannot be read: No such file" in refused.stderr
    assert "Traceback" not in refused.stderr
