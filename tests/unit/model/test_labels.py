"""The labels by which jobs are found."""

from __future__ import annotations

import pytest

from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.labels import LONGEST_VALUE, MOST_METADATA, job_labels


@pytest.mark.req("SRC-3")
def test_a_job_is_found_by_owner_tags_and_plain_metadata() -> None:
    metadata = {"site": "news", "live": True, "n": 3, "none": None, "list": [1], "long": "x" * LONGEST_VALUE}
    spec = JobSpec(handler="h", owner="web", tags=("nightly", "pii"), metadata=metadata)
    job = Job(name="j", id="1", declared=encode_spec(spec), overrides='{"owner":"ops"}')
    assert job.labels == ("owner=ops", "tag=nightly", "tag=pii", "meta.live=true", "meta.n=3", "meta.site=news")
    assert len(job_labels(None, (), {f"k{n}": n for n in range(100)})) == MOST_METADATA
