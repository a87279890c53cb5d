"""The flows through the code stay short: files and round trips, as scripts/walk.py counts them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts import walk

ROOT = Path(__file__).resolve().parents[3]


def test_every_flow_keeps_its_limits() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "walk.py"), "--check"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 2 * len(walk.FLOWS), "each on memory and on SQLite"


def test_a_walk_is_printed_with_what_happens_inside_the_store_marked() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "walk.py"), "enqueue", "--store", "memory"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=120)
    total, first, *others = done.stdout.splitlines()
    assert total.startswith("enqueue on memory:")
    assert first.split() == ["app/mainspring.py", "Mainspring.enqueue"]
    assert others[-1].startswith(" | stores/"), "it ends with the insert"


def test_a_flow_past_its_limit_is_named() -> None:
    found = walk.Walk()
    found.round_trips = ["jobs", "now", "stats", "live_counts", "write_jobs"]
    assert walk.exceeded("pause", found)
    assert not walk.exceeded("enqueue", walk.Walk())
