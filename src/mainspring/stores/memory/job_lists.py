"""The job list: which jobs match, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ...model.execution import State
from ...model.job import Job, JobStats, LiveCounts
from ...model.store.messages import JobFacts, JobOrder, JobQuery, JobsFound
from ...model.time.instants import Micros
from ...model.values.reading import SYSTEM_PREFIX

NO_LIVE = LiveCounts()
SortValue: TypeAlias = str | Micros | None


def find_jobs(
    query: JobQuery, cap: int, jobs: Iterable[Job], stats: Mapping[str, JobStats], live: Mapping[str, LiveCounts]
) -> JobsFound:
    nothing = JobStats(job_id="")
    found = [
        job
        for job in jobs
        if _matches(query, job)
        and (
            not query.any_of
            or any(
                _meets(facts, job, live.get(job.id, NO_LIVE), stats.get(job.id, nothing).last_state)
                for facts in query.any_of
            )
        )
    ]
    keys = {job.name: _key(query.order, job, stats.get(job.id, nothing)) for job in found}
    shown = [name for name in _in_order(keys, query.backwards) if name > query.after]
    return JobsFound(shown[query.offset : query.offset + query.limit], min(cap, len(found)))


def _matches(query: JobQuery, job: Job) -> bool:
    return (
        query.handler in (None, job.spec.handler)
        and query.queue in (None, job.spec.queue)
        and query.origin in (None, job.origin)
        and all(label in job.labels for label in query.labels)
        and (query.due_before is None or _due_before(query.due_before, job))
        and (query.search is None or _found(query.search, job))
        and (query.name_part is None or query.name_part in job.name.lower())
        and (query.without is None or job.name not in query.without)
        and not (query.without_system and job.name.startswith(SYSTEM_PREFIX))
        and (query.code_in is None or job.origin != "code" or job.name in query.code_in)
    )


def _due_before(limit: Micros, job: Job) -> bool:
    return job.paused is None and job.due is not None and job.due < limit


def _found(text: str, job: Job) -> bool:
    return any(text in place.lower() for place in (job.name, job.spec.handler, job.spec.description))


def _meets(facts: JobFacts, job: Job, live: LiveCounts, last: State | None) -> bool:
    return (
        facts.cancelled in (None, job.cancelled is not None)
        and facts.active in (None, bool(live.running or live.waiting))
        and facts.paused in (None, job.paused is not None)
        and facts.planned in (None, job.due is not None)
        and facts.pending in (None, bool(live.pending))
        and (facts.last is None or last in facts.last)
    )


def _key(order: JobOrder, job: Job, stats: JobStats) -> SortValue:
    match order:
        case "name":
            return job.name
        case "handler":
            return job.spec.handler
        case "next_run":
            return job.due if job.paused is None else None
        case "last_started":
            return stats.last_started
        case "created":
            return job.created
        case "updated":
            return job.updated


def _in_order(keys: Mapping[str, SortValue], backwards: bool) -> list[str]:
    """Equal values by name; jobs without a value come last in both directions."""
    names = sorted(keys)
    valued = [name for name in names if keys[name] is not None]
    valued.sort(key=lambda name: keys[name] or 0, reverse=backwards)
    return valued + [name for name in names if keys[name] is None]
