"""Databases from before the shelf get one when they are opened; what they hold stays."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pymongo
import pytest

from mainspring.core.ports import Store
from mainspring.model.changes import JobWrite
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.shelf import Entry, EntryWrite
from mainspring.moving import opened
from tests.mongo_server import mongo
from tests.servers import postgres

JOB = Job(name="job", id="job-1", declared=encode_spec(JobSpec(handler="work")))
ENTRY = Entry(kind="calendar", key="1", version=1)


async def lived(store: Store) -> None:
    await store.write_jobs([JobWrite(job=JOB, seen_version=None)])


async def works(url: str) -> None:
    async with opened(url) as store:
        assert [job.name for job in await store.jobs()] == ["job"]
        assert await store.shelve([EntryWrite(entry=ENTRY, seen_version=0)]) == [True]
        assert await store.shelf("calendar", "") == [ENTRY]


@pytest.mark.req("OPS-5")
async def test_an_older_sqlite_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    async with opened(url) as store:
        await lived(store)
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        connection.execute("DROP TABLE mainspring_shelf")
        connection.execute("UPDATE mainspring_meta SET value = 3 WHERE key = 'schema'")
    await works(url)


@pytest.mark.req("OPS-5")
async def test_an_older_postgresql_database() -> None:
    url = postgres().new_database()
    async with opened(url) as store:
        await lived(store)
    with psycopg.connect(url) as connection:
        connection.execute("DROP FUNCTION mainspring.shelve, mainspring.shelve_one")
        connection.execute("DROP TABLE mainspring.shelf")
        connection.execute("UPDATE mainspring.meta SET value = 11 WHERE key = 'schema'")
    await works(url)


@pytest.mark.req("OPS-5")
async def test_an_older_mongodb_database() -> None:
    url = mongo("replica_set").new_database()
    async with opened(url) as store:
        await lived(store)
    with pymongo.MongoClient[dict[str, object]](url) as client:
        database = client.get_default_database()
        database["mainspring.shelf"].drop()
        database["mainspring.meta"].update_one({"_id": "schema"}, {"$set": {"version": 1}})
    await works(url)
    with pymongo.MongoClient[dict[str, object]](url) as client:
        assert set(client.get_default_database()["mainspring.shelf"].index_information()) == {
            "_id_",
            "audits",
            "removed",
        }
