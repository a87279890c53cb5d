"""How a stop divides its time between handlers that go on and what comes after them."""

from __future__ import annotations

import pytest

from mainspring.core.engine.node import NodeSettings, reserve_of


@pytest.mark.req("WRK-5")
@pytest.mark.parametrize(
    ("timeout", "reserve"),
    [(10.0, 8.0), (60.0, 8.0), (9.0, 4.5), (0.0, 0.0)],
    ids=["as configured", "longer than configured", "shorter", "at once"],
)
def test_what_is_configured_is_kept_and_a_shorter_stop_is_halved(timeout: float, reserve: float) -> None:
    assert reserve_of(NodeSettings(stop_timeout=10.0, stop_reserve=8.0), timeout) == reserve
