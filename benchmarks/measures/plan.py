"""What one run of the harness is to measure, and how much of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.crew import Contestant
from benchmarks.places import Place, fresh_place

Figures = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How much is measured. `items` overrides the number of jobs, for a look at one measure."""

    quick: bool = False
    rounds: int = 3
    postgres: str = "18"
    items: int | None = None

    def size(self, full: int, quick: int) -> int:
        return self.items or (quick if self.quick else full)


@dataclass(frozen=True)
class Entry:
    """One row of a measure: a contestant and how it is measured, each time in a fresh place."""

    label: str
    contestant: Contestant
    run: Callable[[Plan, Contestant, Place], Figures]
    quick: bool = False  # part of the two-minute run
    one_place: bool = False  # all rounds in one database, because filling it takes long

    def place(self, plan: Plan) -> AbstractContextManager[Place]:
        return fresh_place(self.contestant.store, plan.postgres)


@dataclass(frozen=True)
class Measure:
    name: str
    title: str
    figure: str  # the key of the figures that rows are compared by
    unit: str
    entries: tuple[Entry, ...] = field(default=())
    more_is_better: bool = True
    rounds: int | None = None  # fewer than the plan says, for what takes minutes

    def chosen(self, plan: Plan, who: tuple[str, ...] = ()) -> list[Entry]:
        if who:
            return [entry for entry in self.entries if any(name.lower() in entry.label.lower() for name in who)]
        return [entry for entry in self.entries if entry.quick or not plan.quick]
