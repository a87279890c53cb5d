"""Room for an execution that must run alone: soon, but never at the price of all other work."""

from __future__ import annotations

import pytest

from mainspring.core.engine.prefetch import FIRST_DRAIN, LONGEST_DRAIN, REST, ExclusiveTurns


@pytest.mark.req("EXE-12")
def test_a_busy_worker_holds_back_and_an_idle_one_takes_it() -> None:
    turns = ExclusiveTurns()
    turns.learn(waiting=True, took_one=False, now=0)
    assert (turns.holds_back(3, 1), turns.wants(3)) == (True, False)
    assert (turns.holds_back(0, 1), turns.wants(0)) == (False, True)


@pytest.mark.req("EXE-12")
def test_it_gives_up_for_a_while_and_waits_longer_each_time() -> None:
    turns, now, drains = ExclusiveTurns(), 0.0, []
    for _ in range(9):
        turns.learn(waiting=True, took_one=False, now=now)
        began = now
        while turns.holds_back(1, now):
            now += 1
        drains.append(now - began)
        now = began + drains[-1] * (1 + REST) + 1
    assert drains[:4] == [FIRST_DRAIN, 2 * FIRST_DRAIN, 4 * FIRST_DRAIN, 8 * FIRST_DRAIN]
    assert drains[-1] == LONGEST_DRAIN


@pytest.mark.req("EXE-12")
def test_after_one_alone_other_work_comes_first() -> None:
    turns = ExclusiveTurns()
    turns.learn(waiting=True, took_one=True, now=0)
    assert not turns.wants(0)
    turns.learn(waiting=True, took_one=False, now=1)
    assert turns.wants(0)
