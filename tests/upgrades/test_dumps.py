"""A database that the release before left behind after a crash is migrated: all of it is there, and work goes on."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymongo
import pytest
from bson import json_util

from mainspring import Mainspring, Unique
from mainspring.admin import schema
from tests.mongo_server import mongo
from tests.servers import postgres
from tests.support import until
from tests.upgrades.make_dump import FOLDER, build, described

PATIENCE = 120.0


def load_sqlite(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "jobs.db")) as connection:
        connection.executescript((FOLDER / "sqlite.sql").read_text())
    return f"sqlite:///{folder / 'jobs.db'}"


def load_postgres(folder: Path) -> str:
    url = postgres().new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((FOLDER / "postgres.sql").read_text().encode())
    return url


def load_mongo(folder: Path) -> str:
    url = mongo("replica_set").new_database()
    with pymongo.MongoClient[dict[str, Any]](url) as client:
        database = client.get_default_database()
        for name, found in json_util.loads((FOLDER / "mongo.json").read_text()).items():
            collection = database.create_collection(name)
            for index in found["indexes"]:
                options = {key: value for key, value in index.items() if key not in ("v", "key")}
                collection.create_index(list(index["key"].items()), **options)
            if found["documents"]:
                collection.insert_many(found["documents"])
    return url


LOADS: dict[str, Callable[[Path], str]] = {"sqlite": load_sqlite, "postgres": load_postgres, "mongo": load_mongo}


@pytest.mark.req("UPG-1")
@pytest.mark.parametrize("kind", list(LOADS))
async def test_everything_is_there_and_work_goes_on(kind: str, tmp_path: Path) -> None:
    url = LOADS[kind](tmp_path)
    before = await schema.status(url)
    assert before.pending
    wanted = json.loads((FOLDER / f"{kind}.manifest.json").read_text())
    closed = build(url, auto_migrate=False)
    with pytest.raises(Exception, match="run `mainspring db migrate`"):
        await closed.open()
    app = build(url, rescue_interval=0.1, fold_interval=0.2)
    await app.open()
    after = await schema.status(url)
    assert (after.required, after.pending) == (before.required, [])
    found = await described(app)
    for name in ("jobs", "ended", "live", "states", "logs", "totals", "audits", "entries"):
        assert found[name] == wanted[name], name
    async with app:
        await until(lambda: _ended(app, wanted["live"]), "what was left has ended", PATIENCE)
        for backfill in await app.backfills.recent():
            assert (await app.backfills.wait(backfill.id, PATIENCE)).state == "completed"
    final = {each.id: each.state for each in await app.executions(limit=1000)}
    assert {id: final[id] for id in wanted["ended"]} == wanted["ended"]
    assert Counter(str(final[id]) for id in wanted["live"] if final[id].final) == {"completed": 10}
    assert (await app.job_view("paused")).is_paused
    assert (await app.job_view("plain")).queue == "slow"
    assert await app.enqueue("plain", unique=Unique("once", for_="3650d")) is None  # the key is still held
    await app.close()


TABLES = """
    SELECT format('%s.%s %s', table_name, column_name, data_type) FROM information_schema.columns
    WHERE table_schema = 'mainspring' AND table_name !~ '^history_[0-9]'
    UNION ALL
    SELECT i.indexdef FROM pg_indexes i WHERE i.schemaname = 'mainspring' AND i.tablename !~ '^history_[0-9]'
    ORDER BY 1
"""


@pytest.mark.req("UPG-1")
async def test_a_migrated_database_has_the_tables_and_indexes_of_a_new_one(tmp_path: Path) -> None:
    """Also if building an index was interrupted: that leaves one behind that is not valid."""
    url, new = load_postgres(tmp_path), postgres().migrated_database()
    with psycopg.connect(url, autocommit=True) as connection, psycopg.connect(new) as other:
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("CREATE UNIQUE INDEX CONCURRENTLY live_ready_due ON mainspring.live (priority)")
        closed = build(url)
        await closed.open()
        await closed.close()
        assert "INDEX live_ready ON" in str(connection.execute(TABLES).fetchall())  # a start does not replace them
        await schema.migrate(url)
        assert connection.execute(TABLES).fetchall() == other.execute(TABLES).fetchall()


async def _ended(app: Mainspring, live: dict[str, str]) -> bool:
    """All but the one that waits for next year."""
    states = [(await app.get(id)).state for id in live]
    return sum(state.final for state in states) == len(live) - 1
