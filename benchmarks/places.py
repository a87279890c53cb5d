"""A fresh place to work in for one measured run: a database, a file, an emptied server; and what its server costs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import servers, usage


@dataclass(frozen=True)
class Place:
    url: str
    folder: Path
    server: int | None = None  # the process id of the server, if there is one
    postgres: str = "18"

    def server_cpu(self) -> float | None:
        return None if self.server is None else usage.cpu_seconds([self.server])

    def settle(self) -> None:
        """What the filling left to the server is done before the clock starts."""
        if self.url.startswith("postgresql:"):
            server = servers.postgres(self.postgres)
            server.execute("VACUUM ANALYZE", self.url.rpartition("/")[2])
            server.execute("CHECKPOINT")


@contextmanager
def fresh_place(store: str, postgres: str = "18") -> Iterator[Place]:
    folder = servers.new_folder(store)
    try:
        if store == "postgres":
            server = servers.postgres(postgres)
            url = server.new_database()
            yield Place(url, folder, servers.postgres_pid(server), postgres)
            server.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")
        elif store == "redis":
            valkey = servers.valkey()
            valkey.command("FLUSHALL")
            yield Place(valkey.url, folder, valkey.pid)
        elif store == "mongo":
            mongo = servers.mongo()
            yield Place(mongo.new_database(), folder)
        elif store == "sqlite":
            yield Place(f"sqlite:///{folder / 'jobs.db'}", folder)
        else:
            yield Place("memory://", folder)  # nothing outside the process itself
    finally:
        shutil.rmtree(folder, ignore_errors=True)
