"""How long it takes to find the next tick, beside cronsim and croniter, in one run: `python -m benchmarks.cron_speed`.

All three walk from tick to tick of the same expression in the same zone, turn by turn in short rounds, so that whatever
else the machine does meets them alike. Mainspring is asked `next_after(tick)` each time and answers in UTC; the others
are iterators that carry their own state and answer in the zone. Figures are CPU microseconds per tick, the median over
the rounds. Exits with 1 when Mainspring takes more than LIMIT times cronsim's time in any case.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from mainspring.model.triggers import cron

LIMIT = 1.5
ROUNDS = 15
BATCH = 60
START = datetime(2026, 1, 1, tzinfo=UTC)
EXPRESSIONS = ["30 2 * * *", "*/5 * * * *", "0 * * * *", "15 9-17 * * mon-fri", "0 0 1 * *", "0 6 L * *", "0 0 29 2 *"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York"]


def mainspring_ticks(expression: str, zone: str) -> Iterator[datetime]:
    trigger, tick = cron(expression, tz=zone), START
    while (found := trigger.next_after(tick)) is not None:
        tick = found
        yield tick


def cronsim_ticks(expression: str, zone: str) -> Iterator[datetime]:
    return iter(CronSim(expression, START.astimezone(UTC if zone == "UTC" else ZoneInfo(zone))))


def croniter_ticks(expression: str, zone: str) -> Iterator[datetime]:
    walker = croniter(expression, START.astimezone(ZoneInfo(zone)))
    while True:
        yield walker.get_next(datetime)


LIBRARIES: dict[str, Callable[[str, str], Iterator[datetime]]] = {
    "mainspring": mainspring_ticks,
    "cronsim": cronsim_ticks,
    "croniter": croniter_ticks,
}


def microseconds_per_tick(expression: str, zone: str) -> dict[str, float]:
    batch = 10 if expression == "0 0 29 2 *" else BATCH  # four years a tick: stay inside the calendar
    walks = {name: make(expression, zone) for name, make in LIBRARIES.items()}
    taken: dict[str, list[float]] = {name: [] for name in walks}
    for walk in walks.values():
        next(walk)  # parsed and warm
    for _ in range(ROUNDS):
        for name, walk in walks.items():
            begin = time.process_time_ns()
            found = sum(1 for _ in islice(walk, batch))
            taken[name].append((time.process_time_ns() - begin) / found / 1000)
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> int:
    print(f"{'expression':22}{'zone':18}{'mainspring':>11}{'cronsim':>11}{'croniter':>11}   mainspring / cronsim")
    ratios = []
    for expression in EXPRESSIONS:
        for zone in ZONES:
            found = microseconds_per_tick(expression, zone)
            ratios.append(found["mainspring"] / found["cronsim"])
            figures = "".join(f"{found[name]:11.1f}" for name in LIBRARIES)
            print(f"{expression:22}{zone:18}{figures}   {ratios[-1]:.2f}")
    mean = statistics.geometric_mean(ratios)
    print(f"in all (geometric mean): {mean:.2f} x cronsim's time; worst {max(ratios):.2f}; limit {LIMIT}")
    return 0 if max(ratios) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
