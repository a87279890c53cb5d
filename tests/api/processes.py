"""One deployment as operators have it: processes that serve the interface, another one that works, one real database.

Every process is `mainspring run` with its own roles, on a free port of this machine. The kernel kills it should the
test process die, whichever way.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.api.process_app import FOLDER
from tests.crash.tables import is_locked_file
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import until, until_blocking

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0
"""Seconds until a test gives up; what is expected takes a fraction of one."""
UNATTENDED = "unattended"
"""A queue that no worker looks at."""


def new_database(kind: str, folder: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{folder}/jobs.db"
    return postgres().new_database() if kind == "postgres" else mongo("replica_set").new_database()


class Process:
    """`mainspring run` with these options, once it has said that it runs. `files` are those that it may have open."""

    def __init__(
        self,
        output: Path,
        environ: dict[str, str],
        *options: str,
        app: str = "tests.api.process_app:app",
        files: int | None = None,
    ) -> None:
        self._output = output

        def prepare() -> None:
            _end_with_parent()
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        with output.open("wb") as file:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "mainspring", "run", app, *options],
                cwd=ROOT,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                preexec_fn=prepare,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def said(self) -> str:
        return self._output.read_text(errors="replace")

    def until_it_says(self, pattern: str) -> re.Match[str]:
        def found() -> re.Match[str] | None:
            assert self._popen.poll() is None, f"it has ended:\n{self.said()}"
            return re.search(pattern, self.said())

        return until_blocking(found, f"{pattern} in\n{self.said()}", PATIENCE)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It does nothing at all meanwhile, and knows of it no more than of a slow machine."""
        until_blocking(self._stops_between_transactions, "it holds no lock", PATIENCE)
        try:
            yield
        finally:
            self._popen.send_signal(signal.SIGCONT)

    def _stops_between_transactions(self) -> bool:
        """Stopped inside one, it would keep the write lock of a file from everybody."""
        self._popen.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._popen.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        file = self._output.with_name("jobs.db")
        if not (file.exists() and is_locked_file(file)):
            return True
        self._popen.send_signal(signal.SIGCONT)
        return False

    def end(self) -> int:
        self._popen.terminate()
        return self._popen.wait(PATIENCE)

    def kill(self) -> None:
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()


class Deployment:
    """So many processes that serve, one of them scheduling too, and one that works."""

    def __init__(self, kind: str, folder: Path, servers: int = 1) -> None:
        self.kind, self.folder = kind, folder
        self._environ = {name: text for name, text in os.environ.items() if not name.startswith("MAINSPRING_")}
        self._environ |= {"MAINSPRING_DATABASE_URL": new_database(kind, folder), FOLDER: str(folder)}
        self._processes: list[Process] = []
        try:
            first = self._start("--roles", "scheduler,api", "--port", "0")
            first.until_it_says("running")  # it has made the tables: nobody waits for another's migration
            others = [self._start("--roles", "api", "--port", "0") for _ in range(servers - 1)]
            self.worker = self._start("--roles", "worker", "--queues", "default", "--concurrency", "50")
            pattern = r"listening on (http://127\.0\.0\.1:\d+)"
            self.addresses = [server.until_it_says(pattern)[1] for server in (first, *others)]
            self.worker.until_it_says("running")
        except BaseException:
            self.kill()
            raise

    def _start(self, *options: str) -> Process:
        output = self.folder / f"process-{len(self._processes)}.txt"
        process = Process(output, self._environ, *options)
        self._processes.append(process)
        return process

    def close(self) -> None:
        """All of them end in order, or the test fails."""
        try:
            assert [process.end() for process in self._processes] == [0] * len(self._processes), self.said()
        finally:
            self.kill()
        serving = [said for process in self._processes if process is not self.worker and (said := process.said())]
        assert [said for said in serving if "Traceback" in said or "request failed" in said] == []

    def kill(self) -> None:
        for process in self._processes:
            process.kill()

    def said(self) -> str:
        return "\n".join(process.said() for process in self._processes)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Operator]:
        async with httpx.AsyncClient(base_url=self.addresses[0], timeout=PATIENCE) as http:
            yield Operator(http, self.folder)


class Operator:
    """Somebody with an HTTP client, and with a hand on the gates."""

    def __init__(self, http: httpx.AsyncClient, folder: Path) -> None:
        self.http, self._folder = http, folder

    async def get(self, path: str, **options: Any) -> Any:
        answer = await self.http.get(path, **options)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    async def post(self, path: str, body: Any = None, status: int | None = None) -> Any:
        answer = await self.http.post(path, **({} if body is None else {"json": body}))
        good = answer.status_code < 300 if status is None else answer.status_code == status
        assert good, (path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    async def create(self, name: str, handler: str, **fields: Any) -> Any:
        return await self.post("/api/v1/jobs", {"name": name, "handler": handler, "max_retries": 0, **fields}, 201)

    async def job(self, name: str) -> Any:
        return await self.get(f"/api/v1/jobs/{name}")

    async def ended(self, execution_id: str) -> Any:
        execution = await self.get(f"/api/v1/executions/{execution_id}?wait=60s")
        assert execution["status"] not in ("pending", "running"), execution
        return execution

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        return await until(condition, what, PATIENCE)

    async def begun(self, gate: str) -> None:
        await self.until(lambda: self.runs(gate), f"a handler stands at {gate}")

    def runs(self, gate: str) -> list[str]:
        """The executions whose handlers have come to this gate."""
        told = self._folder / f"{gate}.begun"
        return told.read_text().split() if told.exists() else []

    async def stopped(self, gate: str) -> None:
        await self.until((self._folder / f"{gate}.stopped").exists, f"the handler at {gate} was stopped")

    def open(self, gate: str) -> None:
        (self._folder / gate).touch()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
