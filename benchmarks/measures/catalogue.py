"""Every measure, by name, with its rows. The first row is what the others are compared with."""

from __future__ import annotations

from functools import partial

from benchmarks.crew import Contestant
from benchmarks.measures import entrants as who
from benchmarks.measures.entrants import bursting, crowded, draining, enqueueing, idling, variant, waking
from benchmarks.measures.plan import Entry, Figures, Measure, Plan
from benchmarks.measures.remembering import memory
from benchmarks.measures.waking import latency_in_one_process
from benchmarks.places import Place

MILLION = 1_000_000


def waking_itself(plan: Plan, contestant: Contestant, place: Place) -> Figures:
    return latency_in_one_process(contestant, place, plan.size(200, 60))


def hopping(plan: Plan, contestant: Contestant, place: Place) -> Figures:
    answer = contestant.ask("hops", items=plan.size(200_000, 50_000))
    return answer | {"rate": answer["items"] / answer["seconds"]}


def remembering(plan: Plan, contestant: Contestant, place: Place) -> Figures:
    return memory(contestant, place, plan.size(MILLION, 60_000))


rates = partial(Measure, figure="rate", unit="jobs/s")
delays = partial(Measure, unit="ms", more_is_better=False)

DRAINS = (
    rates(
        name="drain-postgres",
        title="Drain, PostgreSQL, 1 process",
        entries=(
            draining(who.OURS, 80_000, 30_000),
            draining(who.RAW, 150_000, 60_000),
            draining(who.RAW_MERGED, 150_000),
            draining(who.PGQUEUER, 40_000, 20_000),
            draining(who.PGQUEUER_500, 40_000),
            *(draining(peer, items) for peer, items in who.ON_POSTGRES),
            draining(variant(who.OURS, "wide"), 80_000, label="Mainspring, concurrency=100"),
            draining(variant(who.OURS, "logged"), 40_000, label="Mainspring, with its log shown"),
        ),
    ),
    rates(
        name="drain-postgres-2",
        title="Drain, PostgreSQL, 2 processes",
        entries=(
            draining(who.OURS, 80_000, 30_000, processes=2),
            draining(who.RAW, 150_000, processes=2),
            draining(who.PGQUEUER, 40_000, 20_000, processes=2),
            draining(who.PGQUEUER_500, 40_000, processes=2),
            *(draining(peer, items, processes=2) for peer, items in who.ON_POSTGRES),
        ),
    ),
    rates(
        name="drain-sqlite",
        title="Drain, SQLite with synchronous=FULL, 1 process",
        entries=(
            draining(who.OURS_ON_SQLITE, 60_000, 20_000),
            draining(who.RAW_ON_SQLITE, 200_000, 100_000),
            draining(who.HUEY_ON_SQLITE, 6_000, 2_000),
            draining(who.APSCHEDULER_ON_SQLITE, 1_000),
            draining(who.APSCHEDULER_IN_MEMORY, 10_000),
        ),
    ),
    rates(
        name="drain-sqlite-2",
        title="Drain, SQLite with synchronous=FULL, 2 processes",
        entries=(
            draining(who.OURS_ON_SQLITE, 60_000, processes=2),
            draining(who.HUEY_ON_SQLITE, 6_000, processes=2),
        ),
    ),
    rates(
        name="drain-redis",
        title="Drain, peers on Redis (append-only file synced each second), 1 process",
        entries=(
            draining(who.OURS, 80_000, 30_000, label="Mainspring, PostgreSQL"),
            draining(who.OURS_ON_SQLITE, 60_000, label="Mainspring, SQLite"),
            draining(who.HUEY_ON_REDIS, 4_000, 2_000),
            *(draining(peer, items) for peer, items in who.ON_REDIS),
        ),
    ),
    rates(
        name="drain-redis-2",
        title="Drain, peers on Redis (append-only file synced each second), 2 processes",
        entries=(
            draining(who.OURS, 80_000, processes=2, label="Mainspring, PostgreSQL"),
            draining(who.HUEY_ON_REDIS, 6_000, processes=2),
            *(draining(peer, items, processes=2) for peer, items in who.ON_REDIS),
        ),
    ),
    rates(
        name="drain-kinds",
        title="Drain of other kinds of jobs, PostgreSQL, 1 process",
        entries=(
            draining(who.OURS, 60_000, 20_000, label="plain"),
            draining(variant(who.OURS, "unique"), 60_000, 20_000, label="with unique keys"),
            draining(variant(who.OURS, "lanes"), 60_000, 20_000, label="in five lanes"),
        ),
    ),
    rates(
        name="drain-sync",
        title="Sync handlers in threads, PostgreSQL, 1 process",
        entries=(
            draining(variant(who.OURS, "sync"), 50_000, 15_000, label="sync handlers"),
            draining(who.OURS, 60_000, 20_000, label="async handlers"),
            Entry(who.THREAD_HOPS.name, who.THREAD_HOPS, hopping, quick=True),
        ),
    ),
)

