"""The rate of progress and the time that is left."""

from __future__ import annotations

import json

import pytest

from mainspring.core.declaring.progress import ProgressRate, progress_json

pytestmark = pytest.mark.req("EXE-11")


def test_a_steady_rate_is_found_at_once_and_kept() -> None:
    rate = ProgressRate(0, 0.0)
    assert [rate.add(20 * n, float(n)) for n in range(1, 50)] == [pytest.approx(20.0)] * 49


def test_there_is_no_rate_until_time_has_passed() -> None:
    rate = ProgressRate(0, 0.0)
    assert rate.add(1_000, 0.001) is None
    assert rate.add(1_000, 1.0) == pytest.approx(1_000)


def test_a_change_of_pace_is_followed_within_seconds() -> None:
    rate = ProgressRate(0, 0.0)
    for n in range(1, 101):
        rate.add(100.0 * n, float(n))
    found = [rate.add(10_000.0 + 10 * n, 100.0 + n) for n in range(1, 61)]
    assert found[0] is not None
    assert 90 < found[0] < 100
    assert found[-1] is not None
    assert 10 <= found[-1] < 13


def test_one_burst_does_not_fool_it() -> None:
    rate = ProgressRate(0, 0.0)
    for n in range(1, 31):
        rate.add(10.0 * n, float(n))
    burst = rate.add(400.0, 30.5)  # 200 a second for half a second
    assert burst is not None
    assert burst < 20


def test_a_stall_lowers_the_rate() -> None:
    rate = ProgressRate(0, 0.0)
    rate.add(100, 10.0)
    stalled = rate.add(100, 100.0)
    assert stalled is not None
    assert stalled < 1


def test_counting_that_starts_again_starts_the_rate_again() -> None:
    rate = ProgressRate(0, 0.0)
    rate.add(1_000, 1.0)
    assert rate.add(0, 2.0) is None
    assert rate.add(5, 3.0) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("done", "total", "rate", "shown"),
    [
        (1, None, None, {"done": 1}),
        (1, None, 2.0, {"done": 1, "rate": 2.0}),
        (0, 0, 1.0, {"done": 0, "total": 0, "rate": 1.0, "eta_seconds": 0.0}),
        (12, 10, 2.0, {"done": 12, "total": 10, "percent": 100.0, "rate": 2.0, "eta_seconds": 0.0}),
        (1, 10, 0.0, {"done": 1, "total": 10, "percent": 10.0, "rate": 0.0}),
        (-1e308, 1e308, 1e-300, {"done": -1e308, "total": 1e308, "percent": 0.0, "rate": 1e-300}),
        (1, 1e308, float("inf"), {"done": 1, "total": 1e308, "percent": 0.0}),
        (
            2**64 - 1,
            5e-324,
            1.0,
            {"done": 2**64 - 1, "total": 5e-324, "percent": 100.0, "rate": 1.0, "eta_seconds": 0.0},
        ),
    ],
)
def test_what_is_not_known_is_left_out(
    done: float, total: float | None, rate: float | None, shown: dict[str, float]
) -> None:
    stored = json.loads(progress_json(done, total, "", rate, 0))
    assert stored.pop("updated_at") == "1970-01-01T00:00:00Z"
    assert stored == shown
