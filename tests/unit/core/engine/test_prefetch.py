"""What was fetched ahead begins in the order in which it came, shares in turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.engine.prefetch import Ahead
from mainspring.model.execution import ExecutionRow


def row(id: str, share: str | None = None) -> ExecutionRow:
    return ExecutionRow(id=id, job="j", job_id="j", handler="h", share=share)


def in_order(ahead: Ahead) -> list[str]:
    return [ahead.next().id for _ in range(len(ahead))]


def test_without_shares_it_is_first_come_first_served() -> None:
    ahead = Ahead()
    for n in range(5):
        ahead.add(row(str(n)), float(n))
    assert ahead.since == 0.0
    assert in_order(ahead) == ["0", "1", "2", "3", "4"]


@pytest.mark.req("TEN-5")
def test_a_newcomer_does_not_wait_for_the_backlog_of_another_share() -> None:
    ahead = Ahead()
    for n in range(100):
        ahead.add(row(f"heavy{n}", "heavy"), 0.0)
    ahead.add(row("light", "light"), 1.0)
    ahead.add(row("plain"), 1.0)
    assert in_order(ahead)[:4] == ["heavy0", "light", "plain", "heavy1"]


def test_what_was_let_go_of_does_not_begin() -> None:
    ahead = Ahead()
    for id, share in (("1", None), ("2", "a"), ("3", "a"), ("4", "b")):
        ahead.add(row(id, share), 0.0)
    assert ahead.pop("2") is not None
    assert ahead.pop("2") is None
    assert "3" in ahead
    assert in_order(ahead) == ["1", "3", "4"]
    ahead.add(row("5", "a"), 0.0)
    assert [each.id for each in ahead.let_go()] == ["5"]
    assert len(ahead) == 0


@given(st.lists(st.sampled_from([None, "a", "b", "c"]), max_size=40), st.sets(st.integers(0, 39)))
def test_each_begins_once_and_in_order_within_its_share(shares: list[str | None], gone: set[int]) -> None:
    ahead = Ahead()
    for n, share in enumerate(shares):
        ahead.add(row(f"{n:02}", share), float(n))
    for n in gone:
        ahead.pop(f"{n:02}")
    ids = in_order(ahead)
    assert sorted(ids) == [f"{n:02}" for n in range(len(shares)) if n not in gone]
    for share in set(shares):
        own = [id for id in ids if shares[int(id)] == share]
        assert own == sorted(own)
