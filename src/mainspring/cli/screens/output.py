"""Output for people, with relative and absolute times, and JSON for programs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from ...core.rules.problems import span_text
from ...model.values.reading import zone
from ...model.values.terminal_text import on_terminal, one_line
from ..terminal import echo, json_text

_UTC_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b")
LONGEST = 400
"""The most characters of parameters or a result that a screen shows."""
SHORTEST_LINE = 20

STYLES = {
    "running": "cyan",
    "completed": "green",
    "scheduled": "blue",
    "failed": "bold red",
    "partial": "yellow",
    "paused": "yellow",
    "skipped": "yellow",
    "cancelled": "magenta",
    "pending": "white",
    "waiting": "cyan",
}


class SafeConsole(Console):
    """Escapes what could steer the terminal in all that is printed; colours and cursor movements of its own stay."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            safe = segment.control or segment.text.isprintable()
            yield segment if safe else segment._replace(text=on_terminal(segment.text))


def console(*, stderr: bool = False) -> Console:
    """Standard output. For pipes and files it is so wide that nothing is cut."""
    plain = SafeConsole(stderr=stderr, markup=False, highlight=False, emoji=False)
    if plain.is_terminal or os.environ.get("COLUMNS"):
        return plain
    return SafeConsole(stderr=stderr, markup=False, highlight=False, emoji=False, width=240)


def note(text: str) -> None:
    """Print a line to standard error, so that a pipe gets the output alone."""
    echo(one_line(text), err=True)


def print_json(data: Any) -> None:
    echo(json_text(data, indent=2))


def print_fields(fields: Mapping[str, Text | str | None]) -> None:
    """One name and value on each line, without empty ones."""
    print_indented([(Text(name, style="bold"), cell(value)) for name, value in fields.items() if value])


def print_indented(rows: Sequence[tuple[Text, Text]]) -> None:
    """Names in one column, and texts in another, in which long ones are wrapped."""
    screen = console()
    indent = max((name.cell_len for name, _ in rows), default=0) + 2
    for name, text in rows:
        lines = text.wrap(screen, max(SHORTEST_LINE, screen.width - indent), overflow="fold")
        for at, line in enumerate(lines or [Text()]):
            line.rstrip()
            start = name.copy() if at == 0 else Text()
            start.pad_right(indent - start.cell_len)
            screen.print(Text.assemble(start, line), soft_wrap=True)


def print_lines(lines: Iterable[str], title: str, indent: str = "") -> None:
    screen = console()
    screen.print(Text(f"\n{title}", style="bold"))
    for line in lines:
        screen.print(Text(indent + one_line(line)), soft_wrap=True)


def print_text(text: str, title: str) -> None:
    """A traceback: indented, so that no line of it passes for one of ours."""
    print_lines(text.rstrip("\n").split("\n"), title, indent="    ")


def cell(value: Text | str) -> Text:
    """Control characters, which could steer the reader's terminal, are escaped; line breaks stay."""
    return value if isinstance(value, Text) else Text(on_terminal(value))


def table_cell(value: Text | str) -> Text:
    """The same in one line: a line break in it would begin what looks like another row."""
    text = cell(value)
    return text if text.plain.isprintable() else Text(one_line(text.plain), style=text.style)


def status(name: str | None) -> Text:
    return Text(name or "-", style=STYLES.get(name or "", ""))


def now() -> datetime:
    return datetime.now(UTC)


def moment(at: datetime | None, at_present: datetime | None = None) -> str:
    """`2026-03-01 14:00:05 (in 3 min)`, in the reader's own zone; the date is left out for today."""
    if at is None:
        return "-"
    present = at_present or now()
    local = at.astimezone()
    clock = f"{local:%H:%M:%S}" if local.date() == present.astimezone().date() else f"{local:%Y-%m-%d %H:%M}"
    return f"{clock} ({relative(at - present)})"


def moment_in(at: datetime, at_present: datetime, tz: str) -> str:
    """The same, followed by the time in a zone where clocks show another time."""
    there = at.astimezone(zone("tz", tz, warn=False))
    if there.utcoffset() == at.astimezone().utcoffset():
        return moment(at, at_present)
    return f"{moment(at, at_present)}, {there:%Y-%m-%d %H:%M:%S} {tz}"


def with_local_times(text: str, at_present: datetime | None = None) -> str:
    """The text with its times in the reader's own zone instead of UTC."""
    return _UTC_TIME.sub(lambda found: without_distance(moment(datetime.fromisoformat(found[0]), at_present)), text)


def without_distance(text: str) -> str:
    """A moment, or the title above moments, without the parentheses after it."""
    return text.partition(" (")[0]


def own_clock(at: datetime) -> str:
    """`2026-03-01 14:00:05 +0100`: a time by the reader's own clock, beside one in another zone."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %z}"


def local_zone(at: datetime) -> str:
    """What the reader's own zone is called at that time: `UTC`, `CET`."""
    return at.astimezone().tzname() or "local"


def relative(distance: timedelta) -> str:
    seconds = distance.total_seconds()
    if abs(seconds) < 1:
        return "now"
    text = rough(abs(seconds))
    return f"in {text}" if seconds > 0 else f"{text} ago"


def rough(seconds: float) -> str:
    """Whole seconds, or larger units: `2 d 3 h`."""
    return span_text(max(round(seconds), 1))


def took(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "-"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 60_000 else rough(milliseconds / 1000)


def first_line(text: str | None) -> str:
    return text.strip().splitlines()[0] if text and text.strip() else ""


def compact(data: Any) -> str:
    """JSON on one line, cut if it is long."""
    text = json.dumps(data, ensure_ascii=False, default=str) if data not in (None, {}, [], "") else ""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters; all of it with -o json)"


def progress_text(progress: Mapping[str, Any] | None, running: bool = False) -> str:
    """How far it is; while it runs, also how fast and how long it will take.

    >>> progress_text({"done": 6, "total": 20, "message": "row 6", "rate": 0.5, "eta_seconds": 28.0}, running=True)
    '6/20 (30%), 0.5/s, 28 s left: row 6'
    >>> progress_text({"done": 20, "total": 20, "rate": 0.99874, "eta_seconds": 0.0}, running=True)
    '20/20 (100%), 1/s'
    """
    if not progress:
        return ""
    done, total, rate, left = (progress.get(name) for name in ("done", "total", "rate", "eta_seconds"))
    parts = [f"{done or 0:g}/{total:g} ({(done or 0) / total:.0%})" if total else f"{done or 0:g}"]
    if running and rate is not None:
        parts.append(f"{_rate_text(rate)}/s")
    if running and left:
        parts.append(f"{rough(left)} left")
    message = progress.get("message")
    return ", ".join(parts) + (f": {message}" if message else "")


def _rate_text(rate: float) -> str:
    """In two digits; from 100 on in whole numbers.

    >>> _rate_text(0.99874), _rate_text(0.0123), _rate_text(12.34), _rate_text(12_345.6)
    ('1', '0.012', '12', '12,346')
    """
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.2g}"
