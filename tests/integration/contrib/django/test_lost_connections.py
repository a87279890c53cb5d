"""A worker under load whose connections are terminated, Django's and Mainspring's: no execution fails for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from tests.integration.contrib.django.project_runs import Project
from tests.servers import Postgres, postgres
from tests.support import until

JOBS = ("in-thread", "awaited", "in-process")
EACH = 60
ROUNDS = 2


@pytest.mark.req("DEV-3")
async def test_terminated_connections_cost_at_most_one_attempt(tmp_path: Path) -> None:
    server = postgres()
    url = server.new_database()
    database = url.rpartition("/")[2]
    project = Project(PROJECT_POSTGRES=url, PROJECT_MAX_AGE="2")
    project.run("manage.py migrate --run-syncdb -v0")
    server.execute("INSERT INTO ledger_entry (name, count) VALUES ('tea', 0)", database)
    with project.running("mainspring", "worker", "--concurrency", "6", log=tmp_path / "worker.log"):
        async with Mainspring(url, roles=[]) as client:
            await until(client.workers, "the worker runs", deadline=60)
            for _ in range(ROUNDS):
                await one_round(server, database, client)
            await until(lambda: not djangos_connections(server, database), "old connections are closed", deadline=60)
    assert "ResourceWarning" not in (tmp_path / "worker.log").read_text(), "every connection is closed at the stop"
    assert server.execute("SELECT count(*) > 0 FROM ledger_entry WHERE count >= 360", database) == [(True,)]


async def one_round(server: Postgres, database: str, client: Mainspring) -> None:
    items: list[Any] = [(job, {"name": "tea"}) for job in JOBS for _ in range(EACH)]
    added = [each for each in await client.enqueue_many(items) if each is not None]
    waiting = {each.id for each in added}
    await until(lambda: some_done(client, waiting), "a third is done", deadline=120)
    terminated = server.execute(
        "SELECT application_name, pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = '{database}' AND pid <> pg_backend_pid()"
    )
    names = {name for name, _ in terminated}
    assert {"", "mainspring"} <= names, f"Django's connections have no name: {names}"
    ended = [await client.wait(each, timeout=120) for each in added]
    assert {each.state.value for each in ended} == {"completed"}
    assert max(each.failures for each in ended) <= 1


def djangos_connections(server: Postgres, database: str) -> list[Any]:
    """Those of the worker and of its child processes; Mainspring's own have a name."""
    return server.execute(f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}' AND application_name = ''")


async def some_done(client: Mainspring, waiting: set[str]) -> bool:
    done = await client.executions(status="completed", limit=500)
    return len([each for each in done if each.id in waiting]) >= EACH
