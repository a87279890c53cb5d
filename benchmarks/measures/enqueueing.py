"""How fast jobs are added: one by one, by twenty callers at once, in bulk. Every call returns after its commit."""

from __future__ import annotations

from typing import Any

from benchmarks.crew import Contestant, Failed
from benchmarks.places import Place


def enqueue(contestant: Contestant, place: Place, items: int, way: str) -> dict[str, Any]:
    contestant.ask("prepare", url=place.url)
    place.settle()
    answer = contestant.ask("enqueue", url=place.url, items=items, way=way)
    stored = contestant.ask("state", url=place.url)["left"]
    if answer["items"] != items or stored < items:
        raise Failed(f"{contestant.name}: {stored} of {items} jobs are stored")
    return {"rate": items / answer["seconds"], "items": items, "seconds": answer["seconds"]}
