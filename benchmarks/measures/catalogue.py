"""Every measure, by name, with its rows."""

from __future__ import annotations

from functools import partial

from benchmarks.crew import Contestant
from benchmarks.measures.draining import drain
from benchmarks.measures.enqueueing import enqueue
from benchmarks.measures.plan import Entry, Figures, Measure, Plan
from benchmarks.measures.waking import latency, latency_in_one_process
from benchmarks.places import Place

OURS_PG, OURS_LITE = Contestant("Mainspring", "postgres"), Contestant("Mainspring", "sqlite")
RAW_MOVE = Contestant("raw loop", "postgres", module="raw_postgres", variant="move")
RAW_MERGED = Contestant("raw loop, merged", "postgres", module="raw_postgres", variant="merged")
RAW_LITE = Contestant("raw loop", "sqlite", module="raw_sqlite")
RAW_LISTEN = Contestant("raw loop", "postgres", module="raw_postgres", work="listen")
PGQUEUER = Contestant("PgQueuer", "postgres", peer="pgqueuer")
HUEY_LITE = Contestant("Huey", "sqlite", peer="huey")


def draining(contestant: Contestant, full: int, quick: int = 0, processes: int = 1, label: str = "") -> Entry:
    def run(plan: Plan, who: Contestant, place: Place) -> Figures:
        return drain(who, place, plan.size(full, quick or full), processes)

    return Entry(label or contestant.name, contestant, run, quick=bool(quick))


def enqueueing(contestant: Contestant, way: str, full: int, quick: int = 0) -> Entry:
    def run(plan: Plan, who: Contestant, place: Place) -> Figures:
        return enqueue(who, place, plan.size(full, quick or full), way)

    return Entry(contestant.name, contestant, run, quick=bool(quick))


def waking(contestant: Contestant, full: int, quick: int = 0) -> Entry:
    def run(plan: Plan, who: Contestant, place: Place) -> Figures:
        return latency(who, place, plan.size(full, quick or full))

    return Entry(contestant.name, contestant, run, quick=bool(quick))


def waking_itself(plan: Plan, who: Contestant, place: Place) -> Figures:
    return latency_in_one_process(who, place, plan.size(300, 100))


rates = partial(Measure, figure="rate", unit="jobs/s")

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        rates(
            name="drain-postgres",
            title="Drain, PostgreSQL, 1 process",
            entries=(
                draining(OURS_PG, 80_000, 30_000),
                draining(RAW_MOVE, 150_000, 60_000),
                draining(RAW_MERGED, 150_000, 60_000),
                draining(PGQUEUER, 40_000, 20_000),
            ),
        ),
        rates(
            name="drain-postgres-2",
            title="Drain, PostgreSQL, 2 processes",
            entries=(
                draining(OURS_PG, 80_000, 30_000, processes=2),
                draining(RAW_MOVE, 150_000, processes=2),
                draining(PGQUEUER, 40_000, 20_000, processes=2),
            ),
        ),
        rates(
            name="drain-sqlite",
            title="Drain, SQLite (synchronous=FULL), 1 process",
            entries=(
                draining(OURS_LITE, 60_000, 20_000),
                draining(RAW_LITE, 200_000, 100_000),
                draining(HUEY_LITE, 6_000, 2_000),
            ),
        ),
        rates(
            name="enqueue-one",
            title="Enqueue one by one, PostgreSQL",
            entries=(
                enqueueing(OURS_PG, "one", 5_000, 1_500),
                enqueueing(RAW_MOVE, "one", 5_000, 1_500),
                enqueueing(PGQUEUER, "one", 5_000),
            ),
        ),
        rates(
            name="enqueue-callers",
            title="Enqueue by 20 callers at once, PostgreSQL",
            entries=(
                enqueueing(OURS_PG, "callers", 20_000, 8_000),
                enqueueing(RAW_MOVE, "callers", 20_000, 8_000),
                enqueueing(PGQUEUER, "callers", 10_000),
            ),
        ),
        rates(
            name="enqueue-bulk",
            title="Enqueue in bulk, PostgreSQL",
            entries=(
                enqueueing(OURS_PG, "bulk", 100_000, 50_000),
                enqueueing(RAW_MOVE, "bulk", 200_000, 100_000),
                enqueueing(PGQUEUER, "bulk", 100_000, 50_000),
            ),
        ),
        Measure(
            "latency-postgres",
            "Idle latency from enqueue to start, PostgreSQL, two processes",
            "p50_ms",
            "ms",
            (waking(OURS_PG, 300, 100), waking(RAW_LISTEN, 300, 100), waking(PGQUEUER, 300)),
            more_is_better=False,
        ),
        Measure(
            "latency-sqlite",
            "Idle latency from enqueue to start, SQLite, one process",
            "p50_ms",
            "ms",
            (Entry("Mainspring", OURS_LITE, waking_itself, quick=True),),
            more_is_better=False,
        ),
    )
}
