"""Databases from before the shelf get one when they are opened; what they hold stays."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pymongo
import pytest

from mainspring.admin.copy import opened
from mainspring.core.ports import Store
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.store.messages import JobFacts, JobQuery, JobsFound, JobWrite
from mainspring.stores.sqlite.statements import migrations as sqlite_migrations
from tests.mongo_server import mongo

SPEC = JobSpec(handler="work", queue="slow", description="Übersicht")
JOB = Job(name="job", id="job-1", declared=encode_spec(SPEC), overrides='{"queue":"own"}', next_run=7, paused=5)
ENTRY = Entry(kind="calendar", key="1", version=1)
COLUMNS = (
    "name, id, version, origin, declared, overrides, release, next_run, last_tick, anchor, paused, paused_by, "
    "pause_note, resume, cancelled, sweep, created, updated, due"
)


def columns(sweep: int | bool) -> tuple[object, ...]:
    """Of the row of the job, as an earlier release has left it."""
    times = (JOB.next_run, None, 0, JOB.paused, None, None, None, None, sweep, 1, 2, None)
    return (JOB.name, JOB.id, 1, JOB.origin, JOB.declared, JOB.overrides, "", *times)


async def lived(store: Store) -> None:
    await store.write_jobs([JobWrite(job=JOB, seen_version=None)])


async def works(url: str) -> None:
    async with opened(url) as store:
        assert [job.name for job in await store.jobs()] == ["job"]
        assert await store.write_entries([EntryWrite(entry=ENTRY, seen_version=0)]) == [True]
        assert await store.list_entries("calendar", "") == [ENTRY]
        queries = (
            JobQuery(handler="work", queue="own", origin="code"),
            JobQuery(search="übersicht", any_of=(JobFacts(paused=True, planned=False, cancelled=False),)),
        )
        assert [await store.find_jobs(query, 10) for query in queries] == [JobsFound(["job"], 1)] * 2


@pytest.mark.req("OPS-5")
async def test_an_older_sqlite_file(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        for number, text in sqlite_migrations():
            if number <= 3:
                connection.executescript(text)
        connection.execute("UPDATE mainspring_meta SET value = 3 WHERE key = 'schema'")
        marks = ", ".join("?" * len(columns(0)))
        connection.execute(f"INSERT INTO mainspring_jobs ({COLUMNS}) VALUES ({marks})", columns(0))
    await works(f"sqlite:///{tmp_path}/old.db")


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
