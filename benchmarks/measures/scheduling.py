"""Many jobs: due at one instant, or lying there with nothing to do. Mainspring's part is `benchmarks.many_jobs`."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

from benchmarks import many_jobs
from benchmarks.crew import Contestant, Crew, Failed
from benchmarks.places import Place

LEAD = 4.0  # seconds from the start of a worker to the instant


def burst(contestant: Contestant, place: Place, jobs: int) -> dict[str, Any]:
    """Milliseconds from the instant to the last insert and to the last start."""
    answer = contestant.ask("burst", url=place.url, items=jobs)
    if answer["jobs"] != jobs:
        raise Failed(f"{contestant.name}: {answer['jobs']} of {jobs} jobs were due")
    return {"started_ms": answer["last_started_ms"], "inserted_ms": answer["last_inserted_ms"]}


def burst_of_peer(contestant: Contestant, place: Place, jobs: int) -> dict[str, Any]:
    """The same for a peer: as many jobs as are due at one instant, filled ahead."""
    at = time.time() + LEAD + jobs / 2_000
    contestant = replace(contestant, variant=f"due:{at}")
    contestant.ask("prepare", url=place.url)
    contestant.ask("fill", url=place.url, items=jobs, variant=contestant.variant)
    crew = Crew(contestant, place.url, 1, place.folder, jobs)
    try:
        crew.wait_until_ready()
        crew.go()
        crew.wait_for(jobs)
        instant = time.monotonic() - (time.time() - at)
        late, early = crew.tally.last - instant, crew.tally.first - instant
    finally:
        crew.stop()
    if early < -0.05:
        raise Failed(f"{contestant.name}: started {-early:.2f} s before the jobs were due")
    return {"started_ms": late * 1e3}


def idle(place: Place, jobs: int, seconds: float) -> dict[str, Any]:
    """The due query, and the shares of a core that the process and the server take with nothing to do."""
    found = asdict(many_jobs.idle(place.url, jobs, seconds, place.server))
    found["cpu_percent"] = found["process_cpu_percent"]
    return found