GROWTH = (
    rates(
        name="crowd-postgres",
        title="Drain beside rows that are not its own, PostgreSQL, 1 process",
        entries=(
            crowded("nothing else", "nothing", (0, 0), 60_000, 15_000),
            crowded("future rows", "future", (MILLION, 50_000), 60_000, 15_000),
            crowded("excluded rows ahead", "excluded", (MILLION, 50_000), 60_000, 15_000),
            crowded("more of the same waiting", "waiting", (MILLION, 0), 60_000, 0),
        ),
    ),
    rates(
        name="history-postgres",
        title="Drain beside a long history, PostgreSQL, 1 process",
        entries=(
            crowded("no history", "nothing", (0, 0), 60_000, 15_000),
            crowded("long history", "ended", (10 * MILLION, 200_000), 60_000, 15_000),
        ),
    ),
    Measure(
        "idle-jobs",
        "Jobs that are not due, PostgreSQL",
        "due_query_ms",
        "ms",
        (idling("1,000 jobs", 1_000, 1_000), idling("1,000,000 jobs", MILLION, 50_000)),
        more_is_better=False,
        rounds=2,
    ),
    Measure(
        "memory",
        "Memory of a worker, PostgreSQL",
        "growth_mb",
        "MB",
        (Entry("Mainspring", who.OURS, remembering, quick=True),),
        more_is_better=False,
        rounds=1,
    ),
)

ENQUEUES = (
    rates(
        name="enqueue-one",
        title="Enqueue one by one, PostgreSQL",
        entries=(
            enqueueing(who.OURS, "one", 4_000, 1_500),
            enqueueing(who.RAW, "one", 4_000, 1_500),
            enqueueing(who.PGQUEUER, "one", 4_000),
        ),
    ),
    rates(
        name="enqueue-callers",
        title="Enqueue by 20 callers at once, PostgreSQL",
        entries=(
            enqueueing(who.OURS, "callers", 20_000, 8_000),
            enqueueing(who.RAW, "callers", 20_000, 8_000),
            enqueueing(who.PGQUEUER, "callers", 10_000),
        ),
    ),
    rates(
        name="enqueue-bulk",
        title="Enqueue in bulk, PostgreSQL",
        entries=(
            enqueueing(who.OURS, "bulk", 100_000, 50_000),
            enqueueing(who.PGQUEUER, "bulk", 100_000, 50_000),
            enqueueing(who.RAW, "bulk", 200_000, 100_000),
        ),
    ),
    rates(
        name="enqueue-sqlite",
        title="Enqueue one by one, SQLite with synchronous=FULL",
        entries=(
            enqueueing(who.OURS_ON_SQLITE, "one", 4_000),
            enqueueing(who.RAW_ON_SQLITE, "one", 4_000),
            enqueueing(who.HUEY_ON_SQLITE, "one", 4_000),
        ),
    ),
)

DELAYS = (
    delays(
        name="latency-postgres",
        title="Idle latency from enqueue to start, PostgreSQL, two processes",
        figure="p50_ms",
        entries=(
            waking(who.OURS, 200, 60),
            waking(who.RAW_LISTENER, 200, 60),
            waking(who.PGQUEUER, 200),
            Entry("Huey, Redis", who.HUEY_ON_REDIS, waking(who.HUEY_ON_REDIS, 200).run),
        ),
    ),
    delays(
        name="latency-sqlite",
        title="Idle latency from enqueue to start, SQLite, one process",
        figure="p50_ms",
        entries=(Entry("Mainspring", who.OURS_ON_SQLITE, waking_itself, quick=True),),
    ),
    delays(
        name="burst-1000",
        title="1,000 jobs due at one instant: the last one started after",
        figure="started_ms",
        entries=(
            bursting(who.OURS, 1_000, quick=True),
            bursting(who.PGQUEUER, 1_000),
            bursting(who.APSCHEDULER_IN_MEMORY, 1_000),
        ),
    ),
    delays(
        name="burst-10000",
        title="10,000 jobs due at one instant: the last one started after",
        figure="started_ms",
        entries=(
            bursting(who.OURS, 10_000),
            bursting(who.PGQUEUER, 10_000),
            bursting(who.APSCHEDULER_IN_MEMORY, 10_000),
        ),
    ),
)

MEASURES: dict[str, Measure] = {measure.name: measure for measure in (*DRAINS, *ENQUEUES, *DELAYS, *GROWTH)}
