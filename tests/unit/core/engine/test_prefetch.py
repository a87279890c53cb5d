"""What was fetched waiting begins in the order in which it came, shares in turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.engine.prefetch import Prefetched
from mainspring.model.execution import ExecutionRow


def row(id: str, share: str | None = None) -> ExecutionRow:
    return ExecutionRow(id=id, job="j", job_id="j", handler="h", share=share)


def in_order(waiting: Prefetched) -> list[str]:
    return [waiting.next()[0].id for _ in range(len(waiting))]


def test_without_shares_it_is_first_come_first_served() -> None:
    waiting = Prefetched()
    for n in range(5):
        waiting.add(row(str(n)), float(n), 0.0)
    assert waiting.since == 0.0
    assert in_order(waiting) == ["0", "1", "2", "3", "4"]


@pytest.mark.req("TEN-5")
def test_a_newcomer_does_not_wait_for_the_backlog_of_another_share() -> None:
    waiting = Prefetched()
    for n in range(100):
        waiting.add(row(f"heavy{n}", "heavy"), 0.0, 0.0)
    waiting.add(row("light", "light"), 1.0, 0.0)
    waiting.add(row("plain"), 1.0, 0.0)
    assert in_order(waiting)[:4] == ["heavy0", "light", "plain", "heavy1"]


def test_what_was_let_go_of_does_not_begin() -> None:
    waiting = Prefetched()
    for id, share in (("1", None), ("2", "a"), ("3", "a"), ("4", "b")):
        waiting.add(row(id, share), 0.0, 0.0)
    assert waiting.pop("2") is not None
    assert waiting.pop("2") is None
    assert "3" in waiting
    assert in_order(waiting) == ["1", "3", "4"]
    waiting.add(row("5", "a"), 0.0, 0.0)
    assert [each.id for each in waiting.pop_all()] == ["5"]
    assert len(waiting) == 0


@given(st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=40), st.sets(st.integers(0, 39)))
def test_each_begins_once_and_in_order_within_its_share(shares: list[str | None], gone: set[int]) -> None:
    waiting = Prefetched()
    for n, share in enumerate(shares):
        waiting.add(row(f"{n:02}", share), float(n), 0.0)
    for n in gone:
        waiting.pop(f"{n:02}")
    ids = in_order(waiting)
    assert sorted(ids) == [f"{n:02}" for n in range(len(shares)) if n not in gone]
    for share in set(shares):
        own = [id for id in ids if shares[int(id)] == share]
        assert own == sorted(own)
