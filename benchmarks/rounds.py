"""Rounds: everybody once, then everybody again, so that a busy minute of the machine hits all alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from benchmarks.crew import Failed
from benchmarks.environments import NotInstalled
from benchmarks.figures import median, number, ratio, spread
from benchmarks.measures.plan import Entry, Measure, Plan
from benchmarks.places import Place

Row = dict[str, Any]


def measured(measure: Measure, entries: Sequence[Entry], plan: Plan, tell: Callable[[str], None] = print) -> list[Row]:
    """A row for every entry: its figures of each round, or why there are none."""
    rows: dict[str, Row] = {entry.label: {"label": entry.label, "rounds": []} for entry in entries}
    many = min(plan.rounds, measure.rounds or plan.rounds)
    with ExitStack() as open_places:
        places: dict[str, Place] = {}
        for turn in range(1, many + 1):
            for entry in entries:
                row = rows[entry.label]
                if "reason" in row or "failure" in row:
                    continue
                try:
                    if entry.one_place:
                        if entry.label not in places:
                            places[entry.label] = open_places.enter_context(entry.place(plan))
                        figures = entry.run(plan, entry.contestant, places[entry.label])
                    else:
                        with entry.place(plan) as place:
                            figures = entry.run(plan, entry.contestant, place)
                except NotInstalled as missing:
                    row.update(reason=str(missing), rounds=[])
                except Exception as failure:
                    # A peer that does not work here is told of in the report; what is ours must never fail. Either
                    # way the others are measured: the whole run takes half an hour.
                    text = str(failure) if isinstance(failure, Failed) else repr(failure)
                    row.update({"reason" if entry.contestant.peer else "failure": text, "rounds": []})
                else:
                    row["rounds"].append(figures)
                tell(f"  {turn}/{many} {entry.label:<28} {told(row, measure)}")
    return list(rows.values())


def told(row: Row, measure: Measure) -> str:
    if not row["rounds"]:
        return f"NOT MEASURED: {row.get('reason') or row['failure']}"
    figures = row["rounds"][-1]
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
