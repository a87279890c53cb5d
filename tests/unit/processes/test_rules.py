"""What is decided about child processes."""

from __future__ import annotations

import pytest

from mainspring.processes.rules import CHANNEL_LOST, STOPPED, PoolSettings, graces, how_it_ended, is_worn, out_of_memory

SETTINGS = PoolSettings(
    most=4, cancel_grace=2.0, term_grace=1.0, recycle_executions=10, recycle_age=60.0, recycle_growth=100
)


@pytest.mark.req("EXE-9")
@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (0, "exit_code", "exit code 0"),
        (3, "exit_code", "exit code 3"),
        (-11, "signal", "SIGSEGV"),
        (-9, "signal", "handler; Mainspring did not send it"),
        (-250, "signal", "signal 250"),
        (CHANNEL_LOST, "broken_channel", "closed the channel"),
        (None, "signal", "not known"),
    ],
)
def test_the_reason_is_the_way_in_which_the_process_ended(code: int | None, reason: str, words: str) -> None:
    how = how_it_ended(code, None)
    assert how.reason == reason
    assert words in how.error


def test_what_the_worker_has_killed_it_for_comes_first() -> None:
    killed = out_of_memory(212_000_000, 200_000_000)
    assert how_it_ended(-9, killed) is killed
    assert killed.error == "held 212 MB, its max_memory is 200MB"
    assert how_it_ended(0, STOPPED) is STOPPED


@pytest.mark.parametrize(
    ("executions", "age", "growth", "worn"),
    [(9, 59, 100, False), (10, 0, 0, True), (0, 60, 0, True), (0, 0, 101, True), (0, 0, -5, False)],
)
def test_children_wear_out(executions: int, age: float, growth: int, worn: bool) -> None:
    assert is_worn(SETTINGS, executions, age, growth) is worn


def test_a_stop_that_has_to_be_quick_shortens_both_graces() -> None:
    assert graces(SETTINGS, None) == (2.0, 1.0)
    assert graces(SETTINGS, 10.0) == (2.0, 1.0)
    assert graces(SETTINGS, 0.3) == pytest.approx((0.2, 0.1))
