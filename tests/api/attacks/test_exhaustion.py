"""Strangers who leave requests unfinished shut nobody out and cost the engine nothing."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.access_support import SECRET, signed
from tests.api.processes import PATIENCE, Process
from tests.support import held_up, until_blocking

FILES = 1024
STRANGERS = 1_500
SOON = 2.0
"""Seconds within which the server answers whoever sends whole requests."""
KEPT_MEMORY = 64 * 1024 * 1024

POST = "POST /api/v1/jobs/here/trigger HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALF_SENT = {
    "nothing": lambda token: "",
    "half a head": lambda token: "GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
    "half a body of a stranger": lambda token: f'{POST}Content-Length: 100\r\n\r\n{{"params": ',
    "half a body of an operator": lambda token: (
        f'{POST}Authorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n{{"params": '
    ),
}


class Served:
    """A process with all roles that may open 1,024 files."""

    def __init__(self, folder: Path) -> None:
        environ = {name: text for name, text in os.environ.items() if not name.startswith("MAINSPRING_")}
        environ |= {"MAINSPRING_DATABASE_URL": f"sqlite:///{folder}/jobs.db", "MAINSPRING_JWT_SECRET": SECRET}
        roles = ("--roles", "scheduler,worker,api", "--port", "0")
        app = "tests.api.attacks.exhausted_app:app"
        self.process = Process(folder / "served.txt", environ, *roles, app=app, files=FILES)
        self.port = int(self.process.until_it_says(r"listening on http://127\.0\.0\.1:(\d+)")[1])
        self.process.until_it_says("running")
        self.token = signed(sub="ada", role="operator")

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def answers(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The answer on a new connection."""
        return httpx.request(method, f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE, **options)

    def answers_soon(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Time for which a busy machine gave the server no processor does not count."""
        began = time.monotonic() - held_up(self.process.pid) - held_up()
        answer = self.answers(method, path, **options)
        took = time.monotonic() - held_up(self.process.pid) - held_up() - began
        assert took < SOON, f"{method} {path} took {took:.1f} s"
        return answer

    def runs(self, job: str) -> None:
        answer = self.answers("POST", f"/jobs/{job}?wait=60s", headers={"Authorization": f"Bearer {self.token}"})
        assert answer.status_code == 204, answer.text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = Served(tmp_path_factory.mktemp("served"))
    try:
        found.runs("here")
        found.runs("apart")
        yield found
        assert found.process.end() == 0
        assert "Traceback" not in found.process.said()
    finally:
        found.process.kill()


@contextmanager
def strangers(port: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """So many connections, each with the same unfinished request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * STRANGERS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * STRANGERS), hard))
    with ExitStack() as held:
        made = [held.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE)) for _ in range(STRANGERS)]
        for connection in made:
            with suppress(OSError):  # closed to make room for later ones
                connection.sendall(sent)
        yield made


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize("sent", HALF_SENT)
def test_unfinished_requests_shut_nobody_out(served: Served, sent: str) -> None:
    files, memory = served.files(), served.memory()
    known = {"Authorization": f"Bearer {served.token}"}
    with strangers(served.port, HALF_SENT[sent](served.token).encode()):
        until_blocking(lambda: served.files() > FILES / 2, "the strangers are connected")
        served.answers("GET", "/healthz")  # it has come to all who were there before
        assert served.answers_soon("GET", "/healthz").status_code == 200
        assert served.answers_soon("GET", "/api/v1/jobs", headers=known).status_code == 200
        assert served.answers_soon("GET", "/api/v1/jobs").status_code == 401
        served.runs("here")
        served.runs("apart")
        assert served.files() < FILES * 3 / 4, "the engine keeps room of its own"
    until_blocking(lambda: served.files() < files + 20, "the files are given back", PATIENCE)
    assert served.memory() < memory + KEPT_MEMORY
