"""`mainspring watch`: notices runs that did not happen, even while no scheduler is alive."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from ....app.mainspring import Mainspring
from ....core.loops import Outage
from ....core.monitoring.missed_runs import REASONS, MissedRuns
from ....core.monitoring.watchdog import LateJob
from ....core.render.entities import instant_text, missed_json
from ....model.errors import StoreError
from ....model.values.reading import duration
from ....observe.logs.setup import already_configured, configure_logging
from ...completion import names_of
from ...root import REFUSED, example
from ...screens.output import moment, without_distance
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options
from ...terminal import echo

_log = logging.getLogger("mainspring.watch")


@example("watch --interval 1m", "watch --once", "watch --history --job nightly")
@click.command()
@click.option("--once", is_flag=True, help="Check once, and list the jobs that are late.")
@click.option("--history", is_flag=True, help="List the reports of the last 30 days, without checking.")
@click.option("--job", metavar="NAME", shell_complete=names_of("job"), help="With --history: only of this job.")
@click.option("--reason", type=click.Choice(REASONS), help="With --history: only for this reason.")
@click.option(
    "--since", metavar="INSTANT", help="With --history: first missed at this time or later, such as 2026-03-01T00:00Z."
)
@click.option("--until", metavar="INSTANT", help="With --history: first missed before this time.")
@click.option(
    "--interval", metavar="DURATION", default="10s", show_default=True, help="How often to check, without --once."
)
@client_options
def watch(session: ClientSession, once: bool, history: bool, interval: str, **filters: Any) -> int:
    """Report scheduled runs that no scheduler started within their grace period, and work that no worker takes.

    It needs no scheduler: run it as a process of its own, on another machine. Each missed run is reported once, as a
    log line and an event, however many watchers there are. The exit code is 1 if a job was late at the last check,
    or the last check failed. For a live view on a terminal, see: mainspring top
    """
    if history:
        runs = session.call(lambda app: app.monitoring.missed_runs(**filters))
        session.show([missed_json(one) for one in runs], lambda: _print_history(runs))
        return 0
    if given := [f"--{name}" for name, value in filters.items() if value is not None]:
        raise click.UsageError(f"{', '.join(given)}: only together with --history")
    if once:
        found = session.call(lambda app: app.monitoring.late())
        session.show([late_shape(one) for one in found], lambda: _print(found))
        return REFUSED if found else 0
    seconds = duration("interval", interval)
    if not already_configured():
        configure_logging("json" if session.wants_json else "console", "INFO")
    content = session.call(lambda app: _keep_watching(app, seconds))
    return 0 if content else REFUSED


async def _keep_watching(app: Mainspring, seconds: float) -> bool:
    """Look until a signal arrives; a store that cannot be reached is tried again. Returns whether no job was late at
    last."""
    content = False
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    _log.info("watching every %g s", seconds)
    outage = Outage("watch", app._runtime.emit)
    while not stop.is_set():
        try:
            content = not await app.monitoring.late()
            outage.worked(time.monotonic())
        except (StoreError, OSError) as error:
            outage.failed(error, time.monotonic())
            content = False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stop.wait()
    return content


def late_shape(one: LateJob) -> dict[str, Any]:
    return {
        "job": one.job,
        "first_missed": instant_text(one.first_at),
        "last_missed": instant_text(one.last_at),
        "count": one.count,
        "exact": one.exact,
        "waiting": one.waiting,
    }


_COLUMNS = [
    Column("JOB", lambda runs: runs.job, "cut", readable=20),
    Column("MISSED SINCE", lambda runs: moment(runs.first_at), "keep", without_distance),
    Column("LAST", lambda runs: moment(runs.last_at), "keep", without_distance),
    Column("RUNS", lambda runs: f"{runs.count:,}{'' if runs.exact else '+'}", right=True),
]
_LATE = [*_COLUMNS, Column("WHY", lambda late: "no worker takes it" if late.waiting else "no scheduler started it")]
_HISTORY = [
    *_COLUMNS,
    Column("REASON", lambda runs: runs.reason or "-"),
    Column("REPORTED", lambda runs: moment(runs.reported_at), "drop", without_distance),
]


def _print(found: Sequence[LateJob]) -> None:
    if found:
        print_table(_LATE, found)
    else:
        echo("No job is late.")


def _print_history(found: Sequence[MissedRuns]) -> None:
    if found:
        print_table(_HISTORY, found)
    else:
        echo("No missed runs were reported.")
