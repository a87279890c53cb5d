"""The overhead of a run in a child process, in a short version of the benchmark."""

from __future__ import annotations

import pytest

from benchmarks.isolation import BAR_MS, measure

TRIES = 5


@pytest.mark.req("EXE-9")
async def test_a_run_in_a_child_costs_little_more_than_one_in_a_thread() -> None:
    """The best of some tries counts: a busy machine makes everything slower, and never quicker."""
    overheads = []
    for _ in range(TRIES):
        medians = await measure(100)
        overheads.append(medians["process"] - medians["thread"])
        if overheads[-1] <= BAR_MS:
            return
    pytest.fail(f"at most {BAR_MS} ms are allowed: {overheads}")
