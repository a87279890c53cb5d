"""The benchmark's own arithmetic, its report, and that it never counts a run which did too little."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bars, charts, report, results
from benchmarks.__main__ import chosen
from benchmarks.crew import Contestant, Failed
from benchmarks.environments import PEERS, NotInstalled
from benchmarks.figures import median, number, percentile, ratio, spread
from benchmarks.measures import draining
from benchmarks.measures.catalogue import MEASURES
from benchmarks.measures.plan import Entry, Measure, Plan
from benchmarks.places import Place
from benchmarks.rounds import compared, measured, summary
from benchmarks.tally import Tally

OURS, PEER = Contestant("Mainspring", "none"), Contestant("Peer", "none", peer="huey")


def row(label: str, *rates: float, **more: Any) -> dict[str, Any]:
    return {"label": label, "rounds": [{"rate": rate, **more} for rate in rates]}


def content(name: str, *rows: dict[str, Any]) -> dict[str, Any]:
    machine = {"cores": 2, "python": "3.11", "system": "Linux", "postgres": "18.6", "sqlite": "3", "date": "2030-01-01"}
    return {"measure": name, "quick": False, "machine": machine, "seconds": 1.0, "rows": list(rows)}


# --- arithmetic -------------------------------------------------------------------------------------------------------


def test_median_spread_ratio_and_percentile() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert spread([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert (ratio(6.0, 3.0), ratio(None, 3.0), ratio(6.0, None), ratio(6.0, 0.0)) == (2.0, None, None, None)
    hundred = [float(n) for n in range(1, 101)]
    assert (percentile(hundred, 50), percentile(hundred, 99), percentile([7.0], 99)) == (50.0, 99.0, 7.0)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(18368.58, "18,400"), (999.6, "1,000"), (1.934, "1.93"), (0.0513, "0.0513"), (45.37, "45.4"), (0.0, "0.0")],
)
def test_numbers_are_shown_with_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_the_tally_adds_up_what_threads_of_processes_count(tmp_path: Path) -> None:
    first = Tally.create(tmp_path / "tally")
    second = Tally(tmp_path / "tally")
    assert (first.count, first.first, first.last) == (0, 0.0, 0.0)
    for tally in (first, second, second):
        tally.hit()
    assert first.count == second.count == 3
    assert 0 < first.first <= first.last
    first.close()
    second.close()


# --- rounds -----------------------------------------------------------------------------------------------------------


def entries_that(told: list[str]) -> tuple[Entry, ...]:
    def ours(plan: Plan, who: Contestant, place: Place) -> dict[str, Any]:
        told.append(who.name)
        return {"rate": 10.0 * len(told)}

    def missing(plan: Plan, who: Contestant, place: Place) -> dict[str, Any]:
        raise NotInstalled("no wheel")

    return (
        Entry("Mainspring", OURS, ours, quick=True),
        Entry("Peer", PEER, ours),
        Entry("Gone", PEER, missing),
    )


def test_rounds_are_interleaved_and_a_peer_that_is_missing_is_told_of() -> None:
    told: list[str] = []
    measure = Measure("m", "M", "rate", "jobs/s", entries_that(told))
    rows = measured(measure, measure.entries, Plan(rounds=3), lambda line: None)
    assert told == ["Mainspring", "Peer"] * 3
    assert [summary(found, "rate") for found in rows] == [(30.0, 10.0, 50.0), (40.0, 20.0, 60.0), None]
    assert rows[2]["reason"] == "no wheel"
    lines = compared(measure, rows)
    assert "Mainspring is 0.75 x" in lines[1]
    assert "not measured: no wheel" in lines[2]
    assert [entry.label for entry in measure.chosen(Plan(quick=True))] == ["Mainspring"]


def test_what_fails_of_our_own_is_a_failure_and_of_a_peer_a_reason() -> None:
    def broken(plan: Plan, who: Contestant, place: Place) -> dict[str, Any]:
        raise Failed("0 of 10 jobs ran")

    measure = Measure("m", "M", "rate", "jobs/s", (Entry("Mainspring", OURS, broken), Entry("Peer", PEER, broken)))
    ours, peer = measured(measure, measure.entries, Plan(rounds=2), lambda line: None)
    assert ours == {"label": "Mainspring", "rounds": [], "failure": "0 of 10 jobs ran"}
    assert peer == {"label": "Peer", "rounds": [], "reason": "0 of 10 jobs ran"}


@pytest.mark.parametrize(
    ("after", "count"),
    [({"left": 0, "done": 10}, 9), ({"left": 1, "done": 10}, 10), ({"left": 0, "done": 9}, 10), ({"left": 3}, 10)],
)
def test_a_drain_counts_only_when_all_ran_and_the_store_says_so(after: dict[str, int], count: int) -> None:
    with pytest.raises(Failed):
        draining.check_all_done(OURS, 0, after, 10, 0, count)


def test_a_drain_that_is_whole_counts() -> None:
    draining.check_all_done(OURS, 5, {"left": 0, "done": 15}, 10, 0, 10)


# --- results and report -----------------------------------------------------------------------------------------------


def test_parts_of_a_run_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "machine", lambda plan: content("x")["machine"])
    measure = MEASURES["drain-postgres"]
    results.save(measure, Plan(), [row("PgQueuer", 10.0), row("Mainspring", 20.0)], 1.0, tmp_path)
    results.save(measure, Plan(), [row("PgQueuer", 12.0), row("a row of long ago", 1.0)], 1.0, tmp_path)
    rows = results.load(tmp_path)["drain-postgres"]["rows"]
    assert [(found["label"], found["rounds"][0]["rate"]) for found in rows] == [
        ("Mainspring", 20.0),
        ("PgQueuer", 12.0),
    ]


def test_bars_compare_medians_and_say_what_was_not_measured() -> None:
    found = {
        "drain-postgres": content(
            "drain-postgres",
            row("Mainspring", 22.0, 23.0, 99.0),
            row("raw loop", 50.0),
            row("PgQueuer", 9.0),
            row("PgQueuer, batches of 500", 10.0),
        ),
        "latency-sqlite": content("latency-sqlite", {"label": "Mainspring", "rounds": [{"p50_ms": 2.5}]}),
    }
    judged = {(item.measure, item.bar): item for item in bars.judged(found)}
    drain = "drain, PostgreSQL, 1 process, history kept"
    assert judged[drain, "at least 2.3 x PgQueuer"].verdict == "yes"
    assert judged[drain, "at least 2.3 x PgQueuer"].figure == "23.0 against 10.0: 2.30 x"
    assert judged[drain, "at least 0.6 x the raw loop that moves to history"].verdict == "no"
    assert judged["idle latency, SQLite in one process", "p50 at most 2 ms"].verdict == "no"
    assert judged["drain, PostgreSQL, 2 processes", "at least 1.5 x PgQueuer with 2"].verdict == "not measured"


def test_every_bar_has_a_measure_that_gives_its_figure() -> None:
    """With a figure for every row of every measure, nothing is left unjudged."""
    names = ("rate", "p50_ms", "p99_ms", "started_ms", "inserted_ms", "due_query_ms", "cpu_percent", "jobs", "others")
    figures = dict.fromkeys((*names, "idle_mb", "growth_mb", "items"), 1.0)
    found = {
        name: content(name, *({"label": entry.label, "rounds": [figures]} for entry in measure.entries))
        for name, measure in MEASURES.items()
    }
    assert [item.measure for item in bars.judged(found) if item.met is None] == []


def test_the_page_shows_rows_ratios_and_reasons(tmp_path: Path) -> None:
    gone = {"label": "Huey", "rounds": [], "reason": "huey cannot be installed:\n no wheel"}
    found = {
        "drain-sqlite": content("drain-sqlite", row("Mainspring", 30.0, worker_us=20.0), row("raw loop", 90.0), gone)
    }
    drawn = report.draw(found, tmp_path)
    assert drawn == ["drain-sqlite"]
    picture = ElementTree.parse(tmp_path / "drain-sqlite.svg").getroot()
    assert picture.tag.endswith("svg")
    text = report.page(found, False, drawn)
    assert "![Drain, SQLite with synchronous=FULL, 1 process](images/drain-sqlite.svg)" in text
    assert "| Mainspring | 30.0 | 30.0 to 30.0 |  | 20.0 |" in text
    assert "| raw loop | 90.0 | 90.0 to 90.0 | 0.33 x |  |" in text
    assert "| Huey | not measured: huey cannot be installed: no wheel |" in text
    assert "Measured 2030-01-01 on 2 cores" in text


def test_a_picture_escapes_what_it_shows_and_scales_to_the_longest() -> None:
    drawn = charts.bars(
        "a < b", "jobs/s", [charts.Bar("Mainspring", 100.0, 90.0, 110.0), charts.Bar("x & y", 50.0, 50.0, 50.0)]
    )
    root = ElementTree.fromstring(drawn)
    widths = [float(item.get("width", "0")) for item in root.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.2)


# --- what is measured -------------------------------------------------------------------------------------------------


def test_a_name_in_full_chooses_one_measure_and_a_part_of_it_several() -> None:
    assert [measure.name for measure in chosen("drain-postgres", False)] == ["drain-postgres"]
    assert [measure.name for measure in chosen("enqueue", True)][:2] == ["enqueue-one", "enqueue-callers"]
    assert len(chosen("", False)) == len(MEASURES)
    assert chosen("nonsense", False) == []


def test_every_peer_has_pinned_versions_and_is_measured() -> None:
    measured_peers = {entry.contestant.peer for measure in MEASURES.values() for entry in measure.entries}
    for folder in (folder for folder in PEERS.iterdir() if (folder / "requirements.txt").exists()):
        for line in (folder / "requirements.txt").read_text().split():
            name, _, version = line.partition("==")
            assert name, line
            assert version, line
        if folder.name != "valkey":
            assert (folder / "bench.py").exists()
            assert folder.name in measured_peers


@contextmanager
def place_in(folder: Path) -> Iterator[Place]:
    yield Place(f"sqlite:///{folder / 'jobs.db'}", folder)


def test_the_smallest_drain_runs_through_the_harness(tmp_path: Path) -> None:
    """Real processes on a real file: filled, drained, counted, and found in the history."""
    with place_in(tmp_path) as place:
        figures = draining.drain(Contestant("Mainspring", "sqlite"), place, 50)
    assert figures["items"] == 50
    assert figures["rate"] > 0


def test_a_drain_of_nothing_fails(tmp_path: Path) -> None:
    with place_in(tmp_path) as place, pytest.raises(Failed, match="0 jobs"):
        draining.drain(Contestant("Mainspring", "sqlite"), place, 0)
