"""Room for an execution that must run alone: soon, but never at the price of all other work."""

from __future__ import annotations

import pytest

from mainspring.core.engine.exclusive import FIRST_DRAIN, LONGEST_DRAIN, REST, Solitude


@pytest.mark.req("EXE-12")
def test_a_busy_worker_holds_back_and_an_idle_one_takes_it() -> None:
    solitude = Solitude()
    solitude.learned(waiting=True, took_one=False, now=0)
    assert (solitude.holds_back(3, 1), solitude.wants(3)) == (True, False)
    assert (solitude.holds_back(0, 1), solitude.wants(0)) == (False, True)


@pytest.mark.req("EXE-12")
def test_it_gives_up_for_a_while_and_waits_longer_each_time() -> None:
    solitude, now, drains = Solitude(), 0.0, []
    for _ in range(9):
        solitude.learned(waiting=True, took_one=False, now=now)
        began = now
        while solitude.holds_back(1, now):
            now += 1
        drains.append(now - began)
        now = began + drains[-1] * (1 + REST) + 1
    assert drains[:4] == [FIRST_DRAIN, 2 * FIRST_DRAIN, 4 * FIRST_DRAIN, 8 * FIRST_DRAIN]
    assert drains[-1] == LONGEST_DRAIN


@pytest.mark.req("EXE-12")
def test_after_one_alone_other_work_comes_first() -> None:
    solitude = Solitude()
    solitude.learned(waiting=True, took_one=True, now=0)
    assert not solitude.wants(0)
    solitude.learned(waiting=True, took_one=False, now=1)
    assert solitude.wants(0)
