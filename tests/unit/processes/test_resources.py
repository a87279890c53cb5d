"""Readings from /proc, about this process and a child of it."""

from __future__ import annotations

import mmap
import os
import sys

import pytest

from mainspring.processes.resources import Peak, cpu_seconds, family, held, own_cpu, resident

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="reads /proc")
NOBODY = 2**22 + 1
SIZE = 40_000_000


def test_a_family_is_the_process_and_its_descendants() -> None:
    arguments = [sys.executable, "-I", "-S", "-c", "import os; os.read(0, 1)"]
    ours, theirs = os.pipe()
    child = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, ours, 0)])
    try:
        assert {os.getpid(), child} <= set(family(os.getpid()))
        together = held([os.getpid(), child])
        assert together is not None
        assert together > (resident() or 0) > 0
        exact = held([os.getpid(), child], limit=1)
        assert exact is not None
        assert exact <= together, "what both share counts once"
    finally:
        os.close(theirs)
        os.close(ours)
        os.waitpid(child, 0)


def test_what_is_not_there_is_not_known() -> None:
    assert family(NOBODY) == [NOBODY]
    assert (held([NOBODY]), resident(NOBODY), cpu_seconds([NOBODY])) == (None, None, None)
    assert cpu_seconds([NOBODY, os.getpid()]) == pytest.approx(own_cpu(), abs=1.0)


def test_a_peak_belongs_to_its_time() -> None:
    peak = Peak()
    peak.begin()
    with mmap.mmap(-1, SIZE) as held_for_a_moment:  # memory from malloc may be what this process has kept from before
        for page in range(0, SIZE, mmap.PAGESIZE):
            held_for_a_moment[page] = 1
    high, _ = peak.read()
    peak.begin()
    low, now = peak.read()
    assert high is not None
    assert low is not None
    assert now == pytest.approx(peak.resident(), rel=0.05)
    assert now == pytest.approx(resident(), rel=0.05)
    assert high - low > SIZE // 2
