"""Charts as inline SVG: no script, no inline style, a title for everybody and a table for those who cannot see them.

A chart is as wide as the page permits and always as high as it says: places across it are percentages. Words of its
axes are HTML around it, so that they are as large as other words, also on a phone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec
from markupsafe import Markup, escape

STATE_COLOURS = {
    "completed": "ok",
    "partial": "warn",
    "failed": "bad",
    "cancelled": "idle",
    "skipped": "outline",
    "running": "run",
    "waiting": "run",
    "pending": "idle",
}
"""The class of a bar, by the state of its execution."""


NEARLY_EMPTY = 0.6
"""The part of a chart before the first bar from which on it says when that was."""


class Series(msgspec.Struct, frozen=True):
    """Values of one meaning, drawn in one colour: `ok`, `bad`, `warn`, `run` or `idle`."""

    name: str
    colour: str
    values: Sequence[float]


def svg(width: float, height: float, label: str, parts: Iterable[str], kind: str = "chart") -> Markup:
    """An SVG picture with this meaning for screen readers. The parts are markup already; with links among them it is a
    group of these, since the parts of an image cannot be reached."""
    size, inner = f' width="{width:g}" height="{height:g}"' if kind == "spark" else "", "".join(parts)
    size += ' preserveAspectRatio="none"' if kind == "stretched" else ""
    return Markup('<svg class="{}" viewBox="0 0 {:g} {:g}"{} role="{}" aria-label="{}">{}</svg>').format(
        kind, width, height, Markup(size), "group" if "<a " in inner else "img", label, Markup(inner)
    )


def rect(x: float, y: float, width: float, height: float, colour: str, title: str = "", radius: float = 0) -> str:
    end = f"><title>{escape(title)}</title></rect>" if title else "/>"
    rounded = f' rx="{radius:g}"' if radius else ""
    return (
        f'<rect class="{colour}" x="{round(x, 1):g}" y="{round(y, 1):g}" width="{round(max(width, 0.5), 1):g}" '
        f'height="{round(max(height, 0), 1):g}"{rounded}{end}'
    )


def stacked_bars(
    labels: Sequence[str],
    series: Sequence[Series],
    label: str,
    *,
    unit: Callable[[float], str],
    numbers: Callable[[float], str] = "{:,.0f}".format,
    end: str = "now",
    first: str = "first run",
    height: float = 100,
    least: float = 1.0,
) -> Markup:
    """One bar per label, the series on top of each other, with a table of the same numbers behind it. `unit` makes
    words of the highest bar; one as high as the chart stands for `least` or more. If nearly all of the chart is empty,
    it says when the `first` of what it counts was."""
    if not labels:
        return Markup("")
    base, step = height - 1, 100 / len(labels)
    totals = [sum(each.values[place] for each in series) for place in range(len(labels))]
    highest = max([*totals, least])
    parts = [_base_line(base)]
    for place, name in enumerate(labels):
        top = base
        words = ", ".join(f"{numbers(each.values[place])} {each.name}" for each in series)
        bars = ""
        for each in series:
            tall = each.values[place] / highest * base
            if tall > 0:
                tall = max(tall, 1.5)
                top -= tall
                bars += (
                    f'<rect class="{each.colour}" x="{(place + 0.12) * step:.2f}%" y="{top:.1f}" '
                    f'width="{step * 0.76:.2f}%" height="{tall:.1f}"/>'
                )
        if bars:
            parts.append(f"<g><title>{escape(name)}: {escape(words)}</title>{bars}</g>")
    begun = next((place for place, total in enumerate(totals) if total), 0)
    note = f"{first} {labels[begun]}" if begun > len(labels) * NEARLY_EMPTY else ""
    return figure(
        _with_axes(_wide(height, label, parts), unit(highest), labels[0], end, note),
        label,
        ["", *(each.name for each in series)],
        [[name, *(numbers(each.values[place]) for each in series)] for place, name in enumerate(labels)],
    )


def _wide(height: float, label: str, parts: Iterable[str]) -> Markup:
    """As wide as its place, without scaling what is drawn."""
    inner = "".join(parts)
    return Markup('<svg class="chart" width="100%" height="{:g}" role="{}" aria-label="{}">{}</svg>').format(
        height, "group" if "<a " in inner else "img", label, Markup(inner)
    )


def _base_line(y: float) -> str:
    return f'<line class="axis" x1="0" y1="{y:g}" x2="100%" y2="{y:g}"/>'


def _with_axes(picture: Markup, highest: str, begin: str, end: str, note: str = "") -> Markup:
    return Markup(
        '<p class="axis-top">{}</p>{}<p class="axis-ends"><span>{}</span><span>{}</span><span>{}</span></p>'
    ).format(highest, picture, begin, note, end)


def figure(picture: Markup, label: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A picture with its numbers as a table, for screen readers and for those who want to read them."""
    head = Markup("".join(f"<th scope=col>{escape(each)}</th>" for each in columns))
    body = Markup("".join(f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in row)}</tr>" for row in rows))
    return Markup(
        '<figure>{}<details class="data"><summary>Numbers<span class="sr"> of: {}</span></summary><div class="scroll">'
        '<table class="plain"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div></details></figure>'
    ).format(picture, label, head, body)


