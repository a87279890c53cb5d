"""Gathers what runs on a database, for checks: reads only. The lists are bounded, so that a page may wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

from ...model.job import Job, JobSpec
from ...model.time.instants import Micros
from ..access.api_tokens import Tokens
from ..deploys.processes import Processes
from ..errors.commands import ErrorGroups
from ..forecast.ticks import planned
from ..jobs.calendars import Calendars
from ..monitoring.problems import STALE_FOR, Problems
from ..monitoring.queues import Queues
from ..ports import Store
from ..queries.queries import Queries
from .facts import JobFacts, JobsFacts, LiveFacts

MOST_JOBS = 5_000
PAGE = 1_000

Declared = Sequence[tuple[str, JobSpec]]


class Engine(Protocol):
    """The parts of an application that is connected to its store, as far as checks need them."""

    problems: Problems
    queues: Queues
    processes: Processes
    tokens: Tokens
    errors: ErrorGroups
    queries: Queries


async def live_facts(engine: Engine) -> LiveFacts:
    """A page that is open may get facts that are half a minute old; a new process reads them."""
    facts = await engine.problems.cache.get(stale_for=STALE_FOR)
    controls = (await engine.queues.cache.get()).controls
    return LiveFacts(
        now=facts.now,
        problems=facts,
        conflicts=await engine.processes.conflicts(),
        tokens=await engine.tokens.all(),
        muted=(await engine.errors.find(muted=True)).items,
        paused={key: control for key, control in controls.items() if control.paused is not None and key[0] != "job"},
        size=await engine.queries.storage_size(),
    )


async def stored_jobs(store: Store, calendars: Calendars, declared: Declared | None) -> JobsFacts:
    """The jobs of the database, and those that the application declares and the database does not have."""
    now, jobs = await store.now(), await _some_jobs(store)
    readable = [job for job in jobs if job.readable]
    stats = await store.stats([job.id for job in readable])
    found = []
    for job in readable:
        known = stats.get(job.id)
        found.append(JobFacts(job=job) if known is None else _with_stats(job, known.average_duration_ms, known.timed))
    names = {job.name for job in jobs}
    found += declared_jobs([each for each in declared or () if each[0] not in names], now).jobs
    return JobsFacts(
        now=now,
        jobs=found,
        unreadable=[(job.name, _zone(job)) for job in jobs if not job.readable],
        calendars=await calendars.of(each.job for each in found),
        declared=None if declared is None else frozenset(name for name, _ in declared),
    )


def declared_jobs(declared: Declared, now: Micros) -> JobsFacts:
    """The same for an application whose database cannot be read."""
    jobs = [JobFacts(job=planned(name, spec, now, Random(0))) for name, spec in declared]
    return JobsFacts(now=now, jobs=jobs, declared=frozenset(name for name, _ in declared))


def _with_stats(job: Job, average_ms: float | None, runs: int) -> JobFacts:
    return JobFacts(job=job, average_ms=average_ms, runs=runs)


async def _some_jobs(store: Store) -> list[Job]:
    jobs: list[Job] = []
    while len(jobs) < MOST_JOBS:
        page = await store.jobs_after(jobs[-1].name if jobs else "", PAGE)
        jobs += page
        if len(page) < PAGE:
            break
    return jobs


def _zone(job: Job) -> str:
    try:
        return job.spec.tz
    except Exception:  # written by a newer release: even its specification cannot be read
        return ""
