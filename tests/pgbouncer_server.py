"""A real PgBouncer in front of the PostgreSQL server of a test, on a free loopback port; stopped by its own id."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from tests.servers import NOBODY, Postgres, free_port, own_folder
from tests.support import until_blocking


@contextmanager
def pgbouncer(server: Postgres, pool_mode: str, *, pool_size: int = 5, **settings: str) -> Iterator[int]:
    """The port on which it listens. It has at most `pool_size` connections to each database."""
    folder = own_folder("mainspring-pgbouncer-")
    port = free_port()
    lines = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": pool_mode,
        "default_pool_size": str(pool_size),
        "max_client_conn": "200",
        "admin_users": "postgres",
        **settings,
    }
    text = f"[databases]\n* = host=127.0.0.1 port={server.port} user=postgres\n\n[pgbouncer]\n"
    (folder / "pgbouncer.ini").write_text(text + "".join(f"{name} = {value}\n" for name, value in lines.items()))
    user = {"user": NOBODY, "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["pgbouncer", str(folder / "pgbouncer.ini")], stdout=log, stderr=log, cwd=folder, **user
        )
    try:

        def answers() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            with suppress(psycopg.OperationalError), psycopg.connect(through(server.url(), port)):
                return True
            return False

        until_blocking(answers, "PgBouncer answers")
        yield port
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def through(url: str, port: int) -> str:
    """The same database by way of the pooler."""
    start, _, name = url.rpartition("/")
    return f"{start.rpartition(':')[0]}:{port}/{name}"