def sparkline(values: Sequence[float], label: str, *, width: float = 90, height: float = 18, kind: str = "") -> Markup:
    """A small line without axes."""
    if len(values) < 2:
        return Markup("")
    highest, step = max([*values, 1e-9]), width / (len(values) - 1)
    points = " ".join(
        f"{place * step:.1f},{height - 2 - value / highest * (height - 4):.1f}" for place, value in enumerate(values)
    )
    return svg(width, height, label, [f'<polyline class="line {escape(kind)}" points="{points}"/>'], "spark")


class Part(msgspec.Struct, frozen=True):
    """One part of a bar: `size` is its share of the length, in any unit."""

    name: str
    colour: str
    size: float
    title: str = ""


def bar_of_parts(parts: Sequence[Part], label: str, *, height: float = 18) -> Markup:
    """One horizontal bar, as wide as the page permits. Every part is wide enough to be seen."""
    width, total = 1000.0, sum(part.size for part in parts) or 1.0
    least = min(4.0, width / 2 / max(len(parts), 1))
    free, x = width - least * len(parts), 0.0
    drawn = []
    for part in parts:
        wide = least + free * part.size / total
        drawn.append(rect(x, 0, max(wide - 1, 1), height, part.colour, part.title or part.name))
        x += wide
    return svg(width, height, label, drawn, "stretched")


class Run(msgspec.Struct, frozen=True):
    """One cell of a strip of runs."""

    state: str
    title: str
    url: str


def strip(runs: Sequence[Run], label: str, *, cells: int = 30, height: float = 16) -> Markup:
    """The last runs as cells, the newest on the right; each is a link. Height and colour say the outcome."""
    shown, width = list(runs)[-cells:], cells * 8
    parts = [rect(place * 8, height - 2, 6, 2, "soft", radius=1) for place in range(cells - len(shown))]
    for place, run in enumerate(shown, cells - len(shown)):
        colour = STATE_COLOURS.get(run.state, "idle")
        tall = height if run.state in ("failed", "partial", "running") else height * 0.7
        inset = 0.5 if colour == "outline" else 0
        cell = rect(place * 8 + inset, height - tall + inset, 6 - 2 * inset, tall - 2 * inset, colour, run.title, 1.5)
        parts.append(f'<a href="{escape(run.url)}" tabindex="-1">{cell}</a>')
    return svg(width, height, label, parts, "spark")


