"""What the figures are judged by: each bar with the figure it is about, and whether it is met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import number, ratio
from benchmarks.rounds import summary

Results = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Judged:
    measure: str
    bar: str
    figure: str
    met: bool | None  # None: not measured

    @property
    def verdict(self) -> str:
        return "not measured" if self.met is None else "yes" if self.met else "no"


class Figures:
    """Medians, by measure and row."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def value(self, measure: str, label: str, figure: str = "rate") -> float | None:
        for row in self._results.get(measure, {}).get("rows", ()):
            if row["label"] == label:
                found = summary(row, figure)
                return None if found is None else found[0]
        return None

    def best(self, measure: str, label: str) -> float | None:
        """The fastest of the rows of one contestant, whatever its settings."""
        found = [self.value(measure, name) for name in self.labels(measure) if name.startswith(label)]
        return max((value for value in found if value is not None), default=None)

    def labels(self, measure: str) -> list[str]:
        return [row["label"] for row in self._results.get(measure, {}).get("rows", ())]


def judged(results: Results) -> list[Judged]:
    figures = Figures(results)
    return [*_drains(figures), *_enqueues(figures), *_delays(figures), *_growth(figures), *_sync(figures)]


def at_least(bar: float, measure: str, beside: str, ours: float | None, theirs: float | None) -> Judged:
    times = ratio(ours, theirs)
    figure = "" if times is None else f"{number(ours or 0)} against {number(theirs or 0)}: {times:.2f} x"
    return Judged(measure, f"at least {bar:g} x {beside}", figure, None if times is None else times >= bar)


def at_most(limit: float, unit: str, measure: str, what: str, value: float | None) -> Judged:
    figure = "" if value is None else f"{number(value)} {unit}"
    return Judged(measure, f"{what} at most {limit:g} {unit}", figure, None if value is None else value <= limit)


def _drains(of: Figures) -> Iterator[Judged]:
    ours = of.value("drain-postgres", "Mainspring")
    name = "drain, PostgreSQL, 1 process, history kept"
    yield at_least(2.3, name, "PgQueuer", ours, of.best("drain-postgres", "PgQueuer"))
    yield at_least(0.6, name, "the raw loop that moves to history", ours, of.value("drain-postgres", "raw loop"))
    two = "drain-postgres-2"
    yield at_least(
        1.5, "drain, PostgreSQL, 2 processes", "PgQueuer with 2", of.value(two, "Mainspring"), of.best(two, "PgQueuer")
    )
    ours, name = of.value("drain-sqlite", "Mainspring"), "drain, SQLite (synchronous=FULL), history kept"
    yield at_least(10, name, "Huey on SQLite", ours, of.value("drain-sqlite", "Huey"))
    yield at_least(0.25, name, "the raw loop", ours, of.value("drain-sqlite", "raw loop"))
    for measure, processes in (("drain-redis", "1 process"), ("drain-redis-2", "2 processes")):
        peers = {label: of.value(measure, label) for label in of.labels(measure) if "Mainspring" not in label}
        fastest = max(peers, key=lambda label: peers[label] or 0.0, default="")
        ours = of.value(measure, "Mainspring, PostgreSQL")
        beside = f"the fastest of {sum(1 for value in peers.values() if value)}, {fastest}" if fastest else "each"
        yield at_least(4, f"drain, every Redis-backed peer, {processes}", beside, ours, peers.get(fastest))


def _enqueues(of: Figures) -> Iterator[Judged]:
    for bar, measure, name, beside in (
        (0.8, "enqueue-one", "enqueue one by one, PostgreSQL", "raw loop"),
        (1.5, "enqueue-callers", "enqueue by 20 callers, PostgreSQL", "raw loop"),
        (2.0, "enqueue-bulk", "enqueue bulk, PostgreSQL", "PgQueuer"),
    ):
        shown = "raw inserts over 20 connections" if measure == "enqueue-callers" else beside
        yield at_least(bar, name, shown, of.value(measure, "Mainspring"), of.value(measure, beside))


