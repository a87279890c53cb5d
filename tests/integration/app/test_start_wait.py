"""A process that starts waits for its servers, says so once, and gives up with the exit code 2."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mainspring import ConfigurationError, Mainspring, SchemaMismatch, StoreError, StoreUnavailable
from mainspring.model.events import Running, StoreReached, WaitingForStore
from tests.mongo_server import new_mongo
from tests.servers import free_port, new_postgres, postgres
from tests.support import DEADLINE, Seen, until, until_blocking
from tests.valkey_server import new_valkey

SHOP = """
import os
from mainspring import Mainspring

app = Mainspring(os.environ["SHOP_DATABASE"], start_timeout="1s")


@app.job("greet")
async def greet() -> None: ...


if __name__ == "__main__":
    app.run()
"""


def an_app(database: str, **settings: Any) -> tuple[Mainspring, Seen]:
    seen = Seen()
    app = Mainspring(database, observers=[seen], **settings)
    app.job("greet")(lambda: None)
    return app, seen


class Locked:
    """A database file whose write lock another connection holds, in the place of a server that is down."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("BEGIN IMMEDIATE")

    def start(self) -> None:
        self._connection.close()


def a_server(kind: str, folder: Path) -> tuple[str, Callable[[], None], dict[str, Any]]:
    """An address where no server answers yet, a function that starts one there, and the settings that need it."""
    if kind == "sqlite":
        locked = Locked(folder / "locked.db")
        return locked.url, locked.start, {}
    if kind == "postgres":
        server = new_postgres()
        return server.url(), server.start, {}
    if kind == "mongo":
        mongo = new_mongo("standalone")
        return mongo.url(), mongo.start, {}
    valkey = new_valkey()
    return f"sqlite:///{folder / 'jobs.db'}", valkey.start, {"locks": "redis", "redis_url": valkey.url()}


@pytest.mark.req("OPS-9")
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mongo", "redis"])
async def test_a_start_waits_for_its_server_and_says_so_once(tmp_path: Path, kind: str) -> None:
    url, start_server, settings = a_server(kind, tmp_path)
    app, seen = an_app(url, **settings)
    async with asyncio.timeout(DEADLINE):
        starting = asyncio.create_task(app.start())
        await until(lambda: seen.of(WaitingForStore), "it says that it waits")
        assert not seen.of(Running)
        await asyncio.to_thread(start_server)
        await starting
    waiting, reached = seen.of(WaitingForStore), seen.of(StoreReached)
    assert (
        [event.address for event in waiting] == [event.address for event in reached] == [settings.get("redis_url", url)]
    )
    assert waiting[0].seconds == 60.0
    assert seen.of(Running)
    await app.close()


@pytest.mark.req("OPS-9")
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mongo", "redis"])
async def test_a_start_gives_up_after_its_timeout_and_can_be_tried_again(tmp_path: Path, kind: str) -> None:
    url, start_server, settings = a_server(kind, tmp_path)
    app, seen = an_app(url, start_timeout=0.3, **settings)
    with pytest.raises(StoreUnavailable, match=r"gave up after 0\.3 s \(start_timeout\)"):
        await app.start()
    assert not seen.of(Running)
    await asyncio.to_thread(start_server)
    async with asyncio.timeout(DEADLINE):
        await app.start(start_timeout=DEADLINE)
    assert seen.of(Running)
    await app.close()


@pytest.mark.req("OPS-9")
@pytest.mark.parametrize("why", ["password", "database", "schema", "folder", "redis password"])
async def test_a_server_that_refuses_is_not_waited_for(tmp_path: Path, why: str) -> None:
    settings: dict[str, Any] = {}
    expected: type[Exception] = StoreError
    if why == "password":
        server = new_postgres()
        server.start()
        server.execute("CREATE ROLE clerk LOGIN PASSWORD 'right'")
        rules = "host all postgres 127.0.0.1/32 trust\nhost all clerk 127.0.0.1/32 scram-sha-256\n"
        Path(server.data, "pg_hba.conf").write_text(rules)  # noqa: ASYNC240
        server.execute("SELECT pg_reload_conf()")
        url, words = server.url().replace("postgres@", "clerk:wrong@"), "check user and password"
    elif why == "database":
        url, words = postgres().url("nowhere"), "create the database first"
    elif why == "schema":
        url, words, expected = f"sqlite:///{tmp_path / 'newer.db'}", "update this installation", SchemaMismatch
        async with an_app(url)[0]:
            pass
        with closing(sqlite3.connect(tmp_path / "newer.db", isolation_level=None)) as connection:
            connection.execute("UPDATE mainspring_meta SET value = 99 WHERE key = 'schema'")
    elif why == "folder":
        url, words = f"sqlite:///{tmp_path / 'missing' / 'jobs.db'}", "does not exist; create it first"
    else:
        valkey = new_valkey()
        valkey.start()
        valkey.client().config_set("requirepass", "right")
        url, words, expected = f"sqlite:///{tmp_path / 'jobs.db'}", "check user and password", ConfigurationError
        settings = {"locks": "redis", "redis_url": f"redis://:wrong@127.0.0.1:{valkey.port}/0"}
    app, seen = an_app(url, **settings)
    with pytest.raises(expected, match=words):
        await app.start()
    assert not seen.of(WaitingForStore)
    await app.close()


@pytest.mark.req("OPS-9")
@pytest.mark.parametrize(
    "command", [["shop.py"], ["-m", "mainspring", "run", "shop:app"], ["-m", "mainspring", "worker", "shop:app"]]
)
def test_script_and_command_line_say_the_same_and_exit_with_2(tmp_path: Path, command: list[str]) -> None:
    process = _begin(tmp_path, command)
    _, said = process.communicate(timeout=DEADLINE)
    lines = [line for line in said.splitlines() if " starting " not in line and not line.startswith(" ")]
    assert len(lines) == 2, said
    assert "WARNING  waiting_for_database database=postgresql://clerk:***@127.0.0.1" in lines[0]
    assert lines[1].startswith("error: postgresql://clerk:***@127.0.0.1:")
    assert lines[1].endswith("gave up after 1 s (start_timeout)")
    assert process.returncode == 2


@pytest.mark.req("OPS-9")
def test_a_stop_signal_ends_a_start_that_waits(tmp_path: Path) -> None:
    process = _begin(tmp_path, ["-m", "mainspring", "run", "shop:app", "--start-timeout", "10m"])
    assert process.stderr is not None
    until_blocking(lambda: "waiting_for_database" in process.stderr.readline())
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == 0
    process.stderr.close()


def _begin(folder: Path, command: list[str]) -> subprocess.Popen[str]:
    (folder / "shop.py").write_text(SHOP)
    environment = os.environ | {"SHOP_DATABASE": f"postgresql://clerk:secret@127.0.0.1:{free_port()}/shop"}
    return subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
