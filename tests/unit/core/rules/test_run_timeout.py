"""`run_timeout`: how long a run may take as a whole, from its first start, whatever happens in between."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.rules import new_execution, transitions
from mainspring.model.execution import AttemptRecord, ExecutionRow, Outcome, State, encode_attempts, encode_policy
from mainspring.model.policies import FanOut, Retry, RunPolicy
from mainspring.model.time.instants import SECOND

pytestmark = pytest.mark.req("OPS-2")

MINUTE = 60 * SECOND
TRIED = encode_attempts([AttemptRecord(1, "w", 0, 1, "failed")])


def run(**fields: Any) -> ExecutionRow:
    """Started at 0, claimed again at 40 s, with a run_timeout of one minute and a second between its attempts."""
    rules = fields.pop("rules", RunPolicy(run_timeout=60.0, retry=Retry("1s", 1.0)))
    base = ExecutionRow(id="e", job="j", job_id="i", handler="h", policy=encode_policy(rules), state=State.RUNNING)
    known = {"owner": "w", "token": 1, "started": 0, "claimed": 40 * SECOND, "attempts_json": TRIED, **fields}
    return msgspec.structs.replace(base, **known)


def after(end: str, ended: float, execution: ExecutionRow | None = None, **fields: Any) -> tuple[State, str | None]:
    outcome = Outcome(end=end, started=40 * SECOND, ended=round(ended * SECOND), worker="w", **fields)  # type: ignore[arg-type]
    change = transitions.after_attempt(execution or run(), outcome)
    return change.to, change.reason


@pytest.mark.parametrize(
    ("rules", "attempted", "expected"),
    [
        (RunPolicy(), True, None),
        (RunPolicy(timeout=5.0), True, 5.0),
        (RunPolicy(run_timeout=60.0), True, 20.0),
        (RunPolicy(run_timeout=60.0), False, 60.0),  # the claims before it were given back: its time begins now
        (RunPolicy(run_timeout=60.0, timeout=5.0), True, 5.0),
        (RunPolicy(run_timeout=60.0, timeout=50.0), True, 20.0),
        (RunPolicy(run_timeout=30.0), True, 0.0),
    ],
)
def test_an_attempt_may_take_its_timeout_or_what_is_left(
    rules: RunPolicy, attempted: bool, expected: float | None
) -> None:
    execution = run(rules=rules, attempts_json=TRIED if attempted else "[]")
    assert execution.time_limit(40 * SECOND) == expected


def test_how_a_run_ends_whose_time_is_up() -> None:
    failed = (State.FAILED, "run_timeout")
    assert after("timeout", 60) == failed
    assert after("timeout", 59.99) == failed, "timers may ring a little early"
    assert after("failed", 61, error="ValueError: x") == failed
    assert after("failed", 59.5, error="ValueError: x") == failed, "no further attempt could begin in time"
    assert after("failed", 58, error="ValueError: x") == (State.PENDING, None)
    assert after("snoozed", 50, delay=3_600.0) == failed
    assert after("snoozed", 50, delay=1.0) == (State.PENDING, None)
    assert after("worker_lost", 90) == failed
    assert after("handed_back", 61) == failed
    assert after("completed", 70) == (State.COMPLETED, None), "what it did counts"
    assert after("timeout", 60, run(cancel_requested=1, cancel_reason="why")) == (State.CANCELLED, "why")
    assert after("failed", 90, run(rules=RunPolicy())) == (State.PENDING, None)


def test_one_that_is_claimed_too_late_fails_without_another_attempt() -> None:
    outcome = Outcome(end="timeout", started=70 * SECOND, ended=70 * SECOND, worker="w", begun=False)
    change = transitions.after_attempt(run(failures=1), outcome)
    assert (change.to, change.reason, change.failures, change.attempt) == (State.FAILED, "run_timeout", 1, None)
    assert change.error == "the run took longer than its run_timeout of 1m"
    unbegun = Outcome(end="handed_back", started=70 * SECOND, ended=70 * SECOND, worker="w", begun=False)
    assert transitions.after_attempt(run(), unbegun).to is State.PENDING


def test_the_error_names_the_last_one() -> None:
    outcome = Outcome(end="failed", started=40 * SECOND, ended=59 * SECOND + 1, worker="w", error="OSError: gone")
    change = transitions.after_attempt(run(), outcome)
    assert change.error == "the run took longer than its run_timeout of 1m; its last error was OSError: gone"
    assert change.attempt is not None
    assert change.attempt.error == "OSError: gone"


@given(st.sampled_from(list(State)), st.booleans(), st.integers(0, 3 * MINUTE))
def test_what_waits_ends_once_its_time_is_up(state: State, attempted: bool, now: int) -> None:
    execution = run(state=state, attempts_json=TRIED if attempted else "[]", claimed=None, owner=None)
    change = transitions.after_run_timeout(execution, now)
    waits = state in (State.PENDING, State.WAITING) and attempted
    assert (change is not None) == (waits and now >= MINUTE)
    if change is not None:
        assert (change.to, change.reason, change.expect) == (State.FAILED, "run_timeout", state)
    assert transitions.after_run_timeout(run(rules=RunPolicy(), state=state), now) is None


def test_the_time_of_tenants_is_that_of_their_parent() -> None:
    policy = encode_policy(RunPolicy(run_timeout=60.0, fan_out=FanOut()))
    child = new_execution.tenant_policy(policy, with_parent=True)
    alone = new_execution.tenant_policy(policy)
    assert [run(policy=each).rules.run_timeout for each in (child, alone)] == [None, 60.0]
