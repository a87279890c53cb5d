"""Runs last, when the whole suite is run."""

from __future__ import annotations

import pytest

from tests.faults.counters import COUNTERS


@pytest.mark.req("REL-1", "WRK-3", "WRK-4")
def test_every_kind_of_fault_happened() -> None:
    print(COUNTERS)
    assert COUNTERS.zeros() == []
