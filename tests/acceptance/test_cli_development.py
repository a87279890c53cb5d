"""`mainspring init`, `dev` and `exec`: the loop of a developer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command_line import DEADLINE, CommandLine
from tests.servers import free_port

APP = ("--app", "shop:app")
URL = "--database-url=sqlite:///shop.db"
SHOP = """
import asyncio
from mainspring import Mainspring, RetryAfter

app = Mainspring("sqlite:///shop.db", poll_interval="1s", api_tokens=True)


@app.job("greet")
async def greet(ctx, name: str) -> str:
    return f"hello {name}"


@app.job("slow", max_attempts=1)
async def slow(ctx) -> None:
    await asyncio.sleep(600)


@app.job("sum", timeout="1ms", overlap="skip")
def add(ctx, a: int, b: int = 2) -> int:
    ctx.progress(1, 2, "half way")
    if a < 0:
        raise ValueError("too little")
    breakpoint()
    return a + b


@app.job("report", tenants=["acme", "globex"], window="yesterday", after="greet")
async def report(ctx) -> str:
    if ctx.tenant == "globex":
        raise RetryAfter(5, "not yet")
    return f"{ctx.tenant} {ctx.window.begin:%Y-%m-%d}"
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    yield command_line
    command_line.close()


def log_of(cli: CommandLine) -> str:
    return cli.log().read_text()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def worker_pid(cli: CommandLine) -> int:
    return int(cli.until(lambda: cli.json("workers", URL))[0]["pid"])


@pytest.mark.req("DEV-2", "WRK-5")
def test_dev_serves_without_a_login_reloads_on_save_and_keeps_the_last_good_code(cli: CommandLine) -> None:
    (cli.folder / "shop.py").write_text("import nothing_of_that_name\n")
    port = free_port()
    process = cli.start("dev", "shop:app", "--port", str(port))
    cli.until(lambda: "waiting for a save that fixes it" in log_of(cli), process)
    assert 'shop.py", line 1, in <module>' in log_of(cli)
    assert "importlib" not in log_of(cli)
    (cli.folder / "shop.py").write_text(SHOP)
    dashboard = f"http://127.0.0.1:{port}/dashboard"
    cli.until(lambda: f"dashboard: {dashboard}  (shop:app on sqlite:///shop.db)" in log_of(cli), process)

    greeted = cli.json("jobs", "trigger", "greet", URL, "--param", "name=ada", "--wait")
    page = f"{dashboard}/executions/{greeted['id'][-12:]}"
    line = cli.until(lambda: next((each for each in log_of(cli).splitlines() if each.endswith(page)), ""), process)
    assert line[9:].startswith("greet completed in ")
    assert len(line) <= 100
    with urllib.request.urlopen(page) as answer:  # though the application accepts tokens only
        assert answer.url == f"{dashboard}/executions/{greeted['id']}"

    slow = cli.json("jobs", "trigger", "slow", URL)
    cli.until(lambda: cli.status(slow["id"]) == "running")
    first = worker_pid(cli)
    (cli.folder / "shop.py").write_text(SHOP + "\nif True\n")
    cli.until(lambda: "the last good code keeps running" in log_of(cli), process)
    assert "SyntaxError: expected ':'" in log_of(cli)
    assert worker_pid(cli) == first

    (cli.folder / "shop.py").write_text(SHOP.replace("hello", "good morning"))
    cli.until(lambda: "shop:app runs the new code" in log_of(cli), process)
    again = cli.json("jobs", "trigger", "greet", URL, "--param", "name=ada", "--wait")
    assert again["result"] == "good morning ada"
    cli.until(lambda: cli.status(slow["id"]) == "running")
    shown = cli.json("executions", "show", slow["id"], URL)
    assert ([each["end"] for each in shown["attempts"]], shown["retry_attempt"]) == (["handed_back"], 0)

    second = worker_pid(cli)
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 0
    assert (alive(first), alive(second)) == (False, False)
    assert cli.status(slow["id"]) == "pending"


@pytest.mark.req("DEV-2")
def test_dev_names_a_taken_port_and_leaves_no_process_behind(cli: CommandLine) -> None:
    process = cli.start("dev", "shop:app", "--port", "0")
    address = cli.until(lambda: next((w for w in log_of(cli).split() if w.endswith("/dashboard")), ""), process)
    port = int(address.rpartition(":")[2].partition("/")[0])
    refused = cli("dev", "shop:app", "--port", str(port))
    assert (refused.returncode, refused.stderr) == (
        2,
        f"error: port {port} of 127.0.0.1 is taken; stop what listens there, or choose another port: "
        f"mainspring dev shop:app --port {port + 1}\n",
    )
    child = worker_pid(cli)
    process.kill()
    cli.until(lambda: not alive(child))
    assert cli.json("workers", URL) == []


