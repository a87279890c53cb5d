"""Horizontal bars as SVG, drawn by hand: a picture needs no library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.figures import number

WIDTH, LEFT, RIGHT = 760, 230, 110
BAR, GAP, TOP = 20, 8, 40
OURS, RAW, OTHERS = "#2463c4", "#8a8f98", "#c9ced6"
TEXT = "#4a4f57"


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    least: float
    most: float


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """One bar for each row, as long as its median, with a line from the least to the most."""
    scale = (WIDTH - LEFT - RIGHT) / max((row.most for row in rows), default=1.0)
    height = TOP + len(rows) * (BAR + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="600" fill="#1d2127">{escape(title)}</text>',
    ]
    for place, row in enumerate(rows):
        parts += _bar(row, TOP + place * (BAR + GAP), scale, unit)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(row: Bar, top: int, scale: float, unit: str) -> list[str]:
    middle, end = top + BAR / 2, LEFT + row.value * scale
    return [
        f'<text x="{LEFT - 8}" y="{middle + 4.5:.1f}" text-anchor="end" fill="{TEXT}">{escape(row.label)}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{max(1.0, end - LEFT):.1f}" height="{BAR}" rx="2" '
        f'fill="{colour(row.label)}"/>',
        f'<line x1="{LEFT + row.least * scale:.1f}" x2="{LEFT + row.most * scale:.1f}" y1="{middle}" y2="{middle}" '
        f'stroke="#1d2127" stroke-width="1.5"/>',
        f'<text x="{LEFT + max(row.value, row.most) * scale + 8:.1f}" y="{middle + 4.5:.1f}" fill="{TEXT}">'
        f"{number(row.value)} {escape(unit)}</text>",
    ]


def colour(label: str) -> str:
    if label.startswith("raw"):
        return RAW
    return OURS if label.startswith("Mainspring") else OTHERS
