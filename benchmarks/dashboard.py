"""The dashboard of an installation with 10,000 jobs, 1,000,000 finished and 200,000 waiting executions: every page with
the filters that people use, then 100 open tabs while jobs run.

    python -m benchmarks.dashboard --store postgres       # minutes: most of them for filling the database
    python -m benchmarks.dashboard --quick                # SQLite, 300 jobs, 5,000 executions; sizes and counts only
    python -m benchmarks.dashboard --url postgresql://... --only executions     # a database that was filled before

A real server process answers over a real socket. The bars: the first byte of every page within 200 ms (99th
percentile), no page over 150 KB, 100 open tabs at most 5 % of a core and one read of the newest executions a second.
Ends with 1 when one of them is missed, or when a page has no example here.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from benchmarks.api import PATIENCE, served
from benchmarks.crew import exit_when_terminated
from benchmarks.dashboard_fill import furnish
from benchmarks.dashboard_jobs import new_app
from benchmarks.figures import percentile
from benchmarks.open_tabs import open_tabs
from benchmarks.places import Place, fresh_place
from benchmarks.triage import health_watched
from benchmarks.triage_fill import NOISY_TENANT, ORDER, Size, fill, job_of

APP = "benchmarks.dashboard_app:app"
BAR_MS, BAR_BYTES, BAR_CORE, BAR_READS = 200.0, 150_000, 0.05, 1.2
LONGEST_MS = 20_000.0
"""A page that takes long is not asked for as often."""

EXAMPLES = {
    "/dashboard": ("", "?span=1h", "?span=7d"),
    "/dashboard/jobs": ("", "?search=0421", "?status=failed", "?queue=queue-31", "?sort=-last_run_at", "?overdue=true"),
    "/dashboard/jobs/{name}": ("/{busy}", "/windows", "/customers", "/beat"),
    "/dashboard/jobs/{name}/edit": ("/{busy}/edit", "/windows/edit"),
    "/dashboard/jobs/{name}/preview": ("/windows/preview?schedule=0+5+*+*+1-5",),
    "/dashboard/jobs/{name}/backfill": ("/windows/backfill", "/windows/backfill?{range}"),
    "/dashboard/executions": (
        "",
        "?status=failed",
        "?status=pending",
        "?queue=queue-31",
        f"?tenant={NOISY_TENANT}",
        f"?search=order_id={ORDER}",
        "?error_group={group}",
        "?job={busy}&status=failed",
        "?since=2h&status=failed",
    ),
    "/dashboard/executions/{id}": ("/{failed}", "/{running}", "/{talk}", "/{customers}", "/{pending}"),
    "/dashboard/executions/{id}/log": ("/{talk}/log",),
    "/dashboard/executions/{id}/raw": ("/{talk}/raw",),
    "/dashboard/executions/{id}/edit": ("/{failed}/edit", "/{talk}/edit"),
    "/dashboard/errors": ("", "?sort=count"),
    "/dashboard/errors/{id}": ("/{group}",),
    "/dashboard/bulk/new": ("?target=executions&action=retry&error_group={group}",),
    "/dashboard/bulk/{id}": ("/{bulk}",),
    "/dashboard/backfills/{id}": ("/{backfill}",),
    "/dashboard/queues/{name}": ("/queue-00", "/queue-31"),
    "/dashboard/timeline": ("", "?by=queue", "?by=tenant", "?hours=6", "?queue=queue-31"),
    "/dashboard/tenants": ("", "?sort=failed"),
    "/dashboard/webhooks/{id}": ("/alerts",),
    "/dashboard/webhooks/{id}/replay": ("/alerts/replay",),
    "/dashboard/changes": ("", "?since=30d"),
    "/dashboard/changes/audit": ("", "?action=pause"),
}
"""What is asked for, by the path of the route, after the part of it before its first parameter. A page without
parameters that is not named here is asked for as it is."""
NO_PAGES = frozenset({"/", "/dashboard/live", "/dashboard/search", "/dashboard/executions/{id}/stream"})
THINGS = {
    "group": ("errors?sort=count", "id"),
    "failed": ("executions?status=failed", "id"),
    "running": ("executions?running=true&longer_than=1h", "id"),
    "pending": ("executions?status=pending&job={busy}", "id"),
    "talk": ("executions?job=talk", "id"),
    "customers": ("executions?job=customers&status=partial", "id"),
    "bulk": ("bulk", "id"),
    "backfill": ("backfills", "id"),
}
"""The list of the API, and the field of its first item, that the words in braces stand for."""
MIXED = ("", "/jobs", "/executions", "/executions?status=failed", "/errors", "/queues", "/workers", "/changes")
"""The pages that tabs show: every 20th tab one of an execution of its own beside them."""


@dataclass(frozen=True)
class Plan:
    """`judged` says whether times count, beside sizes and numbers of reads."""

    size: Size = Size()  # noqa: RUF009 - it is frozen
    repeats: int = 30
    tabs: int = 100
    seconds: float = 30.0
    only: str = ""
    judged: bool = True


QUICK = Plan(
    Size(jobs=300, finished=5_000, waiting=1_000, running=20, noted=100), repeats=1, tabs=10, seconds=3.0, judged=False
)


@dataclass(frozen=True)
class Asked:
    status: int
    body: bytes
    first_byte: float


class Visitor:
    """A browser without scripts, with one kept connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._asked = 0.0

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str) -> Asked:
        if time.monotonic() - self._asked > 2.0:
            self._connection.close()  # before the server does; it is opened again
        self._asked = time.monotonic()
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"Accept": "text/html", "Cookie": f"mainspring_form={'0' * 32}"})
        answer = self._connection.getresponse()
        first_byte = (time.perf_counter() - began) * 1000
        return Asked(answer.status, answer.read(), first_byte)

    def json(self, path: str) -> Any:
        asked = self.get(path)
        assert asked.status == 200, (path, asked)
        return json.loads(asked.body)


