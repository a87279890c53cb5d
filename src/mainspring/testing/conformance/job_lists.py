"""The job list: every filter and order, compared with plain Python over all jobs."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from ...model.execution import ExecutionRow, State
from ...model.job import Job, JobSpec, JobStats, LiveCounts, encode_spec
from ...model.store.messages import JobFacts, JobOrder, JobQuery, JobWrite
from ...model.triggers import encode_trigger, every
from .base import StoreSuite, World

ORDERS = get_args(JobOrder)
_ENDINGS = (State.COMPLETED, State.FAILED, State.PARTIAL, State.CANCELLED)
_NONE = LiveCounts()
FOREVER = 1 << 62


class Known:
    """All jobs with their statistics and live counts, read from the store one by one."""

    def __init__(self, jobs: list[Job], stats: dict[str, JobStats], live: dict[str, LiveCounts]) -> None:
        self.jobs, self.stats, self.live = jobs, stats, live

    @classmethod
    async def of(cls, world: World) -> Known:
        return cls(await world.store.jobs(), await world.store.stats(), await world.store.live_counts())

    def matching(self, query: JobQuery) -> list[str]:
        """In order, without cursor and paging."""
        found = [job for job in self.jobs if self._fits(query, job)]
        keys = {job.name: self._key(query.order, job) for job in found}
        with_key = sorted(name for name in keys if keys[name] is not None)
        with_key.sort(key=keys.__getitem__, reverse=query.backwards)
        return with_key + sorted(name for name in keys if keys[name] is None)

    def _fits(self, query: JobQuery, job: Job) -> bool:
        spec = job.spec
        places = (job.name.lower(), spec.handler.lower(), spec.description.lower())
        return (
            query.handler in (None, spec.handler)
            and query.queue in (None, spec.queue)
            and query.origin in (None, job.origin)
            and (query.search is None or any(query.search in place for place in places))
            and job.name not in (query.without or ())
            and (query.code_in is None or job.origin == "api" or job.name in query.code_in)
            and set(query.labels) <= set(job.labels)
            and (query.due_before is None or (job.paused is None and (job.due or FOREVER) < query.due_before))
            and (not query.any_of or any(self._are_so(facts, job) for facts in query.any_of))
        )

    def _are_so(self, facts: JobFacts, job: Job) -> bool:
        live, last = self.live.get(job.id, _NONE), self._stats(job).last_state
        so = {
            "cancelled": job.cancelled is not None,
            "active": live.running + live.waiting > 0,
            "paused": job.paused is not None,
            "planned": job.due is not None,
            "pending": live.pending > 0,
        }
        wanted = {name: getattr(facts, name) for name in so if getattr(facts, name) is not None}
        return wanted.items() <= so.items() and (facts.last is None or last in facts.last)

    def _key(self, order: str, job: Job) -> Any:
        runs = None if job.paused is not None else job.due
        keys = {"name": job.name, "handler": job.spec.handler, "created": job.created, "updated": job.updated}
        return {**keys, "next_run": runs, "last_started": self._stats(job).last_started}[order]

    def _stats(self, job: Job) -> JobStats:
        return self.stats.get(job.id, JobStats(job_id=job.id))


def _job(world: World, n: int) -> Job:
    """Names, handlers, queues and times repeat at different intervals, so that every combination occurs."""
    ticking = n % 3 != 0
    spec = JobSpec(
        handler=("mail.send", "Report", "zip")[n % 3 if n % 2 else 0],
        queue=("default", "slow")[n % 4 == 0],
        description=("", "Übersicht of the Month", "50% off_now")[n % 5 % 3],
        trigger=encode_trigger(every(minutes=1)) if ticking else None,
        owner=(None, "ops", "Müller")[n % 7 % 3],
        tags=("nightly",) if n % 3 == 1 else ("nightly", "eu %") if n % 3 == 2 else (),
        metadata={"site": "news", "tier": n % 2} if n % 4 == 1 else {},
    )
    return Job(
        name=f"{'abc'[n % 3]}-{n:02}",
        id=f"id-{n}",
        origin="api" if n % 4 == 1 else "code",
        declared=encode_spec(spec),
        overrides='{"queue":"own"}' if n % 11 == 0 else "{}",
        next_run=world.after(60 + n % 4) if ticking else None,
        paused=world.now if n % 5 == 0 else None,
        resume=world.after(n) if n % 10 == 0 else None,
        cancelled=world.now if n % 7 == 3 else None,
        created=world.now + n % 6,
        updated=world.now - n % 9,
    )


async def mixture(world: World, count: int = 34) -> None:
    """Jobs that never ran, that ran, run, wait for children or are pending, at different times."""
    jobs = [_job(world, n) for n in range(count)]
    await world.store.write_jobs([JobWrite(job=job, seen_version=None) for job in jobs])
    ran = [_execution(world, job) for n, job in enumerate(jobs) if n % 6]
    await world.add(*ran)
    for n, row in enumerate(await world.claim(limit=100)):
        world.clock.advance(n % 5)
        await world.settle(row, _ENDINGS[n % 7 % 4], started=world.now - n % 8)
    await world.store.fold(12)
    again = [_execution(world, job) for n, job in enumerate(jobs) if n % 4 == 0]
    await world.add(*again)
    for n, row in enumerate(await world.claim(limit=6)):
        if n % 3 != 2:
            await world.settle(row, (State.FAILED, State.WAITING)[n % 3])


def _execution(world: World, job: Job) -> ExecutionRow:
    return world.execution(job=job.name, job_id=job.id)


FACTS = (
    JobFacts(cancelled=True),
    JobFacts(cancelled=False, active=True),
    JobFacts(cancelled=False, active=False, paused=True),
    JobFacts(paused=False, planned=True),
    JobFacts(planned=False, pending=True),
    JobFacts(pending=False, planned=False, last=frozenset({State.COMPLETED, State.PARTIAL})),
    JobFacts(active=False, last=frozenset({State.FAILED})),
    JobFacts(last=frozenset({None})),
    JobFacts(last=frozenset({None, State.CANCELLED, State.COMPLETED}), active=False),
    JobFacts(last=frozenset()),
)
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"handler": "Report"},
    {"handler": "nobody"},
    {"queue": "slow"},
    {"queue": "own", "origin": "code"},
    {"origin": "api", "handler": "zip"},
    {"search": "b-"},
    {"search": "report"},
    {"search": "übersicht"},
    {"search": "%"},
    {"search": "f_n"},
    {"search": "\\", "queue": "slow"},
    {"without": frozenset({"a-00", "b-01", "nobody"})},
    {"without": frozenset(), "origin": "code"},
    {"code_in": frozenset({"a-00", "b-04", "nobody"})},
    {"code_in": frozenset(), "handler": "zip"},
    {"code_in": frozenset({"a-00", "b-04"}), "any_of": (JobFacts(paused=True),)},
    {"any_of": FACTS[:2]},
    {"any_of": (FACTS[3], FACTS[4], FACTS[6])},
    {"any_of": (JobFacts(paused=True), JobFacts(cancelled=True), JobFacts(active=True)), "handler": "mail.send"},
    *({"any_of": (facts,)} for facts in FACTS),
)


class JobLists(StoreSuite):
    async def check_jobs(self, world: World, known: Known, query: JobQuery) -> None:
        """Both with an exact count and with a cap that is soon reached."""
        expected = known.matching(query)
        page = [name for name in expected if name > query.after][query.offset : query.offset + query.limit]
        for cap in (1_000, 3):
            found = await world.store.find_jobs(query, cap)
            assert (found.names, found.count) == (page, min(cap, len(expected))), (query, cap)

    @pytest.mark.req("API-13")
    async def test_every_filter_of_the_job_list(self, world: World) -> None:
        await mixture(world)
        known = await Known.of(world)
        for n, filters in enumerate(FILTERS):
            await self.check_jobs(
                world, known, JobQuery(**filters, order=ORDERS[n % len(ORDERS)], backwards=n % 4 == 3)
            )

    @pytest.mark.req("API-13")
    async def test_every_order_of_the_job_list_in_pages(self, world: World) -> None:
        await mixture(world)
        known = await Known.of(world)
        for order in ORDERS:
            for backwards in (False, True):
                query = JobQuery(order=order, backwards=backwards, any_of=(JobFacts(cancelled=False),))
                await self.check_jobs(world, known, query)
                await self.check_jobs(world, known, replace(query, limit=5, offset=18))
        await self.check_jobs(world, known, JobQuery(after="a-30", limit=4))
        await self.check_jobs(world, known, JobQuery(after="b-10", limit=50, search="-", any_of=FACTS[3:5]))
        await self.check_jobs(world, known, JobQuery(offset=100))

    async def test_what_lists_go_by_follows_every_write(self, world: World) -> None:
        """After edits, ticks that end or renew a plan, a job deleted and created again, and a copy."""
        await mixture(world, 8)
        job = await world.stored_job("b-01")
        edited = job.with_changes(
            overrides='{"handler":"other","queue":"own"}', paused=world.now, updated=world.now + 9
        )
        assert await world.write(edited, job.version)
        tick = await world.stored_job("c-02")
        assert await world.write(tick.with_changes(next_run=None), tick.version, only_plan=True)
        late = await world.stored_job("b-07")
        later = late.with_changes(next_run=world.after(500))
        row = world.execution(job=late.name, job_id=late.id)
        assert await world.write(later, late.version, only_plan=True, executions=(row,))
        gone = await world.stored_job("a-03")
        assert await world.store.delete_job(gone.name, gone.version, purge=True, audit=None)
        new = await world.stored_job("b-04")
        assert await world.store.delete_job(new.name, new.version, purge=False, audit=None)
        assert await world.write(new.with_changes(id="id-anew", created=world.now + 100))
        await self.check_all(world)
        again = await world.stored_job("c-02")
        assert await world.write(again.with_changes(next_run=world.after(1)), again.version, only_plan=True)
        await world.store.copy_in("jobs", [_job(world, 90), _job(world, 91)])
        await self.check_all(world)

    async def check_all(self, world: World) -> None:
        known = await Known.of(world)
        for order in ORDERS:
            await self.check_jobs(world, known, JobQuery(order=order))
        for filters in FILTERS[1:7]:
            await self.check_jobs(world, known, JobQuery(**filters))
        for facts in FACTS:
            await self.check_jobs(world, known, JobQuery(any_of=(facts,)))


class JobLabels(JobLists):
    @pytest.mark.req("SRC-3")
    async def test_jobs_by_label_and_by_due_time(self, world: World) -> None:
        await mixture(world)
        for edited in (False, True):
            if edited:
                await self.relabel(world)
            known = await Known.of(world)
            for n, labels in enumerate(LABELS):
                query = JobQuery(labels=labels, order=ORDERS[n % len(ORDERS)], limit=5, offset=n % 3)
                await self.check_jobs(world, known, query)
            for seconds in (0, 61, 63, 1_000):
                await self.check_jobs(world, known, JobQuery(due_before=world.after(seconds), order="next_run"))
            late = JobQuery(due_before=world.after(62), labels=LABELS[1], handler="mail.send")
            await self.check_jobs(world, known, late)

    async def relabel(self, world: World) -> None:
        """Edits, ticks that leave the labels alone, deletions and copies."""
        job = await world.stored_job("b-01")
        assert await world.write(job.with_changes(overrides='{"tags":["new"],"owner":"ops"}'), job.version)
        tick = await world.stored_job("c-02")
        assert await world.write(tick.with_changes(next_run=world.after(-5)), tick.version, only_plan=True)
        gone = await world.stored_job("b-04")
        assert await world.store.delete_job(gone.name, gone.version, purge=True, audit=None)
        await world.store.copy_in("jobs", [_job(world, 91), _job(world, 92)])


LABELS = (
    ("owner=ops",),
    ("tag=nightly",),
    ("tag=nightly", "tag=eu %"),
    ("meta.site=news", "meta.tier=1", "owner=Müller"),
    ("tag=new",),
    ("tag=n",),
    ("nobody",),
)
