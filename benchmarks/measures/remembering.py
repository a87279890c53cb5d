"""What a worker's memory is when it is idle, and after it has run very many executions."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.crew import Contestant, Crew, Failed
from benchmarks.places import Place

IDLE = 4.0
WARM = 10_000
PORTION = 100_000


def memory(contestant: Contestant, place: Place, executions: int) -> dict[str, Any]:
    contestant.ask("prepare", url=place.url)
    crew = Crew(contestant, place.url, 1, place.folder)
    try:
        crew.wait_until_ready()
        crew.go()
        time.sleep(IDLE)
        idle, done = _memory(crew), WARM
        contestant.ask("fill", url=place.url, items=WARM, variant="plain")
        crew.wait_for(done)
        warm = _memory(crew)
        while done < executions:
            portion = min(PORTION, executions - done)
            contestant.ask("fill", url=place.url, items=portion, variant="plain")
            done += portion
            crew.wait_for(done)
        time.sleep(IDLE)
        after, ran = _memory(crew), crew.tally.count
    finally:
        crew.stop()
    if ran < executions:
        raise Failed(f"{contestant.name}: {ran} of {executions} executions ran")
    return {"idle_mb": idle, "warm_mb": warm, "after_mb": after, "growth_mb": after - idle, "items": ran}


def _memory(crew: Crew) -> float:
    found = crew.memory()
    if found is None:
        raise Failed("memory is read from /proc, which is not here")
    return found