# --- which pages ----------------------------------------------------------------------------------------------------


def page_routes() -> list[str]:
    """The paths of all pages, from the table of routes."""
    from mainspring.server.dashboard.routes import dashboard_routes

    paths = [str(getattr(route, "path", "")) for route in dashboard_routes() if "GET" in getattr(route, "methods", ())]
    return [path for path in paths if path not in NO_PAGES and "/static/" not in path and "{rest:path}" not in path]


def addresses(words: dict[str, str]) -> tuple[list[str], list[str]]:
    """What is asked for, and the pages for which nothing is known to ask for."""
    found, unknown = [], []
    for path in page_routes():
        examples = EXAMPLES.get(path, () if "{" in path else ("",))
        prefix = path.partition("/{")[0]
        found += [f"{prefix}{each.format(**words)}" for each in examples]
        unknown += [] if examples else [path]
    return found, unknown


def words_of(visitor: Visitor, size: Size) -> dict[str, str]:
    today = datetime.now(UTC).date()
    words = {"busy": job_of(size.jobs // 2 + 7), "range": f"begin={today - timedelta(days=90)}&end={today}"}
    for name, (path, field) in THINGS.items():
        items = visitor.json(f"/api/v1/{path.format(**words)}")["items"]
        assert items, f"there is no example of {name}: /api/v1/{path}"
        words[name] = quote(str(items[0][field]), safe="")
    return words


# --- measuring ------------------------------------------------------------------------------------------------------


def timed(visitor: Visitor, place: Place, path: str, repeats: int, *, judged: bool) -> list[str]:
    """Processor time is that of our process, and that of the database server if it has one of its own."""
    spent: list[float] = []
    size, before, server = 0, _counts(visitor)["cpu"], place.server_cpu()
    while len(spent) < repeats and sum(spent) < LONGEST_MS:
        asked = visitor.get(path)
        if asked.status != 200:
            return [f"{path}: HTTP {asked.status} {asked.body[:200].decode()}"]
        spent.append(asked.first_byte)
        size = max(size, len(asked.body))
    cpu = f"{(_counts(visitor)['cpu'] - before) * 1000 / len(spent):.1f}"
    if server is not None:
        cpu += f" + {((place.server_cpu() or 0) - server) * 1000 / len(spent):.1f}"
    p50, p99 = percentile(spent, 50), percentile(spent, 99)
    faults = [f"{path}: {size:,} bytes"] if size > BAR_BYTES else []
    faults += [f"{path}: first byte p99 {p99:.0f} ms"] if judged and p99 > BAR_MS else []
    figures = f"p50 {p50:6.1f}  p99 {p99:6.1f} ms  first {spent[0]:6.1f}  cpu {cpu} ms  {size:8,} bytes"
    print(f"{path:75} {figures}{'  OVER' if faults else ''}", flush=True)
    return faults


def _counts(visitor: Visitor) -> dict[str, float]:
    found: dict[str, float] = visitor.json("/bench/counts")
    return found


def tabs(visitor: Visitor, port: int, what: str, paths: list[str], seconds: float, *, judged: bool) -> list[str]:
    """Open a tab for each path and let them be open for so long."""
    with open_tabs(port, paths) as opened:
        time.sleep(seconds / 3)
        before, asked, began = _counts(visitor), opened.asked, time.monotonic()
        time.sleep(seconds)
        spent, after = time.monotonic() - began, _counts(visitor)
        asked = opened.asked - asked
        late, failed = opened.longest_gap, opened.failed
    core, reads = (after["cpu"] - before["cpu"]) / spent, (after["reads"] - before["reads"]) / spent
    rendered = after["rendered"] - before["rendered"]
    print(
        f"{len(paths)} tabs, {what}: {core:.1%} of a core, {reads:.2f} reads/s, {rendered / spent:.2f} renders/s, "
        f"{asked / spent:.1f} requests/s, longest time between two looks of a tab {late:.1f} s",
        flush=True,
    )
    faults = [f"{what}: {reads:.2f} reads a second"] if reads > BAR_READS else []
    faults += [f"{what}: {core:.1%} of a core"] if judged and core > BAR_CORE else []
    faults += [f"{what}: {failed} requests of tabs failed"] if failed else []
    nothing = after["open"] != len(paths) or not asked or not reads or not rendered
    return [*faults, f"{what}: the tabs did nothing: {after}"] if nothing else faults


def mixed(words: dict[str, str], many: int) -> list[str]:
    own = [f"/dashboard/executions/{words[name]}" for name in ("failed", "running", "talk", "customers", "pending")]
    shared = [f"/dashboard{path}" for path in MIXED]
    return [own[n // 20 % len(own)] if n % 20 == 19 else shared[n % len(shared)] for n in range(many)]


# --- the run --------------------------------------------------------------------------------------------------------


@contextmanager
def filled(url: str | None, store: str, size: Size) -> Iterator[Place]:
    if url is not None:
        with fresh_place("memory") as place:
            yield replace(place, url=url, server=_server_of(url))
        return
    with fresh_place(store) as place:
        began = time.monotonic()
        asyncio.run(fill_all(place.url, size))
        place.settle()
        spent = time.monotonic() - began
        print(f"{store}: {size.jobs:,} jobs, {size.finished:,} finished, {size.waiting:,} waiting in {spent:.0f} s")
        yield place


def _server_of(url: str) -> int | None:
    """The process id of the PostgreSQL server at this address, which must be on this machine."""
    if not url.startswith("postgresql:"):
        return None
    with psycopg.connect(url) as connection:
        [folder] = connection.execute("SHOW data_directory").fetchone() or [""]
    return int((Path(folder) / "postmaster.pid").read_text().split()[0])


async def fill_all(url: str, size: Size) -> None:
    await fill(url, size)
    await furnish(new_app(url), size)


def visit_pages(port: int, place: Place, plan: Plan) -> list[str]:
    """What is wrong, one line each."""
    with closing(Visitor(port)) as visitor:
        paths, unknown = addresses(words_of(visitor, plan.size))
        wrong = [f"{path} has no example in EXAMPLES of benchmarks/dashboard.py" for path in unknown]
        with health_watched(port) if plan.judged else nullcontext([0.0]) as waits:
            for path in paths:
                if plan.only in path:
                    wrong += timed(visitor, place, path, plan.repeats, judged=plan.judged)
        print(f"/healthz meanwhile: p99 {percentile(waits, 99):.1f}, longest {max(waits):.1f} ms")
    return wrong


def keep_tabs_open(port: int, plan: Plan) -> list[str]:
    """While something changes every second."""
    with closing(Visitor(port)) as visitor:
        words = words_of(visitor, plan.size)
        wrong = []
        if plan.judged:
            before = _counts(visitor)["cpu"]
            time.sleep(plan.seconds / 3)
            print(f"no tab open: {(_counts(visitor)['cpu'] - before) / (plan.seconds / 3):.1%} of a core")
        for what, paths in (
            ("all on the overview", ["/dashboard"] * plan.tabs),
            ("on mixed pages", mixed(words, plan.tabs)),
        ):
            wrong += tabs(visitor, port, what, paths, plan.seconds, judged=plan.judged)
    return wrong


def measure(place: Place, plan: Plan) -> list[str]:
    with served(place.url, place.folder / "api.txt", "api", APP) as client, closing(client):
        wrong = visit_pages(client.port, place, plan)
        if plan.tabs:
            with served(place.url, place.folder / "worker.txt", "scheduler,worker,api", APP):
                wrong += keep_tabs_open(client.port, plan)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["postgres", "sqlite", "mongo"])
    parser.add_argument("--quick", action="store_true", help="300 jobs on SQLite; judges sizes and counts only")
    parser.add_argument("--url", help="a database that was filled before")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--tabs", type=int, help="how many are open; 0 for none")
    parser.add_argument("--seconds", type=float, help="how long they are open")
    parser.add_argument("--only", help="pages whose addresses contain this")
    given = parser.parse_args()
    exit_when_terminated()
    logging.disable(logging.ERROR)  # jobs fail on purpose
    chosen = {name: getattr(given, name) for name in ("repeats", "tabs", "seconds", "only")}
    plan = replace(
        QUICK if given.quick else Plan(), **{name: value for name, value in chosen.items() if value is not None}
    )
    with filled(given.url, given.store or ("sqlite" if given.quick else "postgres"), plan.size) as place:
        wrong = measure(place, plan)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
