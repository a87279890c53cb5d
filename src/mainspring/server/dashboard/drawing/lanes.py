"""The timeline as a picture: an axis in the viewer's zone, and below it one lane of bars for each row.

Lanes are stretched to the width of the page, so shapes are paths in a box of 1,000 units; the axis, which has words, is
laid out by percentages. Bars of the past are links. A failed run stands higher than others: colour never stands alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta, tzinfo

import msgspec
from markupsafe import Markup, escape

from ....core.forecast.clock_changes import describe
from ....core.forecast.forecast import MINUTE
from ....core.forecast.timeline import OVERLAPS, Bar, Timeline, TimelineRow, coarser
from ....model.execution import State
from ....model.time.instants import SECOND, Micros, to_datetime, to_micros
from ....model.time.zones import zone_name
from .. import format
from ..visit import Visit
from .charts import STATE_COLOURS

WIDTH, HEIGHT = 1_000, 26
THINNEST = 2.4
LARGEST, FEWEST = 105_000, 8
"""How many characters the lanes may have together, and how few bars a row has before that does not matter."""
QUARTER = timedelta(minutes=15)
STEPS = {6: 2, 24: 6, 72: 24}
"""Hours between two labels of the axis, by the hours that are shown on each side."""
ORDER = ("skipped", "cancelled", "pending", "completed", "waiting", "running", "partial", "failed")
"""What is drawn first may be covered by what comes after it."""
RAISED = frozenset({"failed", "partial"})
"""Drawn higher than others, which show below them where both are close together."""


class Lane(msgspec.Struct, frozen=True):
    """A row with its picture and what the picture shows, in words."""

    row: TimelineRow
    url: str
    picture: Markup
    past: str
    ahead: str


class Lanes:
    def __init__(self, visit: Visit, found: Timeline, hours: int) -> None:
        self._visit, self._found, self._hours = visit, found, hours
        self._zone: tzinfo = visit.zone
        self._pattern = "%H:%M" if hours <= 24 else "%a %H:%M"

    def lanes(self) -> list[Lane]:
        """All lanes. If they get too large, bars that are close to each other become one."""
        rows = self._found.rows
        while True:
            lanes = [self._lane(row) for row in rows]
            if sum(len(lane.picture) for lane in lanes) <= LARGEST or max(len(row.past) for row in rows) <= FEWEST:
                return lanes
            rows = tuple(coarser(row) for row in rows)

    def clock(self, at: Micros) -> str:
        return f"{to_datetime(at).astimezone(self._zone):{self._pattern}}"

    # --- axis ---------------------------------------------------------------------------------------------
    def axis(self) -> Markup:
        """Hours in the viewer's zone, now, and the clock changes. What all lanes share is defined here once."""
        found, parts = self._found, list[str]()
        for at, words in self._labels():
            parts.append(f'<text x="{self._share(at) * 100:.2f}%" y="27" text-anchor="middle">{escape(words)}</text>')
        for each in found.changes:
            place, shift = self._share(to_micros(each.change.at)) * 100, format.span(each.change.size.total_seconds())
            sign = "+" if each.change.kind == "gap" else "-"
            parts.append(
                f'<g class="warn"><title>{escape(describe(each.zone, each.change))}</title>'
                f'<rect x="{place:.2f}%" y="2" width="3" height="30"/>'
                f'<text x="{place:.2f}%" y="10" dx="6">clocks {sign}{shift}</text></g>'
            )
        parts.append(f'<text class="now-text" x="50%" y="12" text-anchor="middle">now {self.clock(found.now)}</text>')
        begin, end = (f"{to_datetime(at).astimezone(self._zone):%a %H:%M}" for at in (found.begin, found.end))
        shared = f'<defs><g id="lane-grid">{self._grid()}</g></defs>'
        return Markup('<svg class="hours" width="100%" height="32" role="img" aria-label="{}">{}</svg>').format(
            f"from {begin} to {end}, {zone_name(self._zone)}", Markup(shared + "".join(parts))
        )

    def _labels(self) -> list[tuple[Micros, str]]:
        """The full hours to label. Quarters of an hour are looked at: no zone's offset is finer."""
        found, step = self._found, STEPS[self._hours]
        begin = to_datetime(found.begin)
        at = begin.replace(minute=begin.minute // 15 * 15, second=0, microsecond=0) + QUARTER
        labels = []
        while at < to_datetime(found.end):
            local = at.astimezone(self._zone)
            if not local.minute and not local.hour % step:
                labels.append((to_micros(at), f"{local:%H:%M}" if local.hour else f"{local:%a %-d}"))
            at += QUARTER
        return labels

    def _grid(self) -> str:
        lines = "".join(f"M{self._x(at):.1f},0v{HEIGHT}" for at, _ in self._labels())
        crowds = "".join(self._shape(each.at, each.at, 0, HEIGHT, 4) for each in self._found.crowds)
        changes = "".join(f"M{self._x(to_micros(each.change.at)):.1f},0v{HEIGHT}" for each in self._found.changes)
        shaded = f'<path class="lane-crowds" d="{crowds}"/>' if crowds else ""
        changed = f'<path class="lane-changes" d="{changes}"/>' if changes else ""
        return f'<path class="lane-hours" d="{lines}"/>{shaded}{changed}<path class="lane-now" d="M500,0v{HEIGHT}"/>'

    # --- lanes --------------------------------------------------------------------------------------------
    def _lane(self, row: TimelineRow) -> Lane:
        past, ahead = self._past_words(row), self._ahead_words(row)
        parts = ['<use href="#lane-grid"/>']
        since = self._known_since(row)
        if since is not None:
            shape = self._shape(self._found.begin, since, 13, 2)
            parts.append(f'<path class="soft" d="{shape}"><title>older runs are not shown here</title></path>')
        by_outcome = sorted(row.past, key=lambda bar: ORDER.index(bar.outcome) if bar.outcome in ORDER else -1)
        parts += [self._past_bar(row, bar) for bar in by_outcome]
        for name, bars in self._ahead_bars(row).items():
            title = "an earlier run would still be running" if name == "clash" else ahead
            shapes = "".join(self._shape(bar.begin, bar.end, 9, 10) for bar in bars)
            parts.append(f'<path class="{name}" d="{shapes}"><title>{escape(title)}</title></path>')
        picture = Markup(
            '<svg class="lane" viewBox="0 0 {} {}" preserveAspectRatio="none" role="{}" aria-label="{}">{}</svg>'
        ).format(WIDTH, HEIGHT, "group" if row.past else "img", f"{row.name}: {past}; {ahead}", Markup("".join(parts)))
        return Lane(row, self._row_url(row), picture, past, ahead)

    def _ahead_bars(self, row: TimelineRow) -> dict[str, list[Bar]]:
        """The bars to come by the class that they are drawn with."""
        found: dict[str, list[Bar]] = {}
        for bar in row.ahead:
            name = "clash" if bar.outcome == OVERLAPS else "planned many" if bar.count > 1 else "planned"
            found.setdefault(name, []).append(bar)
        return found

    def _known_since(self, row: TimelineRow) -> Micros | None:
        since = row.known_since or self._found.known_since
        return since if since is not None and since > self._found.begin else None

    def _past_bar(self, row: TimelineRow, bar: Bar) -> str:
        top, tall = (3, 13) if bar.outcome in RAISED else (9, 10)
        shape = self._shape(bar.begin, bar.end, top, tall)
        colour = STATE_COLOURS.get(bar.outcome, "idle")
        return (
            f'<a href="{escape(self._bar_url(row, bar))}" tabindex="-1"><path class="{colour}" d="{shape}">'
            f"<title>{escape(self._bar_words(bar))}</title></path></a>"
        )

    def _bar_words(self, bar: Bar) -> str:
        begin = self.clock(bar.begin)
        if bar.count > 1:
            return f"{bar.count:,} {bar.outcome}, {begin} to {self.clock(bar.end)}"
        return f"{bar.outcome} {begin}, {format.span((bar.end - bar.begin) / SECOND)}"

    def _bar_url(self, row: TimelineRow, bar: Bar) -> str:
        if bar.id is not None:
            return self._visit.url("executions", bar.id)
        since, until = (f"{to_datetime(at):%Y-%m-%dT%H:%M:%SZ}" for at in (bar.begin - MINUTE, bar.end + SECOND))
        found = {self._found.by: row.name, "status": bar.outcome, "since": since, "until": until}
        return self._visit.url("executions", **found)

    def _row_url(self, row: TimelineRow) -> str:
        if self._found.by == "tenant":
            return self._visit.url("executions", tenant=row.name)
        return self._visit.url(f"{self._found.by}s", row.name)

    def _past_words(self, row: TimelineRow) -> str:
        said = [f"{row.counts[state]:,} {state}" for state in _states(row)]
        return ", ".join(said) or "no runs"

    def _ahead_words(self, row: TimelineRow) -> str:
        if not row.planned or row.next is None:
            return row.idle or "nothing to come"
        count = f"more than {row.planned:,}" if row.goes_on else f"{row.planned:,}"
        return f"{count} to come, next {self.clock(row.next)}"

    # --- geometry -----------------------------------------------------------------------------------------
    def _share(self, at: Micros) -> float:
        found = self._found
        return min(max((at - found.begin) / (found.end - found.begin), 0.0), 1.0)

    def _x(self, at: Micros) -> float:
        return self._share(at) * WIDTH

    def _shape(self, begin: Micros, end: Micros, top: float, tall: float, thinnest: float = THINNEST) -> str:
        """A rectangle as part of a path, at least as wide as can be seen."""
        left = min(self._x(begin), WIDTH - thinnest)
        return f"M{left:.1f},{top}h{max(self._x(end) - left, thinnest):.1f}v{tall}H{left:.1f}z"


def _states(row: TimelineRow) -> Sequence[str]:
    return [state.value for state in State if row.counts.get(state.value)]
