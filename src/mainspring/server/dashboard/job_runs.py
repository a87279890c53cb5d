"""The last runs of something as a strip of cells: of jobs, and of endpoints of webhooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from ...core.rules.usual_duration import UsualDuration, usual_duration
from ...core.views.execution import RunView
from ...model.execution import State
from . import format
from .drawing import charts
from .visit import Visit

CELLS = 30


def job_strip(visit: Visit, runs: Sequence[RunView], label: str | None = None) -> Markup:
    """The runs come newest first."""
    cells = ((run.id, run.state, _title(visit, run)) for run in runs[:CELLS])
    return strip(visit, cells, label or outcome_words(runs[:CELLS]), CELLS)


def strip(visit: Visit, runs: Iterable[tuple[str, State, str]], label: str, cells: int) -> Markup:
    """Ids, states and titles of executions, newest first; the newest is on the right, and each is a link."""
    drawn = [charts.Run(state.value, title, visit.url("executions", id)) for id, state, title in runs]
    return charts.strip(drawn[::-1], label, cells=cells)


def _title(visit: Visit, run: RunView) -> str:
    took = f", {format.milliseconds(run.duration_ms)}" if run.duration_ms is not None else ""
    return f"{run.state.value}{took}, {format.exact(run.started_at or run.start_at, visit.zone)}"


def outcome_words(runs: Sequence[RunView]) -> str:
    """`Last 30 runs: 28 completed, 2 failed`."""
    if not runs:
        return "No runs yet"
    counts = Counter(run.state.value for run in runs).most_common()
    return f"Last {format.plural(len(runs), 'run')}: {', '.join(f'{count} {state}' for state, count in counts)}"


def usual_of(runs: Sequence[RunView]) -> UsualDuration | None:
    """How long these runs usually take, by those that completed."""
    return usual_duration(run.duration_ms for run in runs if run.state is State.COMPLETED)
