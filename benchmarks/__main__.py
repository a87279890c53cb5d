"""The whole run: Mainspring, the raw loops and the peers, interleaved; results under .bench/results.

    python -m benchmarks [--quick] [--only drain-postgres,latency] [--rounds 3] [--postgres 15]
    python -m benchmarks.report                        tables and plots into docs/benchmarks.md

Ends with 1 when something of ours failed: a run that did fewer jobs than asked, or none, is never counted.
"""

from __future__ import annotations

import argparse
import sys
import time

from benchmarks.crew import exit_when_terminated
from benchmarks.measures.catalogue import MEASURES
from benchmarks.measures.plan import Measure, Plan
from benchmarks.results import FOLDER, kind, save
from benchmarks.rounds import compared, measured

NOT_IN_QUICK = {"drain-redis-2", "drain-sqlite-2", "enqueue-sqlite", "burst-10000", "idle-jobs"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about two minutes: fewer rows, fewer jobs, one round")
    parser.add_argument("--only", default="", help="measures whose names contain one of these, separated by commas")
    parser.add_argument("--who", default="", help="rows whose names contain one of these, separated by commas")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--postgres", choices=["18", "15"], default="18")
    options = parser.parse_args()
    plan = Plan(options.quick, options.rounds or (1 if options.quick else 3), options.postgres)
    measures = chosen(options.only, options.quick)
    if not measures:
        parser.error(f"no measure is called so; there are {', '.join(MEASURES)}")
    exit_when_terminated()
    began, failures = time.monotonic(), []
    for measure in measures:
        failures += run(measure, plan, words(options.who))
    print(f"\n{len(measures)} measures in {(time.monotonic() - began) / 60:.1f} minutes: {FOLDER / kind(plan.quick)}")
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def run(measure: Measure, plan: Plan, who: tuple[str, ...]) -> list[str]:
    """Measures, shows and saves; what failed of our own."""
    print(f"\n{measure.name}: {measure.title}", flush=True)
    began, entries = time.monotonic(), measure.chosen(plan, who)
    if not entries:
        labels = ", ".join(entry.label for entry in measure.entries)
        return [f"{measure.name}: nobody is called {' or '.join(who)}; there are {labels}"]
    rows = measured(measure, entries, plan, lambda line: print(line, flush=True))
    seconds = time.monotonic() - began
    print("\n".join(["  --", *(f"  {line}" for line in compared(measure, rows)), f"  ({seconds:.0f} s)"]), flush=True)
    save(measure, plan, rows, seconds)
    return [f"{measure.name}, {row['label']}: {row['failure']}" for row in rows if "failure" in row]


def chosen(only: str, quick: bool) -> list[Measure]:
    """A name given in full means just that one: `drain-postgres` is not `drain-postgres-2`."""
    wanted = words(only)
    if not wanted:
        return [measure for name, measure in MEASURES.items() if not quick or name not in NOT_IN_QUICK]
    exact = {name for name in wanted if name in MEASURES}
    parts = [name for name in wanted if name not in exact]
    return [measure for name, measure in MEASURES.items() if name in exact or any(part in name for part in parts)]


def words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
