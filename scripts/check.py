"""Run the static checks and the test suites, say what ran and how long it took, and end with one line:

    N passed, N failed

Each static check counts as one; so does a suite that collected nothing or ended without a report.
Names of checks (lint, types, contracts, requirements, collection, tests) may be given to run only those; `unit` runs
the unit tests alone, for the inner loop (`make check`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
"""Hundreds of processes are started by the tests: what one of them has compiled is there for all others."""

STATIC_CHECKS = {
    "types": [[PYTHON, "-m", "mypy"]],
    "collection": [[PYTHON, "-m", "pytest", "-q", "--collect-only", "tests"]],  # which compiles the tests, once for all
    "lint": [[PYTHON, "-m", "ruff", "check", "."], [PYTHON, "-m", "ruff", "format", "--check", "."]],
    "contracts": [[str(Path(PYTHON).parent / "lint-imports"), "--no-logo"]],
    "requirements": [[PYTHON, "scripts/requirements.py", "--quiet"]],
}
REASON = 1500  # characters of what pytest says of a failed test, in the summary
SHARING = [  # what takes long to make for all tests of a file: where one process runs them it is made once
    ("integration", [f"tests/integration/stores/{store}/test_plans.py" for store in ("postgres", "mongo", "sqlite")]),
    ("api", ["tests/api/test_processes_stores.py"]),
    ("docs", ["tests/docs/test_pages.py", "tests/docs/test_site.py"]),
    ("docs", [f"tests/docs/test_{name}.py" for name in ("console", "blocks", "fragments")]),
]
PARALLEL_SUITES = [  # those with the longest tests first, so that all processes end at about the same time
    *("simulation", "acceptance", "api", "time", "integration", "conformance", "upgrades"),
    *("docs", "typing", "dashboard", "deploy", "unit"),
]
TALLIED = ("kills", "zombies", "tally")
"""The files of the crash suite whose kills, rescues and fenced writes are added up and judged by the last of them."""
CRASH_FILES = sorted(path.stem.removeprefix("test_") for path in (ROOT / "tests/crash").glob("test_*.py"))
CRASH_PARTS = [
    *(("chaos", "lost_replies"), ("clients", "poison")),
    *(("limits", "stop"), ("tenants", "backfills"), ("redis", "cancel", "follow_ups"), ("long_runs", "schedulers")),
    *(("bulk", "controls"), ("isolation", "webhooks")),
]
NEW_CRASH_FILES = [
    name for name in CRASH_FILES if name not in (*TALLIED, *(each for part in CRASH_PARTS for each in part))
]
SIDE_BY_SIDE = [  # they wait for half of their time: four at a time, the longest first, each as soon as there is room
    ("crash", [f"tests/crash/test_{name}.py" for name in CRASH_FILES if name in TALLIED]),
    ("faults", ["tests/faults"]),
    ("browser", ["tests/browser"]),
    ("packaging", ["tests/packaging"]),
    *SHARING,
    *(
        ("crash", [f"tests/crash/test_{name}.py" for name in names])
        for names in (*CRASH_PARTS, NEW_CRASH_FILES)
        if names
    ),
]
AT_ONCE = 4


@dataclass
class Outcome:
    passed: int = 0
    failures: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    """For each failed test: the end of what pytest says of it."""
    skips: Counter[str] = field(default_factory=Counter)

    def add(self, other: Outcome) -> None:
        self.passed += other.passed
        self.failures += other.failures
        self.reasons |= other.reasons
        self.skips += other.skips


def run_static_checks(names: list[str]) -> Outcome:
    """Two at a time. Of a check that passed the last line it said is shown, of one that failed all of it."""
    total = Outcome()
    with tempfile.TemporaryDirectory(prefix="mainspring-check-") as folder, ThreadPoolExecutor(2) as pool:
        said = [Path(folder) / name for name in names]
        for output, outcome in zip(said, pool.map(run_static_check, said), strict=True):
            total.add(outcome)
            text = output.read_text(errors="replace").strip()
            say(text if outcome.failures else f"{output.name}: {text.splitlines()[-1] if text else 'ok'}")
    return total


def run_static_check(output: Path) -> Outcome:
    for command in STATIC_CHECKS[output.name]:
        if run(command, output) != 0:
            return Outcome(failures=[output.name])
    return Outcome(passed=1)


def run_side_by_side(runs: list[tuple[str, list[str]]], *options: str) -> Outcome:
    """Pytest runs, each of a suite or a part of it, some at once; what they say is shown one after the other."""
    total = Outcome()
    with tempfile.TemporaryDirectory(prefix="mainspring-check-") as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        said = [Path(folder) / str(number) for number in range(len(runs))]
        running = [
            pool.submit(run_suites, [suite], *options, paths=paths, output=output)
            for (suite, paths), output in zip(runs, said, strict=True)
        ]
        for each, output in zip(running, said, strict=True):
            total.add(each.result())
            say(output.read_text(errors="replace"))
    return total


def run_suites(suites: list[str], *options: str, paths: list[str] | None = None, output: Path | None = None) -> Outcome:
    """One pytest run over the suites, or what is named of them; each of them must have collected something."""
    absent = [suite for suite in suites if not (ROOT / "tests" / suite).is_dir()]
    present = [suite for suite in suites if suite not in absent]
    outcome = Outcome(failures=[f"tests/{suite} does not exist" for suite in absent])
    if not present:
        return outcome
    with tempfile.TemporaryDirectory(prefix="mainspring-check-") as folder:
        report = Path(folder) / "report.xml"
        paths = paths or [f"tests/{suite}" for suite in present]
        code = run([PYTHON, "-m", "pytest", "-q", "--durations=5", f"--junitxml={report}", *options, *paths], output)
        outcome.add(read_report(report, present) if report.exists() else Outcome())
    if code != 0 and not outcome.failures:
        outcome.failures.append(f"pytest ended with code {code} over {', '.join(paths)}")
    return outcome


def read_report(report: Path, suites: list[str]) -> Outcome:
    outcome = Outcome()
    collected: set[str] = set()
    for case in ElementTree.parse(report).iter("testcase"):
        name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
        collected.update(suite for suite in suites if name.startswith(f"tests.{suite}."))
        skipped = case.find("skipped")
        failed = next((part for part in case if part.tag in ("failure", "error")), None)
        if failed is not None:
            outcome.failures.append(name)
            outcome.reasons[name] = (failed.text or failed.get("message") or "no reason given").strip()[-REASON:]
        elif skipped is not None:
            outcome.skips[skipped.get("message") or "no reason given"] += 1
        else:
            outcome.passed += 1
    outcome.failures += [f"tests/{suite} collected no tests" for suite in suites if suite not in collected]
    return outcome


def run(command: list[str], output: Path | None = None) -> int:
    if output is None:
        return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=False).returncode
    with output.open("ab") as file:
        return subprocess.run(
            command, cwd=ROOT, env=ENVIRONMENT, check=False, stdout=file, stderr=subprocess.STDOUT
        ).returncode


def say(text: str) -> None:
    print(text, flush=True)


def timed(title: str, step: Callable[[], Outcome]) -> Outcome:
    say(f"\n== {title}")
    started = time.monotonic()
    outcome = step()
    verdict = f"{len(outcome.failures)} failed" if outcome.failures else "ok"
    say_failures(outcome)  # where they happened, and once more at the end: long outputs are often cut
    say(f"== {title}: {verdict}, {time.monotonic() - started:.1f} s")
    return outcome


def say_failures(outcome: Outcome) -> None:
    for failure in outcome.failures:
        say(f"FAILED: {failure}")
        for line in outcome.reasons.get(failure, "").splitlines():
            say(f"    {line}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", help="what to run; everything when nothing is named")
    parser.add_argument("--workers", default="3", help="parallel test processes (default 3)")
    arguments = parser.parse_args()
    everything = [*STATIC_CHECKS, "tests"]
    chosen = arguments.checks or everything
    if unknown := [name for name in chosen if name not in (*everything, "unit")]:
        parser.error(f"unknown check {unknown[0]!r}; there are: {', '.join((*everything, 'unit'))}")

    started = time.monotonic()
    total = Outcome()
    if static := [name for name in STATIC_CHECKS if name in chosen]:
        total.add(timed(", ".join(static), partial(run_static_checks, static)))
    if "unit" in chosen:
        total.add(timed("tests: unit", partial(run_suites, ["unit"], "-n", arguments.workers)))
    if "tests" in chosen:
        title = f"tests: {', '.join(PARALLEL_SUITES)} ({arguments.workers} processes)"
        elsewhere = [f"--ignore={path}" for _, paths in SHARING for path in paths]
        total.add(timed(title, partial(run_suites, PARALLEL_SUITES, "-n", arguments.workers, *elsewhere)))
        title = f"tests: {', '.join(dict.fromkeys(suite for suite, _ in SIDE_BY_SIDE))} (side by side)"
        total.add(timed(title, partial(run_side_by_side, SIDE_BY_SIDE, "-rP")))

    say(f"\n== all: {time.monotonic() - started:.1f} s")
    for reason, count in total.skips.items():
        say(f"NOT RUN: {count} test(s): {reason}")
    say_failures(total)
    say(f"{total.passed} passed, {len(total.failures)} failed")
    return 1 if total.failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
