"""How quickly the HTTP interface answers: a real server process, asked over a real socket, one request at a time.

    python -m benchmarks.api                        # 100 jobs; then 100,000 jobs and 1,000,000 executions: minutes
    python -m benchmarks.api --quick --store sqlite
    python -m benchmarks.api --part many --jobs 20000 --executions 200000

The bar is 100 ms: for the 99th percentile of lists and triggers beside 100 jobs, and for the first page of every list
beside many. Ends with 1 when one of them is over it.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.api_fill import fill, name_of
from benchmarks.crew import exit_when_terminated
from benchmarks.figures import percentile
from benchmarks.places import fresh_place

PROJECT = Path(__file__).resolve().parent.parent
BAR_MS = 100.0
PATIENCE = 60.0
FEW_JOBS = 100
WARM_UP = 20
LONGEST_MS = 10_000.0
"""A list that takes long is not asked for as often."""

LISTS = {
    "jobs": "/api/v1/jobs",
    "jobs, 200 a page": "/api/v1/jobs?limit=200",
    "jobs, paused": "/api/v1/jobs?paused=true",
    **{
        f"jobs, {state}": f"/api/v1/jobs?status={state}"
        for state in ("pending", "scheduled", "running", "paused", "completed", "failed", "cancelled")
    },
    "jobs, of several states": "/api/v1/jobs?status=failed&status=running&status=completed",
    "jobs, not paused": "/api/v1/jobs?paused=false",
    "jobs, last run failed": "/api/v1/jobs?last_status=failed",
    "jobs, last run completed": "/api/v1/jobs?last_status=completed",
    "jobs, last run cancelled": "/api/v1/jobs?last_status=cancelled",
    "jobs, of a handler": "/api/v1/jobs?handler=noop",
    "jobs, of a rare handler": "/api/v1/jobs?handler=handler-5",
    "jobs, of a queue": "/api/v1/jobs?queue=default",
    "jobs, of a rare queue": "/api/v1/jobs?queue=queue-3",
    "jobs, of code": "/api/v1/jobs?origin=code",
    "jobs, of operators": "/api/v1/jobs?origin=api",
    "jobs, orphaned": "/api/v1/jobs?orphaned=true",
    "jobs, not orphaned": "/api/v1/jobs?orphaned=false",
    "jobs, searched": "/api/v1/jobs?q=99",
    "jobs, searched by what is rare": "/api/v1/jobs?q=monthly%20report",
    "jobs, searched by what is nowhere": "/api/v1/jobs?q=nowhere",
    **{
        f"jobs, sorted by {sign}{field}": f"/api/v1/jobs?sort={sign}{field}"
        for field in ("name", "status", "handler", "next_run_at", "last_run_at", "created_at", "updated_at")
        for sign in ("", "-")
    },
    "jobs, scheduled, sorted by -last_run_at": "/api/v1/jobs?status=scheduled&sort=-last_run_at",
    "jobs, failed, sorted by -last_run_at": "/api/v1/jobs?last_status=failed&sort=-last_run_at",
    "jobs, paused, sorted by -updated_at": "/api/v1/jobs?paused=true&sort=-updated_at",
    "jobs, far down the list": "/api/v1/jobs?offset=10000",
    "executions": "/api/v1/executions",
    "executions, 200 a page": "/api/v1/executions?limit=200",
    "executions, completed": "/api/v1/executions?status=completed",
    "executions, failed": "/api/v1/executions?status=failed",
    "executions, running": "/api/v1/executions?running=true",
    "executions, by trigger": "/api/v1/executions?trigger=backfill",
    "executions, of a day": "/api/v1/executions?since={yesterday}&until={today}",
    "executions, of a job by filter": "/api/v1/executions?job={job}",
    "executions of a job": "/api/v1/jobs/{job}/executions",
    "executions of a job, failed": "/api/v1/jobs/{job}/executions?status=failed",
    "audit": "/api/v1/audit",
    "audit of a job": "/api/v1/audit?target=job:{job}",
    "audit, by actor": "/api/v1/audit?actor=token:ci",
    "backfills": "/api/v1/backfills",
    "workers": "/api/v1/workers",
    "handlers": "/api/v1/handlers",
    "locks": "/api/v1/locks",
}


class Client:
    """One kept connection, as a console or a service has it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None, good: tuple[int, ...] = (200,)) -> float:
        """Milliseconds until the whole answer is there."""
        text = None if body is None else json.dumps(body)
        headers = {} if text is None else {"Content-Type": "application/json"}
        began = time.perf_counter()
        self._connection.request(method, path, text, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        spent = (time.perf_counter() - began) * 1000
        assert answer.status in good, (method, path, answer.status, content[:500])
        return spent


@contextmanager
def served(url: str, log: Path, roles: str, app: str = "benchmarks.idle_app:app") -> Iterator[Client]:
    """A server process on a free port of this machine."""
    command = [sys.executable, "-m", "mainspring", "run", app, "--roles", roles, "--port", "0"]
    with log.open("wb") as file:
        environ = {**os.environ, "MAINSPRING_DATABASE_URL": url}
        process = subprocess.Popen(command, cwd=PROJECT, env=environ, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield Client(_port(process, log))
        assert process.poll() is None, f"the server ended by itself: {log.read_text()[-2000:]}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text()):
            return int(found[1])
        time.sleep(0.02)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")


# --- few jobs -------------------------------------------------------------------------------------------------------


def few_jobs(store: str, requests: int) -> list[str]:
    """Lists and triggers beside 100 jobs, with a worker that runs what is triggered in a process of its own."""
    with (
        fresh_place(store) as place,
        served(place.url, place.folder / "api.txt", "scheduler,api") as client,
        served(place.url, place.folder / "worker.txt", "worker,api"),
    ):
        for number in range(FEW_JOBS):
            body = {"name": name_of(number), "handler": "noop", "interval_minutes": 30, "overlap": "allow"}
            client.ask("POST", "/api/v1/jobs", body, (201,))
        path = f"/api/v1/jobs?limit={FEW_JOBS}"
        listing, overview, triggering = [], [], []
        for number in range(WARM_UP + requests):
            trigger = f"/api/v1/jobs/{name_of(number % FEW_JOBS)}/trigger"
            listing.append(client.ask("GET", path))
            overview.append(client.ask("GET", "/_sys/job"))
            triggering.append(client.ask("POST", trigger, good=(202,)))
    rows = {f"list of {FEW_JOBS} jobs": listing, f"overview of {FEW_JOBS} jobs": overview, "trigger": triggering}
    warm = {what: spent[WARM_UP:] for what, spent in rows.items()}
    return [over for what, spent in warm.items() if (over := told(store, what, spent, percentile(spent, 99)))]


# --- many -----------------------------------------------------------------------------------------------------------


def many(store: str, jobs: int, executions: int, repeats: int, only: str) -> list[str]:
    """The first page of every list; the first answer after the server started is told apart."""
    failures = []
    with fresh_place(store) as place:
        began = time.monotonic()
        asyncio.run(fill(place.url, jobs, executions, audits=jobs))
        place.settle()
        print(f"{store}: {jobs:,} jobs and {executions:,} executions in {time.monotonic() - began:.0f} s", flush=True)
        day = 86_400
        today = time.time() - 5 * day
        words = {"job": name_of(jobs // 2), "today": _text(today), "yesterday": _text(today - day)}
        with served(place.url, place.folder / "api.txt", "api") as client:
            client.ask("GET", "/healthz")
            for what, path in LISTS.items():
                if only not in what:
                    continue
                spent = [client.ask("GET", path.format(**words))]
                while len(spent) < repeats and sum(spent) < LONGEST_MS:
                    spent.append(client.ask("GET", path.format(**words)))
                failures.append(told(store, what, spent, percentile(spent, 99)))
    return [over for over in failures if over]


def _text(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def told(store: str, what: str, spent: list[float], judged: float) -> str:
    """One line about these milliseconds; what is over the bar, if it is."""
    figures = [spent[0], percentile(spent, 50), percentile(spent, 99), max(spent)]
    words = " ".join(
        f"{name} {value:7.1f}" for name, value in zip(("first", "p50", "p99", "max"), figures, strict=True)
    )
    over = f"OVER {BAR_MS:.0f} ms" if judged >= BAR_MS else ""
    print(f"{store:9} {what:32} {words} ms  {over}".rstrip(), flush=True)
    return over and f"{store}, {what}: {judged:.1f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["sqlite", "postgres"], action="append")
    parser.add_argument("--part", choices=["few", "many"], action="append")
    parser.add_argument("--quick", action="store_true", help="fewer requests, 5,000 jobs and 50,000 executions")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--executions", type=int)
    parser.add_argument("--only", default="", help="lists whose names contain this")
    given = parser.parse_args()
    exit_when_terminated()
    logging.disable(logging.INFO)
    jobs = given.jobs or (5_000 if given.quick else 100_000)
    executions = given.executions or (50_000 if given.quick else 1_000_000)
    failures = []
    for store in given.store or ["sqlite", "postgres"]:
        if "few" in (given.part or ["few"]):
            failures += few_jobs(store, 100 if given.quick else 1_000)
        if "many" in (given.part or ["many"]):
            failures += many(store, jobs, executions, 10 if given.quick else 100, given.only)
    for failure in failures:
        print(f"OVER {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