def slots(
    running: int, total: int, label: str, links: Sequence[tuple[str, str]] = (), *, most: int = 40, row: int = 20
) -> Markup:
    """Slots as small cells, those that are taken filled. `links` are addresses and titles of what runs in the first of
    them. More than `most` slots are drawn as a share of that many."""
    cells = min(max(total, running), most)
    if not cells:
        return Markup("")
    scale = cells / max(total, running)
    filled = min(cells, max(round(running * scale), 1 if running else 0, len(links[:cells])))
    parts = []
    for place in range(cells):
        known = links[place] if place < len(links) else ("", "")
        x, y = place % row * 10, place // row * 12
        cell = (
            rect(x, y, 8, 10, "run", known[1], 2)
            if place < filled
            else rect(x + 0.5, y + 0.5, 7, 9, "outline", radius=2)
        )
        parts.append(f'<a href="{escape(known[0])}" aria-label="{escape(known[1])}">{cell}</a>' if known[0] else cell)
    return svg(min(cells, row) * 10 - 2, ((cells - 1) // row + 1) * 12 - 2, label, parts, "spark")


def two_rates(first: float, second: float, label: str, *, width: float = 60) -> Markup:
    """Two thin lines above each other, as long as the rates: what comes in, and below it what goes out."""
    highest = max(first, second)
    if not highest:
        return Markup("")
    lines = ((first, 2, "idle"), (second, 8, "run"))
    parts = [rect(0, y, rate / highest * width, 3, colour, radius=1.5) for rate, y, colour in lines if rate]
    return svg(width, 12, label, parts, "spark")


def outcome_grid(states: Sequence[str], label: str, *, cells: int = 30, height: float = 16) -> Markup:
    """As `strip`, small enough for every row of a long list: no links, one path for each colour. Oldest first."""
    shown = list(states)[-cells:]
    paths: dict[str, list[str]] = {}
    for place in range(cells):
        number = place - (cells - len(shown))
        state = shown[number] if number >= 0 else ""
        colour = STATE_COLOURS.get(state, "soft" if number < 0 else "idle")
        tall = 2 if number < 0 else height if state in ("failed", "partial", "running") else round(height * 0.7)
        inset = 0.5 if colour == "outline" else 0
        wide, high = 4 - 2 * inset, tall - 2 * inset
        shape = f"M{place * 5 + inset:g} {height - tall + inset:g}h{wide:g}v{high:g}h-{wide:g}z"
        paths.setdefault(colour, []).append(shape)
    parts = [f'<path class="{colour}" d="{"".join(path)}"/>' for colour, path in paths.items()]
    return svg(cells * 5, height, label, parts, "spark")


FAR_ABOVE = 4
"""Times the upper end of the band."""


class Dot(msgspec.Struct, frozen=True):
    """One run: when it started, its duration, what became of it."""

    at: datetime
    seconds: float
    state: str
    url: str


def dots(
    runs: Sequence[Dot],
    label: str,
    *,
    band: tuple[float, float] | None = None,
    words: Callable[[float], str],
    when: Callable[[datetime], str],
    height: float = 130,
) -> Markup:
    """Durations over time, oldest first. The band is where most of them lie; what is far above it is drawn at the top,
    so that it does not flatten all others."""
    if not runs:
        return Markup("")
    base, longest = height - 1, max(each.seconds for each in runs)
    highest = max(0.001, longest if band is None else min(longest, band[1] * FAR_ABOVE)) * 1.08
    begin, end = runs[0].at, runs[-1].at
    across = max((end - begin).total_seconds(), 1.0)

    def level(seconds: float) -> float:
        return base - min(seconds / highest, 1.0) * (base - 5)

    parts = [_base_line(base)]
    if band is not None:
        tall = max(level(band[0]) - level(band[1]), 1.5)
        parts.append(f'<rect class="band" x="0" y="{level(band[1]):.1f}" width="100%" height="{tall:.1f}"/>')
    for each in runs:
        x = 1 + (each.at - begin).total_seconds() / across * 98 if end > begin else 50
        title = f"{when(each.at)}: {words(each.seconds)}, {each.state}"
        mark = _cross(x, level(each.seconds)) if each.state == "failed" else _circle(x, level(each.seconds), each.state)
        parts.append(f'<a href="{escape(each.url)}" tabindex="-1">{mark}<title>{escape(title)}</title></a>')
    top = f"{words(highest)} and more" if longest > highest else words(highest)
    return figure(
        _with_axes(_wide(height, label, parts), top, when(begin), when(end)),
        label,
        ["started", "duration", "outcome"],
        [[when(each.at), words(each.seconds), each.state] for each in reversed(runs)],
    )


def _circle(x: float, y: float, state: str) -> str:
    return f'<circle class="{STATE_COLOURS.get(state, "idle")}" cx="{x:.2f}%" cy="{y:.1f}" r="3"/>'


def _cross(x: float, y: float) -> str:
    """Failures differ by their form too."""
    cross = '<path class="cross" d="M-3.5-3.5l7 7m0-7l-7 7"/>'
    return f'<svg x="{x:.2f}%" y="{y:.1f}" overflow="visible">{cross}</svg>'
