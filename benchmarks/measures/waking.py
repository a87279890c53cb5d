"""How soon a job starts when nothing else is to do: from before the call that enqueues to the handler's first line."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.crew import Contestant, Crew, Failed
from benchmarks.figures import percentile
from benchmarks.places import Place
from benchmarks.tally import Tally

WARM_UP = 20  # the first ones connect, prepare statements and fill caches


def latency(contestant: Contestant, place: Place, items: int) -> dict[str, Any]:
    """One process enqueues, another works."""
    contestant.ask("prepare", url=place.url)
    place.settle()
    crew = Crew(contestant, place.url, 1, place.folder)
    try:
        crew.wait_until_ready()
        crew.go()
        time.sleep(2.0)  # connected, and idle
        answer = contestant.ask(contestant.ping, url=place.url, tally=crew.tally_path, items=items + WARM_UP)
    finally:
        crew.stop()
    return told(contestant, answer["delays"], items)


def latency_in_one_process(contestant: Contestant, place: Place, items: int) -> dict[str, Any]:
    path = place.folder / "tally"
    Tally.create(path).close()
    answer = contestant.ask("ping_itself", url=place.url, tally=path, items=items + WARM_UP)
    return told(contestant, answer["delays"], items)


def told(contestant: Contestant, delays: list[float], items: int) -> dict[str, Any]:
    delays = delays[WARM_UP:]
    if len(delays) < items:
        raise Failed(f"{contestant.name}: {len(delays)} of {items} jobs were answered")
    return {"p50_ms": percentile(delays, 50) * 1e3, "p99_ms": percentile(delays, 99) * 1e3, "items": items}
