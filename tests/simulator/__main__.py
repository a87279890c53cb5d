"""`python -m tests.simulator --seed 42 -v`: run seeds by hand."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.simulator import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first of several")
    parser.add_argument("--count", type=int, default=1, help="how many seeds to run")
    parser.add_argument("-v", "--verbose", action="store_true", help="print everything that happened")
    arguments = parser.parse_args()
    counters: Counter[str] = Counter()
    failed = 0
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        report = simulate(seed, keep=None if arguments.verbose else 400)
        if arguments.verbose:
            print(*report.trace, sep="\n")
        if report.violation is not None or arguments.count == 1:
            print(f"{report}\ndigest {report.digest:08x}")
        failed += report.violation is not None
        counters += report.counters
    print(", ".join(f"{count} {what}" for what, count in sorted(counters.items())))
    print(f"{arguments.count - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
