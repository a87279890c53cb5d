"""What a worker counts for the rates of queues."""

from __future__ import annotations

import pytest

from mainspring.core.engine.ended_counts import EndedCounts
from mainspring.model.execution import ExecutionRow
from mainspring.model.time.instants import SECOND
from mainspring.testing import FakeClock

MINUTE = 60


@pytest.mark.req("QUE-1")
def test_an_execution_counts_as_added_for_five_minutes_after_it_was_created() -> None:
    clock = FakeClock()
    counts = EndedCounts(clock)

    def ends(queue: str, waited: int) -> None:
        row = ExecutionRow(id="e", job="j", job_id="j", handler="h", queue=queue, created=clock.now() - waited * SECOND)
        counts.add([row])

    assert counts.by_queue() == {}
    ends("mail", waited=4 * MINUTE)
    ends("mail", waited=10)
    ends("night", waited=6 * MINUTE)
    assert counts.by_queue() == {"mail": (2, 2), "night": (1, 0)}
    clock.advance(2 * MINUTE)
    ends("mail", waited=1)
    assert counts.by_queue() == {"mail": (3, 2), "night": (1, 0)}, "the first was created six minutes ago"
    clock.advance(4 * MINUTE)
    assert counts.by_queue() == {"mail": (1, 1)}
    clock.advance(5 * MINUTE)
    assert counts.by_queue() == {}
