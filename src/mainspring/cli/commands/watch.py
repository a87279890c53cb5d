"""`mainspring watch`: notices runs that did not happen, also while no scheduler is alive to notice them itself."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from ...app.mainspring import Mainspring
from ...core.monitoring.missed_runs import REASONS, MissedRuns
from ...core.monitoring.watchdog import Late
from ...core.render.entities import instant_text, missed_shape
from ...model.errors import StoreError
from ...model.values.reading import duration
from ...observe.logs.setup import already_configured, configure_logging
from ..root import REFUSED
from ..screens.output import moment
from ..screens.table import Way, print_table
from ..session import Session, client_options, now

_log = logging.getLogger("mainspring.watch")


@click.command()
@click.option("--once", is_flag=True, help="Look once, and say which jobs are late.")
@click.option("--history", is_flag=True, help="Do not look: list what was told of within the last 30 days.")
@click.option("--job", metavar="NAME", help="With --history: of this job alone.")
@click.option("--reason", type=click.Choice(REASONS), help="With --history: for this reason alone.")
@click.option(
    "--since", metavar="INSTANT", help="With --history: first missed at this time or later, such as 2026-03-01T00:00Z."
)
@click.option("--until", metavar="INSTANT", help="With --history: first missed before this time.")
@click.option(
    "--interval", metavar="DURATION", default="10s", show_default=True, help="How often to look, without --once."
)
@client_options
def watch(session: Session, once: bool, history: bool, interval: str, **filters: str | None) -> int:
    """Tell of scheduled runs whose time and grace are over although nobody made them happen.

    It needs no scheduler: run it in a process of its own, on another machine. Each missed run is told once, as a log
    line and an event, whatever the number of watchers. The exit code is 1 if a job was late at the last look, or nobody
    could look.
    """
    if history:
        told = session.call(lambda app: app.monitoring.missed_runs(**filters))
        session.show([missed_shape(one) for one in told], lambda: _print_history(told))
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
    content = session.call(lambda app: _go_on(app, seconds))
    return 0 if content else REFUSED


async def _go_on(app: Mainspring, seconds: float) -> bool:
    """Until a signal says so. A store that cannot be reached is tried again. Says whether no job was late at last."""
    content = False
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    _log.info("watching every %g s", seconds)
    while not stop.is_set():
        try:
            content = not await app.monitoring.late()
        except (StoreError, OSError) as error:
            _log.warning("cannot look: %s", error)
            content = False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await stop.wait()
    return content


def late_shape(one: Late) -> dict[str, Any]:
    return {
        "job": one.job,
        "first_missed": instant_text(one.first_at),
        "last_missed": instant_text(one.last_at),
        "count": one.count,
        "exact": one.exact,
    }


def _print(found: Sequence[Late]) -> None:
    if not found:
        click.echo("No job is late.")
        return
    at = now()
    rows = [
        [one.job, moment(one.first_at, at), moment(one.last_at, at), f"{one.count}{'' if one.exact else '+'}"]
        for one in found
    ]
    print_table({"JOB": "keep", "MISSED SINCE": "keep", "LAST": "keep", "RUNS": "keep"}, rows)


def _print_history(told: Sequence[MissedRuns]) -> None:
    if not told:
        click.echo("No missed runs were told of.")
        return
    at = now()
    rows = [
        [
            *(one.job, moment(one.first_at, at), moment(one.last_at, at), f"{one.count}{'' if one.exact else '+'}"),
            *(one.reason or "-", moment(one.reported_at, at)),
        ]
        for one in told
    ]
    titles: dict[str, Way] = dict.fromkeys(("JOB", "MISSED SINCE", "LAST", "RUNS", "REASON", "TOLD"), "keep")
    print_table(titles, rows)
