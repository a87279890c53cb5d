"""What a worker asks of the interpreter's garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mainspring.core.engine.worker import YOUNGEST, _prepare_collector


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.req("NUM-2")
@pytest.mark.parametrize(("before", "after"), [(700, YOUNGEST), (2_000, YOUNGEST), (5_000, 5_000), (0, 0)])
def test_the_youngest_are_looked_at_less_often_unless_somebody_decided(before: int, after: int) -> None:
    gc.set_threshold(before, 11, 12)
    _prepare_collector.__wrapped__()
    assert gc.get_threshold() == (after, 11, 12)
