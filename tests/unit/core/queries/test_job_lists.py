"""What a state is to a store: the facts asked for are those that `job_state` goes by, whatever is so of a job."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest

from mainspring import every
from mainspring.core.filters.jobs import JobFilter, facts_wanted
from mainspring.core.rules.job_commands import facts_of, job_state
from mainspring.model.execution import State
from mainspring.model.job import Job, JobSpec, JobState, JobStats, LiveCounts, encode_spec
from mainspring.model.store.messages import JobFacts
from mainspring.model.triggers import encode_trigger

TICKING = encode_spec(JobSpec(handler="work", trigger=encode_trigger(every(minutes=1))))
ON_DEMAND = encode_spec(JobSpec(handler="work"))
LAST = (None, *(state for state in State if state.final and state is not State.SKIPPED))


class Case(NamedTuple):
    job: Job
    live: LiveCounts
    last: State | None

    @property
    def state(self) -> JobState:
        """As a view of the job says it: statistics count once something has ended."""
        stats = None if self.last is None else JobStats(job_id="1", last_id="x", last_state=self.last)
        return job_state(self.job, self.live, stats)

    def meets(self, facts: JobFacts) -> bool:
        so = {
            "cancelled": self.job.cancelled is not None,
            "active": self.live.running + self.live.waiting > 0,
            "paused": self.job.paused is not None,
            "planned": self.job.due is not None,
            "pending": self.live.pending > 0,
        }
        return all(getattr(facts, name) in (None, is_so) for name, is_so in so.items()) and (
            facts.last is None or self.last in facts.last
        )


def cases() -> list[Case]:
    """Everything that can be so of a job, together with everything else."""
    choices = product((None, 5), (None, 5), (None, 9), (None, 7), (TICKING, ON_DEMAND), (0, 1), (0, 1), (0, 2), LAST)
    return [
        Case(
            Job(
                name="job",
                id="1",
                declared=declared,
                cancelled=cancelled,
                paused=paused,
                resume=resume,
                next_run=next_run,
            ),
            LiveCounts(pending=pending, running=running, waiting=waiting),
            last,
        )
        for cancelled, paused, resume, next_run, declared, pending, running, waiting, last in choices
    ]


@pytest.mark.req("API-13")
def test_the_facts_of_a_state_are_so_of_its_jobs_and_of_no_other() -> None:
    everything = cases()
    assert {case.state for case in everything} == set(JobState)
    for case in everything:
        found = [state for state in JobState if any(case.meets(facts) for facts in facts_of(state))]
        assert found == [case.state], case


@pytest.mark.req("API-13")
def test_filters_of_state_pause_and_last_run_combine() -> None:
    everything = cases()
    statuses = (None, ("paused",), ("running", "failed"), ("completed", "pending"), tuple(JobState))
    for status, paused, last in product(statuses, (None, True, False), (None, "failed", "completed", "cancelled")):
        wanted = facts_wanted(JobFilter(status=status, paused=paused, last_status=None if last is None else (last,)))
        for case in everything:
            expected = (
                (status is None or case.state in status)
                and paused in (None, case.job.paused is not None)
                and last in (None, case.last)
            )
            found = wanted is not None and (not wanted or any(case.meets(facts) for facts in wanted))
            assert found is expected, (status, paused, last, case)


@pytest.mark.req("API-13")
def test_what_cannot_be_is_not_asked_for() -> None:
    assert facts_wanted(JobFilter(status=("scheduled",), paused=True)) is None
    assert facts_wanted(JobFilter(status=("failed",), last_status=("completed",))) is None
    assert facts_wanted(JobFilter(handler="work")) == ()
