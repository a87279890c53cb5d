"""Tables that fit the terminal: cells get shorter, then less important columns give way; keys are never cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from rich.text import Text

from .output import cell, console, note

GAP = 2
NARROWEST = 10
"""How far a column that may be cut is cut, before others are left out."""

Way = Literal["keep", "cut", "drop", "last"]
"""How a column gives way: never; cut off with an ellipsis; left out; or cut, and left out when all else is gone."""

Shorter = Callable[[str], str]


def print_table(
    titles: Mapping[str, Way], rows: Sequence[Sequence[Text | str]], shorter: Mapping[int, Shorter] | None = None
) -> None:
    """`shorter` has, by column, how its cells are said in fewer words: used one by one until the table fits."""
    screen = console()
    ways = list(titles.values())
    lines = [[Text(title, style="bold") for title in titles], *([cell(value) for value in row] for row in rows)]
    told = [at for at in range(len(ways)) if at == 0 or any(line[at].plain not in ("", "-") for line in lines[1:])]
    _shorten(lines, told, ways, shorter or {}, screen.width)
    natural = [max(line[at].cell_len for line in lines) for at in told]
    widths = fitting_widths([ways[at] for at in told], natural, screen.width)
    for line in lines:
        screen.print(_line([line[at] for at in told], widths), soft_wrap=True)
    if hidden := len(told) - len(widths):
        note(f"({hidden} column{'s' * (hidden > 1)} hidden; widen the terminal or use -o json)")


def fitting_widths(ways: Sequence[Way], natural: Sequence[int], width: int) -> dict[int, int]:
    """The width of each column that is shown.

    >>> fitting_widths(["keep", "cut", "drop"], [20, 30, 15], 40)
    {0: 20, 1: 18}
    """
    least = dict(enumerate(_least(ways, natural)))
    for way in ("drop", "last"):
        for at in reversed(range(len(ways))):
            if ways[at] == way and _total(least.values()) > width:
                del least[at]
    widths = {at: natural[at] for at in least}
    while (excess := _total(widths.values()) - width) > 0:
        at = max(widths, key=lambda column: widths[column] - least[column])
        if widths[at] == least[at]:
            break  # the terminal is too narrow for what is never cut: let it wrap
        widths[at] = max(least[at], widths[at] - excess)
    return widths


def _shorten(
    lines: Sequence[list[Text]], told: Sequence[int], ways: Sequence[Way], shorter: Mapping[int, Shorter], width: int
) -> None:
    for at, shorten in shorter.items():
        natural = [max(line[column].cell_len for line in lines) for column in told]
        if _total(_least([ways[column] for column in told], natural)) <= width:
            return
        for line in lines:
            line[at] = Text(shorten(line[at].plain), style=line[at].style)


def _least(ways: Sequence[Way], natural: Sequence[int]) -> list[int]:
    return [min(size, NARROWEST) if way in ("cut", "last") else size for way, size in zip(ways, natural, strict=True)]


def _total(widths: Collection[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _line(line: Sequence[Text], widths: Mapping[int, int]) -> Text:
    parts = []
    for at, width in widths.items():
        part = line[at].copy()
        part.truncate(width, overflow="ellipsis", pad=True)
        parts.append(part)
    joined = Text(" " * GAP).join(parts)
    joined.rstrip()
    return joined
