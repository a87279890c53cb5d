"""`python -m examples.demo [--seconds N] [--store sqlite|postgres|mongo]`: the shop at work, with its dashboard and one
line per event.

On SQLite everything happens in this process. On PostgreSQL or MongoDB a throwaway server is started,
and two worker processes; this process serves the dashboard.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Column, Table

from mainspring.model.events import AttemptEnded, Rescued, Skipped, Started, Stopped, Ticked, Trouble
from mainspring.model.execution import State

if TYPE_CHECKING:
    from mainspring import Event, Execution, Mainspring

WORKERS = 2
SERVED = ["default", "notifications"]
"""The queues that workers of the demo serve: work of the queue "archive" waits, and the dashboard says so."""
COLOURS = {"tick": "dim", "start": "cyan", "done": "green", "retry": "yellow", "skip": "yellow", "FAILED": "bold red"}


class Story:
    """An observer: one line for each event, and the numbers for the summary."""

    def __init__(self, screen: Console, prefix: str = "") -> None:
        self._screen, self._prefix = screen, prefix
        self.counts: dict[str, Counter[str]] = {}

    def __call__(self, event: Event) -> None:
        match event:
            case Ticked(execution, late_ms):
                self.write(
                    "tick", execution.job, f"due {_clock(execution.start_at)}, found {max(late_ms, 0):.0f} ms later"
                )
            case Started(execution):
                self.write("start", execution.job, f"by {execution.trigger}, try {execution.attempt}", "tries")
            case AttemptEnded():
                self._ended(event)
            case Skipped(execution, reason):
                why = "the run before is still going" if reason == "overlap" else reason
                self.write("skip", execution.job, why, "skipped")
            case Rescued(execution):
                self.write("rescue", execution.job, "its worker fell silent", "rescued")
            case Trouble(where, error):
                self.write("TROUBLE", where, error)
            case Stopped(_, handed_back):
                self.write("stopped", "", f"{handed_back} unfinished handed back, to be run at the next start")
            case _:
                pass

    def _ended(self, event: AttemptEnded[Execution]) -> None:
        job, took = event.execution.job, f"{event.duration_ms:.0f} ms"
        match event.state:
            case State.COMPLETED:
                self.write("done", job, took, "completed")
            case State.PENDING if event.reason == "handed_back":
                self.write("back", job, "interrupted by the stop; not counted as a failure", "back")
            case State.PENDING:
                self.write("retry", job, f"{event.error}; again in {event.retry_in:.1f} s", "retries")
            case State.FAILED:
                self.write("FAILED", job, f"{event.error} (try {event.attempt})", "failed")
            case _:
                self.write(event.state.value, job, took)

    def add(self, counts: dict[str, dict[str, int]]) -> None:
        for job, numbers in counts.items():
            self.counts.setdefault(job, Counter()).update(numbers)

    def write(self, what: str, job: str, words: str, counted: str = "") -> None:
        if counted:
            self.counts.setdefault(job, Counter())[counted] += 1
        now = f"{datetime.now():%H:%M:%S.%f}"[:-4]
        self._screen.print(
            f"{now}  {self._prefix}{what:<8} {job:<17} {words}", style=COLOURS.get(what, ""), soft_wrap=True
        )


def _clock(at: datetime) -> str:
    return f"{at.astimezone():%H:%M:%S}"


async def show(app: Mainspring, story: Story, screen: Console, seconds: float | None, store: str) -> None:
    """Start, trigger the jobs that are not due soon, and show what happens until time is up or a signal comes."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    app.observe(story)
    await app.open()
    screen.print(await jobs_table(app))
    url = app.settings.database_url
    screen.print(f"Its database, removed at the end: {url.removeprefix('sqlite:///')}", soft_wrap=True)
    screen.print("From another terminal, in this folder:")
    screen.print(f"  {command()} top --database-url {url}", soft_wrap=True)
    screen.print(f"  {command()} jobs list --database-url {url}", soft_wrap=True)
    screen.print(f"  {command()} executions list --database-url {url}\n", soft_wrap=True)
    async with everything(app) if store == "sqlite" else workers(app, story, stop):
        progress = asyncio.create_task(show_progress(app, story))
        serving = asyncio.create_task(serve_dashboard(app, screen, stop))
        await by_hand(app)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stop.wait()
        stop.set()
        progress.cancel()
        await asyncio.gather(progress, serving, return_exceptions=True)


def free_port() -> int:
    """The usual port, or another one if that is taken."""
    for port in (8700, 0):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as listener:
            return int(listener.getsockname()[1])
    raise OSError("no port is free")


@contextlib.asynccontextmanager
async def everything(app: Mainspring) -> AsyncIterator[None]:
    """Scheduler and worker in this process."""
    try:
        await app.start(queues=SERVED)
        yield
    finally:
        await app.close()


async def serve_dashboard(app: Mainspring, screen: Console, stop: asyncio.Event) -> None:
    """Serve it until the end. It is loaded in a thread, so that jobs run meanwhile. An application of yours would have
    the role `api` instead, or mount `app.asgi()`."""
    port = free_port()

    def load() -> Any:
        from mainspring.server.serving import HttpServer

        return HttpServer(app.asgi(), app.settings.with_changes({"port": port}))

    server = await asyncio.to_thread(load)
    server.bind()
    await server.start()
    screen.print(f"\nThe dashboard: http://127.0.0.1:{port}/dashboard\n", style="bold", soft_wrap=True)
    try:
        await stop.wait()
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def workers(app: Mainspring, story: Story, stop: asyncio.Event) -> AsyncIterator[None]:
    """Start worker processes and wait until all of them take part. Each ends when its standard input ends, however that
    happens."""
    with tempfile.TemporaryDirectory(prefix="mainspring-demo-") as folder:
        counts = [Path(folder) / f"{number}.json" for number in range(1, WORKERS + 1)]
        started = [_worker(file) for file in counts]
        try:
            while len(await app.workers()) < WORKERS and not stop.is_set():
                assert all(process.poll() is None for process in started), "a worker process has ended"
                await asyncio.sleep(0.1)
            yield
        finally:
            await asyncio.gather(*(asyncio.to_thread(process.communicate) for process in started))
            await app.close()
        for file in counts:
            story.add(json.loads(file.read_text()))


