"""A MongoDB database from before entries gets their collection when it is opened, and keeps what it holds."""

from __future__ import annotations

import pymongo
import pytest

from mainspring.admin.copy import opened
from mainspring.core.ports import Store
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.entries import Entry, EntryWrite
from mainspring.model.store.messages import JobFacts, JobQuery, JobsFound, JobWrite
from tests.mongo_server import mongo

SPEC = JobSpec(handler="work", queue="slow", description="Übersicht")
JOB = Job(name="job", id="job-1", declared=encode_spec(SPEC), overrides='{"queue":"own"}', next_run=7, paused=5)
ENTRY = Entry(kind="calendar", key="1", version=1)


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
