"""Labels of jobs beside a release that renders none, and those of a database that it leaves behind."""

from __future__ import annotations

import psycopg
import pytest

from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.store.messages import JobQuery, JobWrite
from tests.integration.stores.postgres.test_store import opened
from tests.integration.stores.sqlite.test_labels import SPEC
from tests.servers import postgres

AS_BEFORE = "UPDATE mainspring.job SET template = (template::jsonb - 'labels')::text, updated = updated + 1"
LISTED = "SELECT name, labels FROM mainspring.job_list ORDER BY name"


@pytest.mark.req("SRC-1", "UPG-1")
async def test_jobs_that_the_release_before_has_written_are_found_by_their_labels() -> None:
    url = postgres().migrated_database()
    odd = JobSpec(handler="work", metadata={"nul": "a\x00b", "quote": '"\\'})
    jobs = [
        Job(name="a", id="a-1", declared=encode_spec(SPEC)),
        Job(name="b", id="b-1", declared=encode_spec(SPEC), overrides='{"tags":["new"],"metadata":{},"owner":"ops"}'),
        Job(name="c", id="c-1", declared=encode_spec(JobSpec(handler="work"))),
        Job(name="d", id="d-1", declared=encode_spec(odd)),
    ]
    expected = [(job.name, [label.replace("\x00", "\ufffd") for label in job.labels]) for job in jobs]
    async with opened(url) as store:
        await store.write_jobs([JobWrite(job=job, seen_version=None) for job in jobs])
        with psycopg.connect(url, autocommit=True) as before:
            before.execute(AS_BEFORE.encode())
            assert before.execute(LISTED).fetchall() == expected
            before.execute("UPDATE mainspring.job_list SET labels = NULL")  # as after the step that adds the column
            before.execute("SELECT mainspring.label_jobs()")
            assert before.execute(LISTED).fetchall() == expected
        assert (await store.find_jobs(JobQuery(labels=("meta.site=news", "tag=eu")), 10)).names == ["a"]
        assert (await store.find_jobs(JobQuery(labels=("meta.nul=a\x00b",)), 10)).names == ["d"]
