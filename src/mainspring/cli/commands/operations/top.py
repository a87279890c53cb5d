"""`mainspring top`: what is wrong, what waits, what runs and what comes next, live on a terminal."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click
from rich.console import Group
from rich.live import Live

from ....app.mainspring import Mainspring
from ....core.filters.jobs import JobFilter
from ....core.render.activity import activity_json
from ....core.render.entities import execution_json, instant_text, worker_json
from ....core.render.problems import problems_json
from ....core.render.queues import queue_json
from ....core.views.execution import Execution
from ....core.views.records import log_entries
from ....model.errors import InvalidValue, MainspringError
from ....model.time.instants import to_datetime
from ....model.values.reading import duration
from ...completion import names_of
from ...keyboard import keys
from ...root import example
from ...screens.output import console
from ...screens.top import SORTS, Choices, Reading, frame, snapshot
from ...session import ClientSession, client_options

COMING = 50
SHORTEST_INTERVAL = 0.2


@example("top", "top --queue mail --interval 5s", "top --once", "top -o json")
@click.command()
@click.option("--queue", metavar="NAME", shell_complete=names_of("queue"), help="Only this queue.")
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="The order of the queues.")
@click.option("--interval", metavar="DURATION", default="1s", show_default=True, help="How often to refresh.")
@click.option("--once", is_flag=True, help="Print it once; this is the default if the output is not a terminal.")
@client_options
def top(session: ClientSession, queue: str | None, sort: str, interval: str, once: bool) -> None:
    """The live view: problems first, then queues, running executions, what comes next, throughput and failures.

    Keys: q quits, p pauses the display, tab shows one part at a time, f goes through the queues, s sorts them, arrows
    select a running execution, enter shows its last log lines. To have missed runs reported without a terminal, see:
    mainspring watch
    """
    seconds = max(SHORTEST_INTERVAL, duration("--interval", interval))
    choices = Choices(queue=queue, sort=sort)
    if once or session.wants_json or not sys.stdout.isatty():
        reading = session.call(lambda app: first_reading(app, queue))
        session.show(_json(reading), lambda: _print(reading, choices))
    else:
        session.call(lambda app: LiveView(app, choices, seconds).run())


async def first_reading(app: Mainspring, queue: str | None) -> Reading:
    """A queue that nothing uses is more often misspelt than empty."""
    found = await read(app, queue)
    known = [view.name for view in found.queues]
    if queue is not None and queue not in known:
        raise InvalidValue("--queue", queue, f"one of {', '.join(known)}" if known else "left out: there are no queues")
    return found


async def read(app: Mainspring, queue: str | None = None) -> Reading:
    """From the queries of the dashboard's overview: none of them reads more as the history grows."""
    engine = await app._runtime.engine()
    (problems, hour, queues, workers), (running, coming, now) = await asyncio.gather(
        asyncio.gather(engine.problems.recent(), engine.activity.series("1h"), engine.queues.all(), app.workers()),
        asyncio.gather(
            engine.queries.execution_lists.longest_running(queue),
            engine.job_lists.page(JobFilter(queue=queue), sort="next_run_at", limit=COMING),
            engine.queries.now(),
        ),
    )
    return Reading(
        at=to_datetime(now),
        database=app._runtime.address,
        problems=problems,
        queues=queues,
        workers=workers,
        running=[Execution(row) for row in running],
        coming=[view for view in coming.jobs if view.next_run_at is not None],
        jobs=coming.total,
        hour=hour,
    )


class LiveView:
    """Draws whenever something changed: a new reading, a key, the size of the terminal."""

    def __init__(self, app: Mainspring, choices: Choices, interval: float) -> None:
        self._app, self._choices, self._interval = app, choices, interval
        self._changed, self._stale = asyncio.Event(), asyncio.Event()
        self._reading: Reading

    async def run(self) -> None:
        self._reading = await first_reading(self._app, self._choices.queue)
        screen = console()
        with self._signals(), keys(self._press), Live(console=screen, screen=True, auto_refresh=False) as live:
            reader = asyncio.create_task(self._keep_reading())
            reader.add_done_callback(lambda _: self._changed.set())
            while not self._choices.quit:
                if reader.done():
                    reader.result()  # raises what ended it: a view that no longer changes would look calm
                size = screen.size
                lines = frame(self._reading, self._choices, size.width, size.height, screen.options.ascii_only)
                live.update(Group(*lines), refresh=True)
                await self._changed.wait()
                self._changed.clear()
            reader.cancel()

    async def _keep_reading(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._stale.wait()
            if self._stale.is_set() or not self._choices.paused:
                self._stale.clear()
                await self._read()
                self._changed.set()

    async def _read(self) -> None:
        """A store that does not answer is tried again; the last reading stays."""
        try:
            self._reading = await read(self._app, self._choices.queue)
            await self._read_log()
            self._choices.trouble = ""
        except (MainspringError, OSError) as error:
            self._choices.trouble = " ".join(str(error).split())

    async def _read_log(self) -> None:
        opened, log = self._choices.opened, self._choices.log
        if opened is None:
            return
        queries = (await self._app._runtime.engine()).queries
        lines = await queries.logs(opened, log[-1].number if log else 0)
        if opened == self._choices.opened:
            log.extend(line for _, line in log_entries(lines))

    def _press(self, key: str) -> None:
        before = (self._choices.queue, self._choices.opened)
        self._choices.press(key, self._reading)
        if before != (self._choices.queue, self._choices.opened):
            self._stale.set()
        self._changed.set()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM leave in good order; a new size of the terminal is drawn at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._press, "q")
        loop.add_signal_handler(signal.SIGWINCH, self._changed.set)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGWINCH):
                loop.remove_signal_handler(number)


def _print(reading: Reading, choices: Choices) -> None:
    screen = console()
    for line in snapshot(reading, choices, screen.width, screen.options.ascii_only):
        line.rstrip()
        screen.print(line, soft_wrap=True)


def _json(reading: Reading) -> dict[str, Any]:
    return {
        "at": instant_text(reading.at),
        **problems_json(reading.problems),
        "queues": [queue_json(each) for each in reading.queues],
        "workers": [worker_json(each) for each in reading.workers],
        "running": [execution_json(each) for each in reading.running],
        "next": [
            {"job": each.name, "next_run_at": instant_text(each.next_run_at), "queue": each.queue}
            for each in reading.coming
        ],
        "activity": activity_json(reading.hour),
    }