@pytest.mark.req("DEV-2")
def test_exec_runs_a_job_in_this_process_and_records_it_when_it_has_ended(cli: CommandLine) -> None:
    command = [sys.executable, "-m", "mainspring", "exec", "sum", *APP, "--param", "a=40"]

    def debugged(answers: str) -> subprocess.CompletedProcess[str]:
        how = {"cwd": cli.folder, "env": cli.environ, "capture_output": True, "text": True, "timeout": DEADLINE}
        return subprocess.run(command, input=answers, **how)  # type: ignore[call-overload, no-any-return]

    done = debugged("p threading.current_thread() is threading.main_thread()\np a + 1\ncontinue\n")
    assert done.returncode == 0, done.stderr
    assert "(Pdb) 41" in done.stdout
    assert done.stdout.endswith("42\n")
    assert "progress 1/2 (50%): half way" in done.stderr
    killed = debugged("import os\nos.kill(os.getpid(), 9)\n")
    assert killed.returncode == -signal.SIGKILL
    left = debugged("quit\n")
    assert left.returncode == 130

    failed = cli("exec", "sum", *APP, "--param", "a=-1", "-o", "json")
    assert (failed.returncode, json.loads(failed.stdout)["status"]) == (1, "failed")
    assert "shop.py" in failed.stderr
    assert failed.stderr.rstrip().endswith("ValueError: too little")
    found = cli.json("executions", "list", URL)
    assert [each["status"] for each in found] == ["failed", "cancelled", "completed"]  # nothing of the killed one
    assert {each["trigger"] for each in found} == {"manual"}
    assert cli.json("workers", "list", URL, "--silent") == []  # nor does a process look lost


@pytest.mark.req("DEV-2")
def test_exec_takes_the_parameters_windows_and_tenants_of_a_trigger(cli: CommandLine) -> None:
    window = ("--window", "2026-03-01", "2026-03-02")
    one = cli("exec", "report", *APP, "--tenant", "acme", *window)
    assert (one.returncode, one.stdout) == (0, '"acme 2026-03-01"\n')
    both = cli("exec", "report", *APP, *window, "-o", "json")
    assert both.returncode == 1
    assert [(each["tenant"], each["status"]) for each in json.loads(both.stdout)] == [
        ("acme", "completed"),
        ("globex", "cancelled"),  # no other worker makes the try that it asks for
    ]
    assert cli("exec", "greet", *APP, "--param", "name=ada").stdout == '"hello ada"\n'
    assert cli.json("executions", "list", URL, "--status", "pending") == []  # nobody follows greet
    for arguments, error in [
        (("sum", *APP), "params.a is missing"),
        (("report", *APP, "--tenant", "acm"), "Did you mean 'acme'?"),
        (("sum",), "give --app MODULE:APP"),
        (("nope", *APP), "no job named 'nope'"),
    ]:
        refused = cli("exec", *arguments)
        assert refused.returncode == 2
        assert error in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


@pytest.mark.req("DEV-2")
def test_init_writes_an_application_that_works_as_it_is(cli: CommandLine) -> None:
    said = cli.text("init", "fresh")
    folder = cli.folder / "fresh"
    assert "cd fresh && mainspring dev jobs:app" in said
    ruff = ["ruff", "check", "--isolated", "--select", "E,F,I,UP,B", "."]
    for command in (["pytest", "-q", "-p", "no:cacheprovider"], ruff):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=folder, env=cli.environ, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    cli.folder = folder
    assert cli.text("exec", "greet", "--app", "jobs:app", "--param", "name=Ada") == '"greeted Ada"\n'
    docker = (folder / "Dockerfile").read_text()
    assert (
        docker.index("\nUSER 10001:10001\n") < docker.index("HEALTHCHECK") < docker.index('ENTRYPOINT ["mainspring"]')
    )
    (folder / "jobs.py").write_text("mine")
    (folder / "Dockerfile").unlink()
    refused = cli("init")
    assert refused.returncode == 1
    assert "already in this folder: jobs.py, mainspring.toml, test_jobs.py" in refused.stderr
    assert ((folder / "jobs.py").read_text(), (folder / "Dockerfile").exists()) == ("mine", False)
