"""Runs last, when the whole suite is run."""

from __future__ import annotations

import pytest

from tests.crash.tally import TALLY


@pytest.mark.req("REL-1", "WRK-3", "WRK-4")
def test_enough_was_killed_rescued_and_fenced() -> None:
    print(TALLY)
    assert TALLY.kills >= 20
    assert TALLY.rescues > 0
    assert TALLY.fenced > 0
