"""What users hold of an execution: values and datetimes, and nothing of how it is stored."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest

from mainspring import Attempt, Execution, State, Window
from mainspring.core.views.execution import row_of
from mainspring.model.execution import AttemptRecord, ExecutionRow, encode_attempts
from mainspring.model.time.instants import to_micros

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROW = ExecutionRow(
    id="0199",
    job="crawl",
    job_id="j",
    handler="crawl",
    state=State.COMPLETED,
    params='{"url": "/"}',
    window_begin=to_micros(NOON - timedelta(hours=1)),
    window_end=to_micros(NOON),
    created=to_micros(NOON),
    due=to_micros(NOON),
    started=to_micros(NOON),
    finished=to_micros(NOON + timedelta(seconds=2)),
    token=3,
    owner="w1",
    attempts_json=encode_attempts([AttemptRecord(1, "w1", to_micros(NOON), to_micros(NOON) + 1_500, "completed")]),
    result_json="[1, 2]",
)


def test_values_and_datetimes() -> None:
    execution = Execution[list[int]](ROW)
    assert (execution.params, execution.result) == ({"url": "/"}, [1, 2])
    assert execution.window == Window(NOON - timedelta(hours=1), NOON)
    assert (execution.created_at, execution.started_at, execution.duration_ms) == (NOON, NOON, 2_000.0)
    [attempt] = execution.attempts
    assert isinstance(attempt, Attempt)
    assert (attempt.started_at, attempt.duration_ms, attempt.end) == (NOON, 1.5, "completed")


def test_nothing_of_how_it_is_stored_is_shown() -> None:
    shown = [name for name in dir(Execution(ROW)) if not name.startswith("_")]
    assert not {"token", "owner", "lease", "policy", "rules", "created", "due", "tick"} & set(shown)
    assert not [name for name in shown if name.endswith("_json")]
    undocumented = [name for name in shown if not getattr(Execution, name).__doc__]
    assert undocumented == []


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Execution(ROW).job = "another"  # type: ignore[misc]


def test_two_readings_of_the_same_are_equal() -> None:
    one, two = Execution(ROW), pickle.loads(pickle.dumps(Execution(ROW)))
    assert one == two
    assert len({one, two}) == 1
    assert one != row_of(one)
    assert repr(one) == "<Execution 0199 of job 'crawl': completed>"
