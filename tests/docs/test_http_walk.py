"""The walk of the README over HTTP: its very commands, run by a shell against a server that its first one started."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_pages import BLOCK, ROOT
from tests.servers import free_port
from tests.support import until_blocking

README = (ROOT / "README.md").read_text()
SECTION = README[README.index("\n## Over HTTP") : README.index("\n## The two commands")]
COMMAND = re.compile(r"^\$ (.*(?:\n {4}.*)*)", re.MULTILINE)
SHOWN_PORT = "8700"
PATIENCE = 60.0


class Walk:
    """The commands of the README, one after the other; `next` runs one and gives its answer."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        first, walk = re.findall(r"^```console\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
        [self._start] = COMMAND.findall(first)
        commands = [command.replace(SHOWN_PORT, str(self._port)) for command in COMMAND.findall(walk)]
        self._names = [command for command in commands if not command.startswith("curl")]
        self.left = [command for command in commands if command.startswith("curl")]

    def start(self) -> subprocess.Popen[bytes]:
        (quickstart,) = BLOCK.findall(README)
        (self._folder / "jobs.py").write_text(quickstart)
        program, *words = shlex.split(self._start)
        assert program == "mainspring"
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "mainspring", *words, "--port", str(self._port), "--stop-timeout", "5s"],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def _log(self) -> Path:
        return self._folder / "log.txt"

    def said(self) -> str:
        return self._log.read_text()

    def next(self, expected: str) -> tuple[int, Any]:
        """Status and body of the next command, which the README has to show at this place."""
        command = self.left.pop(0)
        assert expected in command
        return self._run(command)

    def job(self, name: str) -> Any:
        return self._run(f"curl $api/jobs/{name}")[1]

    def _run(self, command: str) -> tuple[int, Any]:
        script = "\n".join(
            [*self._names, f"{command} --silent --show-error --noproxy '*' --write-out '\\n%{{http_code}}'"]
        )
        done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        body, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(body)


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    commands = Walk(tmp_path)
    server = commands.start()
    try:
        until_blocking(lambda: "listening on" in commands.said() or server.poll() is not None, "it listens", PATIENCE)
        assert server.poll() is None, commands.said()
        yield commands
        server.terminate()
        assert server.wait(PATIENCE) == 0, commands.said()
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


@pytest.mark.needs_tool("curl")
@pytest.mark.req("API-3", "API-4", "API-5", "API-6", "OPS-6")
def test_the_commands_of_the_readme_do_what_it_says(walk: Walk) -> None:
    status, job = walk.next('"interval_minutes": 30')
    assert (status, job["status"], job["interval_minutes"], job["interval_type"]) == (201, "scheduled", 30, "minutes")
    assert (job["schedule"], job["execution_id"]) == ("@every 30m", None)
    status, now = walk.next('"now"')
    assert (status, now["schedule"]) == (201, None)
    assert now["execution_id"]

    status, paused = walk.next("news/pause")
    assert (status, paused["status"], paused["is_paused"], paused["next_run_at"]) == (200, "paused", True, None)
    status, resumed = walk.next("news/resume")
    assert (status, resumed["status"], resumed["is_paused"]) == (200, "scheduled", False)
    assert resumed["next_run_at"]
    status, extra = walk.next("news/trigger?wait=30s")
    assert (status, extra["status"], extra["execution"]["items_crawled"]) == (200, "scheduled", 2)
    assert walk.job("news")["next_run_at"] == resumed["next_run_at"]

    status, _ = walk.next('"archive"')
    assert status == 201
    until_blocking(lambda: walk.job("archive")["status"] == "running", "the archive is crawled", PATIENCE)
    status, cancelled = walk.next("archive/cancel")
    assert (status, cancelled["status"]) == (200, "cancelled")
    until_blocking(lambda: walk.job("archive")["stats"]["cancelled_runs"] == 1, "its run has stopped", PATIENCE)

    status, files = walk.next('"files"')
    assert (status, files["max_retries"]) == (201, 0)
    until_blocking(lambda: walk.job("files")["status"] == "failed", "it fails", PATIENCE)
    status, again = walk.next("files/retry?wait=30s")
    assert (status, again["error"]["details"]["status"]) == (500, "failed")
    assert again["error"]["message"] == "ValueError: cannot crawl ftp://localhost"

    status, executions = walk.next("news/executions")
    assert (status, executions["total"], len(executions["executions"])) == (200, 1, 1)
    status, stats = walk.next("news/stats")
    assert (status, stats["total_executions"], stats["successful_runs"]) == (200, 1, 1)
    assert (stats["success_rate"], stats["next_scheduled_at"]) == (1.0, resumed["next_run_at"])
    status, metrics = walk.next("scheduler/metrics")
    assert status == 200
    assert (metrics["jobs"]["cancelled"], metrics["jobs"]["failed"]) == (1, 1)
    assert metrics["last_check_at"]
    assert metrics["last_metrics_update"]
    assert walk.left == []
