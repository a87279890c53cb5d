"""Execution templates are stored with each job on PostgreSQL, so what they render must not change unnoticed."""

from __future__ import annotations

import msgspec

from mainspring.core.rules.new_execution import enqueue_templates
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.limits import Limit

ONE_KEY = ("{unique}", "j1:next", "{unique}", "j1", True, 1)
TWO_KEYS = ("{unique}", "j1:next", "{running}", "j1", True, 1)
PINNED = {"plain": ONE_KEY, "stages": TWO_KEYS, "tenant": ONE_KEY, "tenant_stages": TWO_KEYS}


def test_what_the_templates_of_a_job_render_is_pinned() -> None:
    """If this has to change, templates that are stored with jobs are rendered again by a new version of PostgreSQL's
    schema (`statements.VERSIONS`): a job that nobody edits keeps the old ones otherwise."""
    spec = JobSpec(handler="crawl", overlap="queue", limits=(Limit("site:{tenant}", concurrency=2),))
    templates = enqueue_templates(Job(name="crawl", id="j1", declared=encode_spec(spec)))
    rendered = {}
    for name in templates.__struct_fields__:
        row = getattr(templates, name).execution
        keys = (row.unique_key, row.overlap_key, row.running_unique_key, row.running_overlap_key)
        rendered[name] = (*keys, row.staged, len(getattr(templates, name).limits))
    assert rendered == PINNED, msgspec.json.encode(rendered).decode()
