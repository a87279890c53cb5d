"""How fast waiting jobs are run: filled first, then drained by so many processes at once."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.crew import Contestant, Crew, Failed
from benchmarks.places import Place

PATIENCE = 10.0


def drain(contestant: Contestant, place: Place, items: int, processes: int = 1) -> dict[str, Any]:
    """Jobs per second from the first start to the last one, and the CPU that each job cost, in a fresh database."""
    contestant.ask("fill", url=place.url, items=items, variant=contestant.variant, fresh=1)
    place.settle()
    return drain_filled(contestant, place, items, processes, before=0)


def drain_filled(
    contestant: Contestant, place: Place, items: int, processes: int, before: int, keep: int = 0
) -> dict[str, Any]:
    """`before` is how many the history holds already, `keep` how many more are ready than are to be drained."""
    crew = Crew(contestant, place.url, processes, place.folder, items)
    try:
        crew.wait_until_ready()
        worker, server = crew.cpu(), place.server_cpu()
        crew.go()
        crew.wait_for(items)
        worker, server = _spent(crew.cpu(), worker), _spent(place.server_cpu(), server)
        tally = crew.tally
        count, seconds = tally.count, tally.last - (tally.started if contestant.from_start else tally.first)
        memory = crew.memory()
        after = _settled(contestant, place, keep)
    finally:
        crew.stop()
    check_all_done(contestant, before, after, items, keep, count)
    if count < 1 or seconds <= 0:
        raise Failed(f"{contestant.name}: {count} jobs in {seconds:g} s are no measurement")
    return {
        "rate": count / seconds,
        "items": count,
        "seconds": seconds,
        "worker_us": None if worker is None else worker / count * 1e6,
        "server_us": None if server is None else server / count * 1e6,
        "memory_mb": memory,
    }


def _settled(contestant: Contestant, place: Place, keep: int) -> dict[str, Any]:
    """What the store holds once the last jobs have not only started but ended."""
    deadline = time.monotonic() + PATIENCE
    while (found := contestant.ask("state", url=place.url))["left"] > keep and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _spent(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def check_all_done(
    contestant: Contestant, before: int, after: dict[str, Any], items: int, keep: int, count: int
) -> None:
    """Nothing is left, and whoever keeps a history has all of it."""
    if count < items:
        raise Failed(f"{contestant.name}: {count} of {items} jobs ran")
    if after["left"] > keep:
        raise Failed(f"{contestant.name}: {after['left']} of {items} jobs are left")
    if "done" in after and after["done"] - before < items:
        raise Failed(f"{contestant.name}: the history holds {after['done'] - before} of {items} jobs")