def _worker(counts: Path) -> subprocess.Popen[bytes]:
    """Ctrl-C reaches only this process, which then stops the workers."""
    call = [sys.executable, "-u", "-m", "examples.demo", "--worker", str(counts)]
    return subprocess.Popen(call, stdin=subprocess.PIPE, start_new_session=True)


def work(counts: Path) -> int:
    """A worker process: it works until its standard input ends, and then writes its numbers to a file."""
    from examples.shop import app

    async def until_input_ends() -> None:
        try:
            await app.start(queues=SERVED)
            await asyncio.to_thread(sys.stdin.buffer.read)
        finally:
            await app.close()

    story = Story(_screen(), f"{counts.stem}: ")
    app.observe(story)
    asyncio.run(until_input_ends())
    counts.write_text(json.dumps(story.counts))
    return 0


def command() -> str:
    """The command line of the Python that runs this, relative to the working folder."""
    script = Path(sys.executable).with_name("mainspring")
    if not script.exists():
        return f"{sys.executable} -m mainspring"
    return str(script.relative_to(Path.cwd())) if script.is_relative_to(Path.cwd()) else str(script)


async def by_hand(app: Mainspring) -> None:
    """What an operator or the shop itself would do. None of this changes a schedule."""
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    await app.trigger("nightly-summary", by="demo")
    await app.trigger("order-statistics", window=(hour - timedelta(hours=3), hour - timedelta(hours=2)), by="demo")
    await app.enqueue("export-invoices", {"month": "2026-01", "copies": 2})
    orders = [(4700 + n, round(37.5 * (n % 13), 2)) for n in range(40)]
    await app.enqueue_many([("charge-order", {"order_id": str(n), "amount": amount}) for n, amount in orders])
    for begin, end in ((hour - timedelta(hours=40), hour - timedelta(hours=26)), (hour - timedelta(hours=24), hour)):
        await app.backfill("order-statistics", begin, end, concurrency=2, by="demo")  # two hours between are missing
    day = hour.replace(hour=0)
    await app.backfill("nightly-summary", day - timedelta(days=45), day, pace="1s", note="new tax rate", by="demo")


async def show_progress(app: Mainspring, story: Story) -> None:
    shown: dict[str, Any] = {}
    while True:
        for execution in await app.executions(running=True):
            progress = execution.progress
            if progress and shown.get(execution.id) != progress:
                shown[execution.id] = progress
                share = progress["done"] / progress["total"]
                story.write("progress", execution.job, f"{'#' * int(share * 20):<20} {share:4.0%}")
        await asyncio.sleep(1.5)


async def jobs_table(app: Mainspring) -> Table:
    table = Table("job", "schedule", "next run", box=box.SIMPLE_HEAD, title="The shop's jobs", title_justify="left")
    for view in await app.jobs():
        upcoming = f"{view.next_run_at.astimezone():%Y-%m-%d %H:%M:%S}" if view.next_run_at else "-"
        table.add_row(view.name, view.description_of_schedule, upcoming)
    return table


def summary(story: Story) -> Table:
    columns = ("tries", "completed", "retries", "failed", "skipped", "back")
    job = Column("job", no_wrap=True, min_width=17)
    table = Table(job, *columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title="What happened", title_justify="left")
    for job, counts in sorted(story.counts.items()):
        table.add_row(job, *(str(counts[column] or "") for column in columns))
    return table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--seconds", type=float, help="end after this time, with a summary (default: until Ctrl-C)")
    parser.add_argument("--store", choices=["sqlite", "postgres", "mongo"], default="sqlite")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.getLogger("mainspring").addHandler(logging.NullHandler())  # an observer writes the lines instead
    if arguments.worker is not None:
        return work(arguments.worker)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # until the show begins
    screen = _screen()
    story = Story(screen, "" if arguments.store == "sqlite" else "   ")
    with database(arguments.store) as url:
        os.environ["MAINSPRING_DATABASE_URL"] = url
        os.environ["MAINSPRING_STOP_TIMEOUT"] = "3s"
        from examples.shop import app  # reads the settings above

        asyncio.run(show(app, story, screen, arguments.seconds, arguments.store))
    screen.print(summary(story))
    completed = sum(counts["completed"] for counts in story.counts.values())
    screen.print(f"{completed} executions completed." if completed else "Nothing ran: that is a defect.")
    return 0 if completed else 1


@contextlib.contextmanager
def database(store: str) -> Iterator[str]:
    """The address of an empty database, which is removed afterwards."""
    if store == "postgres":
        from examples.throwaway_postgres import throwaway_postgres

        with throwaway_postgres() as url:
            yield url
        return
    if store == "mongo":
        from examples.throwaway_mongo import throwaway_mongo

        with throwaway_mongo() as url:
            yield url
        return
    with tempfile.TemporaryDirectory(prefix="mainspring-demo-") as folder:
        yield f"sqlite:///{folder}/shop.db"


def _screen() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


if __name__ == "__main__":
    sys.exit(main())
