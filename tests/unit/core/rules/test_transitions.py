"""Every transition of an execution is legal, whatever sequence of outcomes and commands it meets."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.rules import transitions
from mainspring.model.errors import CommandRefused, InvalidValue
from mainspring.model.execution import (
    FINAL,
    LIVE,
    ExecutionRow,
    Outcome,
    State,
    encode_attempts,
    encode_policy,
    next_token,
)
from mainspring.model.policies import Retry, RunPolicy
from mainspring.model.store.messages import CancelRequest, Change
from mainspring.model.time.instants import SECOND

LEGAL = {
    State.PENDING: {State.RUNNING, State.CANCELLED},
    State.RUNNING: {State.PENDING, State.WAITING, State.COMPLETED, State.FAILED, State.CANCELLED, State.SKIPPED},
    State.WAITING: {State.COMPLETED, State.PARTIAL, State.FAILED, State.CANCELLED, State.SKIPPED},
}

ENDS = ["completed", "failed", "timeout", "snoozed", "handed_back", "worker_lost", "cancelled", "fanned_out", "skipped"]


def execution(**fields: object) -> ExecutionRow:
    policy = fields.pop("policy", RunPolicy(max_attempts=3))
    base = ExecutionRow(id="e", job="j", job_id="i", handler="h", policy=encode_policy(policy))
    return msgspec.structs.replace(base, **fields)


def running(**fields: object) -> ExecutionRow:
    return execution(state=State.RUNNING, owner="w", token=next_token(0, 1), claimed=5, **fields)


def outcome(end: str, **fields: object) -> Outcome:
    return Outcome(end=end, started=10, ended=20, worker="w", **fields)


def claimed(before: ExecutionRow) -> ExecutionRow:
    return msgspec.structs.replace(before, state=State.RUNNING, owner="w", token=next_token(before.token, 1), claimed=5)


def applied(before: ExecutionRow, change: Change) -> ExecutionRow:
    """What any store makes of a change."""
    attempts = before.attempts + ([change.attempt] if change.attempt else [])
    return msgspec.structs.replace(
        before,
        state=change.to,
        failures=change.failures,
        crashes=change.crashes,
        alone=change.alone,
        reason=change.reason,
        owner=None,
        attempts_json=encode_attempts(attempts),
    )


class Life:
    """An execution driven at random through decisions and commands, with its model kept beside it."""

    def __init__(self, max_attempts: int) -> None:
        self.execution = execution(policy=RunPolicy(max_attempts=max_attempts))
        self.lost = 0
        self.failed = 0

    def step(self, action: str) -> None:
        before = self.execution
        if before.state is State.PENDING and action != "cancel":
            after = claimed(before)
        elif action == "cancel":
            after = self.cancelled(before)
        elif before.state is State.WAITING:
            after = self.children_ended(before, action)
        else:
            after = self.attempted(before, action)
        if after.state is not before.state:
            assert after.state in LEGAL[before.state]
        self.execution = after

    def cancelled(self, before: ExecutionRow) -> ExecutionRow:
        decision = transitions.cancel(before, 30, "asked")
        if isinstance(decision, CancelRequest):
            assert before.state is State.RUNNING
            return msgspec.structs.replace(before, cancel_requested=30, cancel_reason="asked")
        return applied(before, decision)

    def children_ended(self, before: ExecutionRow, action: str) -> ExecutionRow:
        counts = {State.COMPLETED: ENDS.index(action), State.FAILED: len(action) % 3}
        change = transitions.after_children(before, {state: n for state, n in counts.items() if n}, 40)
        assert change is not None
        return applied(before, change)

    def attempted(self, before: ExecutionRow, action: str) -> ExecutionRow:
        change = transitions.after_attempt(before, outcome(action), 0.5)
        assert (change.expect, change.token, change.owner) == (State.RUNNING, before.token, before.owner)
        self.failed += action in ("failed", "timeout", "worker_lost") and before.cancel_requested is None
        self.lost += action == "worker_lost" and before.cancel_requested is None
        return applied(before, change)


@pytest.mark.req("EXE-1", "EXE-2", "EXE-3", "EXE-4")
@given(st.integers(1, 5), st.lists(st.sampled_from([*ENDS, "cancel"]), max_size=40))
def test_no_sequence_leaves_the_legal_state_machine(max_attempts: int, actions: list[str]) -> None:
    life = Life(max_attempts)
    for action in actions:
        if life.execution.state in FINAL:
            with pytest.raises(CommandRefused):
                transitions.cancel(life.execution, 50, "late")
            break
        life.step(action)
        assert life.execution.failures <= max_attempts
        if life.execution.state in LIVE and life.execution.cancel_requested is None:
            assert (life.execution.failures, life.execution.crashes) == (life.failed, life.lost)
            assert life.execution.failures < max_attempts or life.execution.state is State.RUNNING
        assert [attempt.number for attempt in life.execution.attempts] == list(
            range(1, len(life.execution.attempts) + 1)
        )


@pytest.mark.req("EXE-3")
def test_a_normal_return_is_done() -> None:
    change = transitions.after_attempt(running(failures=2), outcome("completed", result_json="1"))
    assert (change.to, change.failures, change.result_json, change.error) == (State.COMPLETED, 2, "1", None)


@pytest.mark.req("EXE-3")
def test_what_cannot_be_retried_fails_at_once() -> None:
    change = transitions.after_attempt(running(), outcome("failed", retryable=False, error="no"))
    assert (change.to, change.failures, change.error) == (State.FAILED, 1, "no")


@pytest.mark.req("EXE-3", "EXE-4")
@pytest.mark.parametrize("end", ["snoozed", "handed_back"])
def test_a_snooze_or_a_hand_back_counts_no_failure(end: str) -> None:
    change = transitions.after_attempt(running(failures=2), outcome(end, delay=7.0 if end == "snoozed" else 0.0))
    assert (change.to, change.failures, change.crashes) == (State.PENDING, 2, 0)
    assert change.delay == (7.0 if end == "snoozed" else 0.0)


@pytest.mark.req("EXE-4")
def test_the_budget_counts_all_tries() -> None:
    policy = RunPolicy(max_attempts=3, retry=Retry("patient"))
    delays = []
    current = running(policy=policy)
    for _ in range(3):
        change = transitions.after_attempt(current, outcome("failed"))
        delays.append((change.to, change.delay))
        current = claimed(applied(current, change))
    assert delays == [(State.PENDING, 60.0), (State.PENDING, 120.0), (State.FAILED, 0.0)]


@pytest.mark.req("EXE-4")
@pytest.mark.parametrize(
    ("retry", "delays"),
    [
        (Retry("queue"), [2, 4, 8, 16, 32]),
        (Retry("tenant"), [5, 10, 20, 40, 60, 60]),
        (Retry("patient"), [60, 120, 240, 480, 960, 1920, 3600, 3600]),
        (Retry(initial="1s", multiplier=3, max="1m"), [1, 3, 9, 27, 60]),
        (Retry(delays=["5s", "5m", "2h"]), [5, 300, 7200, 7200]),
    ],
)
def test_backoff(retry: Retry, delays: list[float]) -> None:
    assert [retry.delay(n) for n in range(1, len(delays) + 1)] == delays


@pytest.mark.req("EXE-4")
def test_named_delays_are_checked_and_survive_json() -> None:
    retry = Retry(delays=[0, "5s", "1h"], jitter=0.1)
    assert msgspec.json.decode(msgspec.json.encode(retry), type=Retry) == retry
    assert retry.delay(2, roll=0.0) == pytest.approx(4.5)
    for wrong, field in (({"delays": ["soon"]}, "retry.delays"), ({"delays": "5s"}, "retry.delays")):
        with pytest.raises(InvalidValue, match=field):
            Retry(**wrong)
    with pytest.raises(InvalidValue, match="together with delays"):
        Retry(max="1m", delays=["5s"])


@pytest.mark.req("EXE-4", "WHK-1")
def test_a_failure_may_ask_for_a_longer_pause_than_its_job_has() -> None:
    asked = [transitions.after_attempt(running(), outcome("failed", delay=each)).delay for each in (0.0, 1.0, 90.0)]
    assert asked == [2.0, 2.0, 90.0]


@pytest.mark.req("EXE-4")
@given(st.floats(0, 1), st.floats(0, 1, exclude_max=True), st.integers(1, 2000))
def test_jitter_stays_within_its_share(jitter: float, roll: float, failures: int) -> None:
    retry = Retry(initial=10, multiplier=2, max=100, jitter=jitter)
    plain = Retry(initial=10, multiplier=2, max=100).delay(failures)
    assert plain * (1 - jitter) - 1e-9 <= retry.delay(failures, roll) <= plain * (1 + jitter) + 1e-9


@pytest.mark.req("EXE-12")
def test_a_payload_that_kills_its_workers_is_tried_alone_and_then_quarantined() -> None:
    current = running(policy=RunPolicy(max_attempts=10))
    seen = []
    for _ in range(3):
        change = transitions.after_attempt(current, transitions.lost(current, 99))
        assert change.rescue
        seen.append((change.to, change.alone, change.reason))
        current = claimed(applied(current, change))
    assert seen == [(State.PENDING, False, None), (State.PENDING, True, None), (State.FAILED, False, "crash_loop")]


@pytest.mark.req("EXE-12")
def test_a_neighbour_that_died_with_it_is_not_condemned() -> None:
    neighbour = running(policy=RunPolicy(max_attempts=10), crashes=2, failures=2, alone=True)
    assert transitions.after_attempt(neighbour, outcome("completed")).to is State.COMPLETED


@pytest.mark.req("EXE-4")
@pytest.mark.req("EXE-5", "EXE-9")
def test_the_reason_of_a_failure_is_kept_with_its_attempt_also_if_it_is_retried() -> None:
    retried = transitions.after_attempt(running(), outcome("failed", reason="out_of_memory"), 0.5)
    assert retried.attempt is not None
    assert (retried.to, retried.attempt.reason) == (State.PENDING, "out_of_memory")
    usual = transitions.after_attempt(running(), outcome("failed", reason="error"), 0.5)
    assert usual.attempt is not None
    assert usual.attempt.reason is None, "the error says it all"


def test_a_lost_worker_counts_as_a_failure() -> None:
    current = running(policy=RunPolicy(max_attempts=1))
    change = transitions.after_attempt(current, transitions.lost(current, 99))
    assert (change.to, change.reason, change.failures) == (State.FAILED, "worker_lost", 1)


@pytest.mark.parametrize("end", ["failed", "timeout", "snoozed", "handed_back", "worker_lost"])
def test_what_was_asked_to_stop_is_not_tried_again(end: str) -> None:
    asked = running(cancel_requested=1, cancel_reason="by ada")
    change = transitions.after_attempt(asked, outcome(end))
    assert (change.to, change.reason) == (State.CANCELLED, "by ada")


@pytest.mark.req("TEN-4")
@pytest.mark.parametrize(
    ("counts", "state"),
    [
        ({State.COMPLETED: 3}, State.COMPLETED),
        ({}, State.COMPLETED),
        ({State.COMPLETED: 1, State.FAILED: 2}, State.PARTIAL),
        ({State.FAILED: 1}, State.FAILED),
        ({State.COMPLETED: 1, State.SKIPPED: 2}, State.COMPLETED),
        ({State.FAILED: 1, State.SKIPPED: 2}, State.FAILED),
        ({State.SKIPPED: 2}, State.SKIPPED),
        ({State.COMPLETED: 5, State.PENDING: 1}, None),
        ({State.COMPLETED: 5, State.RUNNING: 1}, None),
    ],
)
def test_a_parent_ends_with_its_last_child(counts: dict[State, int], state: State | None) -> None:
    parent = execution(state=State.WAITING, token=next_token(0, 1))
    change = transitions.after_children(parent, counts, 9)
    assert (change.to if change else None) is state


@pytest.mark.req("EXE-2")
@pytest.mark.parametrize("state", sorted(FINAL))
def test_final_is_final(state: State) -> None:
    with pytest.raises(CommandRefused, match=f"it is {state}; cancel is possible when pending, running or waiting"):
        transitions.cancel(execution(state=state), 1, "x")


@pytest.mark.req("EXE-14")
@pytest.mark.parametrize(("others", "patience"), [(True, 600), (False, 10)])
def test_a_payload_that_cannot_be_read_is_handed_back_for_a_limited_time(others: bool, patience: int) -> None:
    row, now, delays = running(), 0, list[float]()
    while True:
        failed = Outcome(end="failed", started=now, ended=now, worker="w", error="misfit", reason="payload_mismatch")
        change = transitions.after_attempt(row, transitions.after_mismatch(row, failed, others))
        if change.failures:
            break
        assert (change.to, change.reason) == (State.PENDING, "payload_mismatch")
        row = claimed(applied(row, change))
        now += round(change.delay * SECOND)
        delays.append(change.delay)
    assert delays[:4] == [0.5, 1, 2, 4]
    assert max(delays) <= 30
    assert now == patience * SECOND
    assert change.delay > 0, "it is retried, as any failure is"
    row = claimed(applied(row, change))
    assert transitions.after_mismatch(row, failed, others) is failed, "the limit counts from the first time"


@pytest.mark.req("EXE-15")
def test_a_completion_past_its_timeout_or_despite_a_cancel_says_so_and_is_kept() -> None:
    policy = RunPolicy(keep_success=False)
    for overran, reason in (("timeout", "past_timeout"), ("cancel", "despite_cancel")):
        change = transitions.after_attempt(running(policy=policy), outcome("completed", overran=overran))
        assert (change.to, change.reason, change.keep) == (State.COMPLETED, reason, True)
        assert change.attempt is not None
        assert change.attempt.overran == overran


def test_success_is_deleted_only_where_the_job_says_so() -> None:
    policy = RunPolicy(keep_success=False)
    assert transitions.after_attempt(running(policy=policy), outcome("completed")).keep is False
    assert transitions.after_attempt(running(policy=policy), outcome("failed", retryable=False)).keep is True
    assert transitions.after_attempt(running(policy=policy, parent_id="p"), outcome("completed")).keep is True


def test_an_ending_with_follow_ups_is_marked() -> None:
    assert transitions.after_attempt(running(parent_id="p"), outcome("completed")).todo
    assert transitions.after_attempt(running(policy=RunPolicy(follow_up=True)), outcome("completed")).todo
    assert not transitions.after_attempt(running(parent_id="p"), outcome("snoozed")).todo
    assert not transitions.after_attempt(running(), outcome("completed")).todo


@pytest.mark.req("EXE-4")
def test_the_number_of_the_last_try_is_not_counted_twice() -> None:
    assert execution(failures=2).attempt == 3
    assert execution(state=State.COMPLETED, failures=1).attempt == 2
    assert execution(state=State.FAILED, failures=3).attempt == 3


def test_a_claim_given_back_before_it_began_is_no_try_and_no_start() -> None:
    unbegun = Outcome(end="handed_back", started=5, ended=5, worker="w", begun=False)
    running = ExecutionRow(id="e", job="j", job_id="i", handler="h", state=State.RUNNING, token=next_token(0, 1))
    change = transitions.after_attempt(running, unbegun)
    assert (change.to, change.attempt, change.started) == (State.PENDING, None, None)
    again = msgspec.structs.replace(running, token=next_token(running.token, 1), started=1)
    done = transitions.after_attempt(again, Outcome(end="completed", started=7, ended=9, worker="w"))
    assert (done.started, done.attempt and done.attempt.number) == (7, 1)
