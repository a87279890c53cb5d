"""`mainspring simulate` over a year of many jobs that run from every hour to once a day, as a whole process.

    python -m benchmarks.simulate_year                 # 1,000 jobs; prints seconds, runs and the peak of memory
    python -m benchmarks.simulate_year --jobs 100 --output json

A quarter of the jobs each: every hour by cron, every 2 to 12 hours by cron, daily, and by interval; minutes, hours and
zones drawn at random, so that hardly two share a trigger.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

APPLICATION = """
from random import Random
from mainspring import Mainspring, cron, daily_at, every

app = Mainspring("memory://")
chance = Random(5)
for number in range({jobs}):
    minute, hour = chance.randrange(60), chance.randrange(24)
    trigger = (
        cron(f"{{minute}} * * * *"),
        cron(f"{{minute}} */{{chance.randrange(2, 13)}} * * *"),
        daily_at(f"{{hour:02}}:{{minute:02}}"),
        every(hours=chance.randrange(1, 25)),
    )[number % 4]
    zone = chance.choice(["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe"])
    app.job(f"job-{{number}}", trigger=trigger, tz=zone)(lambda: None)
"""


def measure(jobs: int, output: str) -> dict[str, float]:
    """The whole command, from the start of the process to its end."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "many.py").write_text(APPLICATION.format(jobs=jobs))
        command = [sys.executable, "-m", "mainspring", "simulate", "many:app", "--hourly", "-o", output]
        command += ["--from", "2026-01-01", "--to", "2027-01-01"]
        command += [part for job in range(0, jobs, 100) for part in ("--duration", f"job-{job}=90m")]
        began = time.perf_counter()
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        seconds = time.perf_counter() - began
    if output == "json":
        runs = json.loads(ended.stdout)["totals"]["runs"]
    else:
        line = next(line for line in ended.stdout.splitlines() if line.startswith("runs "))
        runs = int(line.split()[1].replace(",", ""))
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = usage.ru_utime + usage.ru_stime
    return {"jobs": jobs, "runs": runs, "seconds": seconds, "cpu_seconds": cpu, "peak_mb": usage.ru_maxrss / 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    figures = measure(options.jobs, options.output)
    print("  ".join(f"{name}={value:,.1f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