def _delays(of: Figures) -> Iterator[Judged]:
    name, measure = "idle latency enqueue to start, PostgreSQL", "latency-postgres"
    half, most = (of.value(measure, "Mainspring", figure) for figure in ("p50_ms", "p99_ms"))
    raw = of.value(measure, "raw loop", "p50_ms")
    times, own = ratio(half, raw), ratio(most, half)
    figure = "" if times is None else f"{number(half or 0)} ms against {number(raw or 0)} ms: {times:.2f} x"
    yield Judged(name, "p50 at most 1.3 x the raw wake-up", figure, None if times is None else times <= 1.3)
    figure = "" if own is None else f"{number(most or 0)} ms against {number(half or 0)} ms: {own:.2f} x"
    yield Judged(name, "p99 at most 3 x its p50", figure, None if own is None else own <= 3)
    lite = of.value("latency-sqlite", "Mainspring", "p50_ms")
    yield at_most(2, "ms", "idle latency, SQLite in one process", "p50", lite)
    name = "1,000 due at one instant, PostgreSQL"
    yield at_most(150, "ms", name, "last one started", of.value("burst-1000", "Mainspring", "started_ms"))
    name = "10,000 due at one instant, PostgreSQL"
    yield at_most(1000, "ms", name, "last one inserted", of.value("burst-10000", "Mainspring", "inserted_ms"))
    yield at_most(2000, "ms", name, "last one started", of.value("burst-10000", "Mainspring", "started_ms"))


def _growth(of: Figures) -> Iterator[Judged]:
    history = "history-postgres"
    alone, beside = of.value(history, "no history"), of.value(history, "long history")
    yield within(0.9, f"drain beside {_many(of, history, 'long history')} finished", beside, alone)
    crowd = "crowd-postgres"
    alone = of.value(crowd, "nothing else")
    for label, kind in (
        ("more of the same waiting", "waiting"),
        ("future rows", "future"),
        ("excluded rows ahead", "excluded"),
    ):
        yield within(0.9, f"drain beside {_many(of, crowd, label)} {kind}", of.value(crowd, label), alone)
    few, many = "1,000 jobs", "1,000,000 jobs"
    name = f"1,000 against {_many(of, 'idle-jobs', many, 'jobs')} idle jobs"
    for figure, what, unit in (("due_query_ms", "due query", "ms"), ("cpu_percent", "idle CPU", "%")):
        less, more = of.value("idle-jobs", few, figure), of.value("idle-jobs", many, figure)
        times = ratio(more, less)
        shown = "" if times is None else f"{number(more or 0)} {unit} against {number(less or 0)} {unit}: {times:.2f} x"
        yield Judged(name, f"{what} at most 1.1 x", shown, None if times is None else times <= 1.1)
    yield at_most(1, "%", name, "idle CPU", of.value("idle-jobs", many, "cpu_percent"))
    ran = of.value("memory", "Mainspring", "items")
    name = f"worker memory after {number(ran) if ran else '1,000,000'} executions"
    yield at_most(60, "MB", "worker memory, idle", "resident", of.value("memory", "Mainspring", "idle_mb"))
    yield at_most(5, "MB", name, "growth", of.value("memory", "Mainspring", "growth_mb"))


def within(bar: float, measure: str, beside: float | None, alone: float | None) -> Judged:
    times = ratio(beside, alone)
    figure = "" if times is None else f"{number(beside or 0)} against {number(alone or 0)}: {times:.2f} x"
    return Judged(measure, f"at least {bar:g} x the rate without", figure, None if times is None else times >= bar)


def _many(of: Figures, measure: str, label: str, figure: str = "others") -> str:
    found = of.value(measure, label, figure)
    return f"{found:,.0f}" if found else "many"


def _sync(of: Figures) -> Iterator[Judged]:
    own, plain, hops = (
        of.value("drain-sync", label) for label in ("sync handlers", "async handlers", "raw thread hops")
    )
    name, bar = "sync handlers in threads, no-op", "at least the smaller of 0.5 x thread hops and 0.8 x async"
    if own is None or plain is None or hops is None:
        yield Judged(name, bar, "", None)
        return
    least = min(0.5 * hops, 0.8 * plain)
    figure = f"{number(own)} against {number(least)}: {own / least:.2f} x"
    yield Judged(name, bar, figure, own >= least)
