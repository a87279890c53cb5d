"""Rounds: everybody once, then everybody again, so that a busy minute of the machine hits all alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.crew import Failed
from benchmarks.environments import NotInstalled
from benchmarks.figures import median, number, ratio, spread
from benchmarks.measures.plan import Entry, Measure, Plan

Row = dict[str, Any]


def measured(measure: Measure, entries: Sequence[Entry], plan: Plan, tell: Callable[[str], None] = print) -> list[Row]:
    """A row for every entry: its figures of each round, or why there are none."""
    rows: dict[str, Row] = {entry.label: {"label": entry.label, "rounds": []} for entry in entries}
    for turn in range(1, plan.rounds + 1):
        for entry in entries:
            row = rows[entry.label]
            if "reason" in row or "failure" in row:
                continue
            try:
                figures = entry.measured(plan)
            except NotInstalled as missing:
                row["reason"] = str(missing)
            except Failed as failure:
                # A peer that does not work here is told of in the report; what is ours must never fail.
                row["reason" if entry.contestant.peer else "failure"] = str(failure)
            else:
                row["rounds"].append(figures)
                tell(f"  {turn}/{plan.rounds} {entry.label:<28} {told(figures, measure)}")
                continue
            row["rounds"] = []
            tell(f"  {turn}/{plan.rounds} {entry.label:<28} NOT MEASURED: {row.get('reason') or row['failure']}")
    return list(rows.values())


def told(figures: Row, measure: Measure) -> str:
    rest = (f"{name}={number(value)}" for name, value in figures.items() if isinstance(value, int | float))
    return f"{number(figures[measure.figure]):>9} {measure.unit:<7} {' '.join(rest)}"


def summary(row: Row, figure: str) -> tuple[float, float, float] | None:
    """Median, least and most of one figure over the rounds; None when it was not measured."""
    values = [figures[figure] for figures in row["rounds"] if figures.get(figure) is not None]
    return (median(values), *spread(values)) if values else None


def compared(measure: Measure, rows: Sequence[Row]) -> list[str]:
    """One line for each row: median, spread, and the ratio of the first row to it."""
    ours = summary(rows[0], measure.figure) if rows else None
    lines = []
    for row in rows:
        found = summary(row, measure.figure)
        if found is None:
            lines.append(f"{row['label']:<28} not measured: {row.get('reason') or row.get('failure')}")
            continue
        middle, least, most = found
        times = ratio(ours[0] if ours else None, middle)
        beside = "" if row is rows[0] or times is None else f"  {rows[0]['label']} is {times:.2f} x"
        shown = f"{number(middle):>9} {measure.unit:<7} ({number(least)} to {number(most)})"
        lines.append(f"{row['label']:<28} {shown}{beside}")
    return lines
