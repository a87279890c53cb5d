"""Tables and plots of what was measured, into docs/benchmarks.md and docs/images.

    python -m benchmarks.report [--quick] [--show]

Results of several runs are merged: each measure has its own date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import charts
from benchmarks.bars import Judged, Results, judged
from benchmarks.environments import PEERS, ROOT, version_of
from benchmarks.figures import number, ratio
from benchmarks.measures.catalogue import MEASURES
from benchmarks.measures.plan import Measure
from benchmarks.results import FOLDER, kind, load
from benchmarks.rounds import Row, summary

PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images"
TEXT = Path(__file__).with_name("page.md")
PLOTTED = ("drain-postgres", "drain-sqlite", "drain-redis", "enqueue-callers", "enqueue-bulk", "latency-postgres")
EXTRAS = {
    "worker_us": ("worker CPU, µs/job", number),
    "server_us": ("server CPU, µs/job", number),
    "p99_ms": ("p99, ms", number),
    "inserted_ms": ("last inserted, ms", number),
    "others": ("other rows", lambda value: f"{value:,.0f}"),
    "cpu_percent": ("idle CPU, %", number),
    "server_cpu_percent": ("server's idle CPU, %", number),
    "idle_mb": ("idle, MB", number),
    "warm_mb": ("after 10,000, MB", number),
    "after_mb": ("at the end, MB", number),
}


def page(results: Results, quick: bool, plots: Sequence[str] = ()) -> str:
    return TEXT.read_text().format(
        machine=machine(results, quick),
        bars=bar_table(judged(results)),
        measures="\n\n".join(
            section(MEASURES[name], results[name], name in plots) for name in MEASURES if name in results
        ),
        versions=versions(),
    )


def machine(results: Results, quick: bool) -> str:
    if not results:
        return "Nothing has been measured yet."
    machines = [content["machine"] for content in results.values()]
    one, dates = machines[-1], sorted({item["date"] for item in machines})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    servers = ", ".join(sorted({item["postgres"] for item in machines}))
    text = (
        f"Measured {when} on {one['cores']} cores, {one['system']}, Python {one['python']}, PostgreSQL {servers}, "
        f"SQLite {one['sqlite']}, Valkey {version_of('valkey')}."
    )
    return text + " These are figures of the **quick** run: one round, few jobs." if quick else text


def bar_table(bars: Sequence[Judged]) -> str:
    lines = [f"| {item.measure} | {item.bar} | {item.figure or '-'} | {item.verdict} |" for item in bars]
    met, counted = sum(item.met is True for item in bars), sum(item.met is not None for item in bars)
    head = ["| measure | target | figure | met |", "|---|---|---|---|"]
    return "\n".join([*head, *lines, "", f"{met} of {counted} measured targets are met."])


def section(measure: Measure, content: Mapping[str, Any], plotted: bool) -> str:
    rows: list[Row] = content["rows"]
    extras = [name for name in EXTRAS if any(name in figures for row in rows for figures in row["rounds"])]
    ours = summary(rows[0], measure.figure) if rows else None
    head = ["", f"median, {measure.unit}", "spread", "first row ÷ this row"]
    head += [EXTRAS[name][0] for name in extras]
    lines = [f"### {measure.title}", ""]
    if plotted:
        lines += [f"![{measure.title}](images/{measure.name}.svg)", ""]
    lines += [_line(head), "|" + "---|" * len(head)]
    lines += [_line(cells(row, measure, ours[0] if ours else None, extras)) for row in rows]
    return "\n".join(lines)


def cells(row: Row, measure: Measure, ours: float | None, extras: Sequence[str]) -> list[str]:
    found = summary(row, measure.figure)
    if found is None:
        reason = " ".join((row.get("reason") or row.get("failure") or "no rounds").split())
        return [row["label"], f"not measured: {reason[-160:]}", "", "", *([""] * len(extras))]
    middle, least, most = found
    times = ratio(ours, middle)
    more = [summary(row, name) for name in extras]
    others = [EXTRAS[name][1](value[0]) if value else "" for name, value in zip(extras, more, strict=True)]
    times_text = "" if times is None or ours == middle else f"{times:.2f} x"
    return [row["label"], number(middle), f"{number(least)} to {number(most)}", times_text, *others]


def _line(found: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "/") for text in found) + " |"


def versions() -> str:
    found = sorted(folder.name for folder in PEERS.iterdir() if (folder / "requirements.txt").exists())
    return ", ".join(f"{name} {version_of(name)}" for name in found if name != "valkey")


def draw(results: Results, folder: Path) -> list[str]:
    """A plot for each of the measures that have one and were measured; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name in PLOTTED:
        measure = MEASURES[name]
        found = [(row["label"], summary(row, measure.figure)) for row in results.get(name, {}).get("rows", ())]
        rows = [charts.Bar(label, *values) for label, values in found if values is not None]
        if rows:
            rows.sort(key=lambda row: row.value, reverse=measure.more_is_better)
            (folder / f"{name}.svg").write_text(charts.bars(measure.title, measure.unit, rows))
            drawn.append(name)
    return drawn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="of the quick run instead of the full one")
    parser.add_argument("--show", action="store_true", help="show what is met, and leave the page as it is")
    options = parser.parse_args()
    results = load(FOLDER / kind(options.quick))
    if not options.show:
        PAGE.write_text(page(results, options.quick, draw(results, IMAGES)))
    for item in judged(results):
        print(f"{item.verdict:<13} {item.measure}: {item.bar}  {item.figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
