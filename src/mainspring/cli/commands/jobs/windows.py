"""`mainspring windows`: which windows of a job are done, failed, missing or running."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import get_args

import click
from rich.text import Text

from ....app.mainspring import Mainspring
from ....core.render.entities import windows_json
from ....model.backfill import Windows, WindowState, WindowStatus
from ....model.errors import InvalidValue
from ....model.values.reading import zone
from ....model.windows import Window
from ...completion import names_of
from ...parameters import short_id
from ...root import example
from ...screens.output import moment, note, status, without_distance
from ...screens.table import Column, print_table
from ...session import ClientSession, client_options

_COLOURS = {"done": "completed", "missing": "skipped"}
"""Window states are shown in the colour of these states of executions."""

begin_option = click.option(
    "--from",
    "begin",
    metavar="INSTANT",
    help="Windows that begin then or later, such as 2026-03-01, in the job's zone.",
)
end_option = click.option("--to", "end", metavar="INSTANT", help="Windows that end then or before  [default: now]")


@example("windows revenue --from 2026-03-01 --to 2026-04-01", "windows revenue --state missing --state failed")
@click.command()
@click.argument("job", shell_complete=names_of("job"))
@begin_option
@end_option
@click.option(
    "--state", "states", multiple=True, type=click.Choice(get_args(WindowState)), help="Only these; may be repeated."
)
@client_options
def windows(session: ClientSession, job: str, begin: str | None, end: str | None, states: tuple[str, ...]) -> None:
    """Every window of a job's schedule, and its state.

    Without --from it begins with the first known window of the job.
    """

    async def work(app: Mainspring) -> tuple[Windows, str]:
        with typed_options():
            return await app.windows(job, begin, end), (await app.job_view(job)).tz

    found, tz = session.call(work)
    shown = Windows(each for each in found if not states or each.state in states)
    data = windows_json(job, shown) | {"counts": found.counts}
    session.show(data, lambda: _print(job, shown, found, tz))


@contextmanager
def typed_options() -> Iterator[None]:
    """Errors name the options of the command line."""
    try:
        yield
    except InvalidValue as error:
        if error.field not in _OPTIONS:
            raise
        allowed = error.allowed.replace("after begin", "after --from")
        if "ISO 8601" in allowed:
            allowed = "a time such as 2026-03-01 or 2026-03-01T08:00; without an offset it is read in the job's zone"
        remedy = error.remedy.replace("a begin and an end", "--from and --to")
        raise InvalidValue(_OPTIONS[error.field], error.value, allowed, remedy) from None


_OPTIONS = {
    "begin": "--from",
    "end": "--to",
    "range": "--from, --to",
    "concurrency": "--concurrency",
    "pace": "--pace",
    "note": "--note",
}


def window_words(window: Window, tz: str) -> str:
    """`2026-03-01 00:00 to 2026-03-02 00:00`, in the job's zone; seconds only where there are some."""
    where = zone("tz", tz, warn=False)
    return f"{_local(window.begin.astimezone(where))} to {_local(window.end.astimezone(where))}"


def _local(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}" if not at.second and not at.microsecond else f"{at:%Y-%m-%d %H:%M:%S}"


def _print(job: str, shown: Windows, found: Windows, tz: str) -> None:
    if shown:
        columns = [
            Column(f"WINDOW ({tz})", lambda each: window_words(each.window, tz)),
            Column("STATE", _state),
            Column("FINISHED", lambda each: moment(each.finished_at), "keep", without_distance),
            Column("RUNS", lambda each: str(each.runs or "-"), "drop", right=True),
            Column("LAST RUN", lambda each: each.last_state or "-", "drop"),
            Column("EXECUTION", lambda each: each.execution_id or "-", "drop", short_id),
        ]
        print_table(columns, shown)
    note(summary(job, found))


def _state(each: WindowStatus) -> Text:
    return Text(each.state, style=status(_COLOURS.get(each.state, each.state)).style)


def summary(job: str, found: Windows) -> str:
    counts = [f"{count:,} {state}" for state, count in found.counts.items() if count]
    if not counts:
        return f"{job}: its schedule has no window in this range yet"
    holes = found.counts["missing"] + found.counts["failed"]
    hint = f"; fill the holes with: mainspring backfill start {job}" if holes else ""
    return f"{job}: {joined(counts)}{hint}"


def joined(parts: Iterable[str]) -> str:
    return ", ".join(parts)
