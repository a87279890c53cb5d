"""Tables that fit the terminal: less important columns give way, ids and times are never cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rich.text import Text

from .output import cell, console

GAP = 2
NARROWEST = 10
"""How far a column that may be cut is cut, before others are left out."""

Way = Literal["keep", "cut", "drop", "last"]
"""How a column gives way: never; cut off with an ellipsis; left out; or cut, and left out when all else is gone."""


def print_table(titles: Mapping[str, Way], rows: Sequence[Sequence[Text | str]]) -> None:
    screen = console()
    ways = list(titles.values())
    lines = [[Text(title, style="bold") for title in titles], *([cell(value) for value in row] for row in rows)]
    natural = [max(line[at].cell_len for line in lines) for at in range(len(ways))]
    widths = fitting_widths(ways, natural, screen.width)
    for line in lines:
        screen.print(_line(line, widths), soft_wrap=True)


def fitting_widths(ways: Sequence[Way], natural: Sequence[int], width: int) -> dict[int, int]:
    """The width of each column that is shown.

    >>> fitting_widths(["keep", "cut", "drop"], [20, 30, 15], 40)
    {0: 20, 1: 18}
    """
    least = {at: min(size, NARROWEST) if ways[at] in ("cut", "last") else size for at, size in enumerate(natural)}
    for way in ("drop", "last"):
        for at in reversed(range(len(ways))):
            if ways[at] == way and _total(least) > width:
                del least[at]
    widths = {at: natural[at] for at in least}
    while (excess := _total(widths) - width) > 0:
        at = max(widths, key=lambda column: widths[column] - least[column])
        if widths[at] == least[at]:
            break  # the terminal is too narrow for what is never cut: let it wrap
        widths[at] = max(least[at], widths[at] - excess)
    return widths


def _total(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _line(line: Sequence[Text], widths: Mapping[int, int]) -> Text:
    parts = []
    for at, width in widths.items():
        part = line[at].copy()
        part.truncate(width, overflow="ellipsis", pad=True)
        parts.append(part)
    joined = Text(" " * GAP).join(parts)
    joined.rstrip()
    return joined
