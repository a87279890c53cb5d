"""Everybody who is measured, and how a row of a measure is made of one of them."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.crew import Contestant
from benchmarks.measures.crowding import drain_in_a_crowd
from benchmarks.measures.draining import drain
from benchmarks.measures.enqueueing import enqueue
from benchmarks.measures.plan import Entry, Figures, Plan
from benchmarks.measures.scheduling import burst, burst_of_peer, idle
from benchmarks.measures.waking import latency
from benchmarks.places import Place

OURS = Contestant("Mainspring", "postgres")
OURS_ON_SQLITE = Contestant("Mainspring", "sqlite")
RAW = Contestant("raw loop", "postgres", module="raw_postgres", variant="move")
RAW_MERGED = Contestant("raw loop, merged", "postgres", module="raw_postgres", variant="merged")
RAW_ON_SQLITE = Contestant("raw loop", "sqlite", module="raw_sqlite")
RAW_LISTENER = Contestant("raw loop", "postgres", module="raw_postgres", work="listen")
THREAD_HOPS = Contestant("raw thread hops", "none", module="raw_threads")

PGQUEUER = Contestant("PgQueuer", "postgres", peer="pgqueuer")
PGQUEUER_500 = Contestant("PgQueuer, batches of 500", "postgres", peer="pgqueuer", variant="500")
HUEY_ON_SQLITE = Contestant("Huey", "sqlite", peer="huey")
HUEY_ON_REDIS = Contestant("Huey", "redis", peer="huey")
APSCHEDULER_IN_MEMORY = Contestant("APScheduler 3, in memory", "none", peer="apscheduler", from_start=True)
APSCHEDULER_ON_SQLITE = Contestant("APScheduler 3", "sqlite", peer="apscheduler", from_start=True)

# How many jobs each drains in about two seconds.
ON_POSTGRES = (
    (Contestant("Chancy", "postgres", peer="chancy"), 8_000),
    (Contestant("Huey", "postgres", peer="huey"), 1_500),
    (Contestant("SAQ", "postgres", peer="saq"), 1_000),
    (Contestant("Procrastinate", "postgres", peer="procrastinate"), 1_000),
    (Contestant("DBOS", "postgres", peer="dbos"), 1_500),
    (Contestant("APScheduler 4", "postgres", peer="apscheduler4"), 500),
)
ON_REDIS = (
    (Contestant("taskiq", "redis", peer="taskiq"), 5_000),
    (Contestant("Dramatiq", "redis", peer="dramatiq"), 5_000),
    (Contestant("SAQ", "redis", peer="saq"), 4_000),
    (Contestant("arq", "redis", peer="arq"), 3_000),
    (Contestant("Celery", "redis", peer="celery"), 1_500),
    (Contestant("RQ", "redis", peer="rq"), 1_000),
)


def variant(contestant: Contestant, name: str) -> Contestant:
    return replace(contestant, variant=name)


def draining(contestant: Contestant, full: int, quick: int = 0, processes: int = 1, label: str = "") -> Entry:
    def run(plan: Plan, who: Contestant, place: Place) -> Figures:
        return drain(who, place, plan.size(full, quick or full), processes)

    return Entry(label or contestant.name, contestant, run, quick=bool(quick))


def crowded(label: str, kind: str, crowd: tuple[int, int], full: int, quick: int) -> Entry:
    """`crowd` is how many other rows there are in the full run and in the quick one."""

    def run(plan: Plan, who: Contestant, place: Place) -> Figures:
        others = crowd[1] if plan.quick else crowd[0]
        return drain_in_a_crowd(who, place, plan.size(full, quick or full), kind, others) | {"others": others}

    contestant = variant(OURS, "excluded") if kind == "excluded" else OURS
    return Entry(label, contestant, run, quick=bool(quick), one_place=True)


def enqueueing(contestant: Contestant, way: str, full: int, quick: int = 0) -> Entry:
    def run(plan: Plan, who: Contestant, place: Place) -> Figures:
        return enqueue(who, place, plan.size(full, quick or full), way)

    return Entry(contestant.name, contestant, run, quick=bool(quick))


def waking(contestant: Contestant, full: int, quick: int = 0) -> Entry:
    def run(plan: Plan, who: Contestant, place: Place) -> Figures:
        return latency(who, place, plan.size(full, quick or full))

    return Entry(contestant.name, contestant, run, quick=bool(quick))


def bursting(contestant: Contestant, jobs: int, quick: bool = False) -> Entry:
    def run(plan: Plan, who: Contestant, place: Place) -> Figures:
        return (burst if who.peer is None else burst_of_peer)(who, place, plan.items or jobs)

    return Entry(contestant.name, contestant, run, quick=quick)


def idling(label: str, full: int, quick: int) -> Entry:
    def run(plan: Plan, who: Contestant, place: Place) -> Figures:
        return idle(place, plan.size(full, quick), 5.0 if plan.quick else 60.0)

    return Entry(label, OURS, run, quick=True, one_place=True)
