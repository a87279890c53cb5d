"""What a seed's world has to do: jobs of every kind, drawn at random."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from mainspring.model.job import JobSpec
from mainspring.model.policies import CatchUp, MissedRule, Retention, Retry
from mainspring.model.time.instants import Micros, to_datetime
from mainspring.model.triggers import any_of, cron, daily_at, encode_trigger, every, once
from mainspring.model.triggers.base import Trigger
from tests.simulator.handlers import MANNERS

STARTS: tuple[Micros, ...] = (
    1_767_225_540_000_000,  # 2025-12-31T23:59:00Z: the end of a year
    1_772_952_980_000_000,  # 2026-03-08T06:56:20Z: New York is about to lose an hour
    1_793_512_580_000_000,  # 2026-11-01T05:56:20Z: New York is about to gain one
    1_772_323_100_000_000,  # 2026-02-28T23:58:20Z: the end of a month
)
OTHERS = [name for name in MANNERS if name != "steady"]
OVERLAPS = ("skip", "queue", "allow", "cancel_running")
RULES: tuple[MissedRule | CatchUp, ...] = (
    "skip",
    "latest",
    CatchUp("all", max_runs=3, pace=1),
    CatchUp("all", max_age=20, max_runs=10, pace=0),
    CatchUp("latest", max_age=30),
)


class Workload(msgspec.Struct):
    """`releases` are the declarations of the code before and after a deploy, which differ in some jobs."""

    start: Micros
    releases: tuple[list[tuple[str, JobSpec]], list[tuple[str, JobSpec]]]
    recurring: list[str]
    on_demand: list[str]


def draw(chance: Random) -> Workload:
    start = chance.choice(STARTS)
    on_demand = [(name, _on_demand(name, chance)) for name in ("steady", *chance.sample(OTHERS, 5))]
    recurring = [(f"tick-{number}", _recurring(number, start, chance)) for number in range(chance.randint(3, 5))]
    changed = [
        (name, msgspec.structs.replace(spec, trigger=encode_trigger(any_trigger(start, chance))))
        if chance.random() < 0.3
        else (name, spec)
        for name, spec in recurring
    ]
    return Workload(
        start,
        ([*on_demand, *recurring], [*on_demand, *changed]),
        [name for name, _ in recurring],
        [name for name, _ in on_demand],
    )


def params(chance: Random) -> dict[str, Any]:
    return {"seconds": chance.choice([0.02, 0.5, 0.5, 4.0]), "times": chance.randint(0, 3)}


def any_trigger(start: Micros, chance: Random) -> Trigger:
    soon = to_datetime(start) + timedelta(seconds=chance.randint(5, 80))
    match chance.randrange(10):
        case 0 | 1:
            return every(seconds=chance.choice([2, 5, 11, 30]))
        case 2 | 3 | 4:
            return every(seconds=chance.choice([0.5, 2, 6]), delay=True)
        case 5:
            return cron(chance.choice(["*/15 * * * * *", "* * * * *", "*/2 * * * *"]))
        case 6:
            return daily_at(soon.strftime("%H:%M:%S"))
        case 7:
            return once(soon)
        case 8:
            return once(to_datetime(start) - timedelta(seconds=chance.choice([20, 3_600])))
        case _:
            return any_of(every(seconds=13), cron("*/20 * * * * *"))


def _recurring(number: int, start: Micros, chance: Random) -> JobSpec:
    handler = chance.choice(["steady", "flaky", "flaky", "broken", "lasting", "lasting", "stubborn", "telling"])
    trigger = encode_trigger(any_trigger(start, chance))
    return JobSpec(
        handler=handler,
        trigger=trigger,
        params=params(chance),
        queue=chance.choice(["default", "other"]),
        missed=chance.choice(RULES),
        missed_while_paused=chance.choice(RULES),
        grace=chance.choice([None, None, 0.0, 20.0, 3_600.0]),
        overlap=OVERLAPS[number % 4] if chance.random() < 0.8 else "skip",  # type: ignore[arg-type]
        retention=Retention(keep_success=chance.random() < 0.6),
        max_attempts=chance.randint(1, 3),
        retry=_retry(chance),
        timeout=chance.choice([None, None, 3.0]),
    )


def _on_demand(handler: str, chance: Random) -> JobSpec:
    overlap = chance.choice(["allow", "allow", *OVERLAPS])
    return JobSpec(
        handler=handler,
        queue=chance.choice(["default", "other"]),
        overlap=overlap,  # type: ignore[arg-type]
        overlap_limit=chance.choice([None, 1, 2]) if overlap == "allow" else None,
        retention=Retention(keep_success=chance.random() < 0.8),
        max_attempts=5 if handler == "deadly" else chance.randint(1, 4),
        retry=_retry(chance),
        timeout=chance.choice([None, 1.0, 5.0]),
    )


def _retry(chance: Random) -> Retry:
    initial = chance.choice([0.0, 0.0, 0.5, 0.5, 2.0, 25.0])
    return Retry(initial=initial, multiplier=2, max=30, jitter=chance.choice([0.0, 0.0, 0.5]))
