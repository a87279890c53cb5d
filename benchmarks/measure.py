"""One measure, for whoever works on it: Mainspring beside the raw loop and the nearest peer.

    python -m benchmarks.measure drain-postgres
    python -m benchmarks.measure drain-postgres --who Mainspring --items 200000 --rounds 1
    python -m benchmarks.measure enqueue-bulk --all --rounds 3

Sizes are those of the quick run unless --items says otherwise. Ends with 1 when anything of ours failed.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.crew import exit_when_terminated
from benchmarks.measures.catalogue import MEASURES
from benchmarks.measures.plan import Plan
from benchmarks.rounds import compared, measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", nargs="+", choices=sorted(MEASURES))
    parser.add_argument("--items", type=int, help="how many jobs, for every row")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--who", default="", help="rows whose name contains one of these, separated by commas")
    parser.add_argument("--all", action="store_true", help="all rows and the sizes of the full run")
    parser.add_argument("--postgres", choices=["18", "15"], default="18")
    options = parser.parse_args()
    plan = Plan(quick=not options.all, rounds=options.rounds, postgres=options.postgres, items=options.items)
    exit_when_terminated()
    failed = False
    for name in options.measure:
        measure = MEASURES[name]
        print(f"{measure.title}")
        rows = measured(measure, measure.chosen(plan, tuple(filter(None, options.who.split(",")))), plan)
        print("\n".join(compared(measure, rows)))
        failed = failed or not rows or any("failure" in row for row in rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
