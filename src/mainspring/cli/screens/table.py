"""Tables that fit the terminal: cells get shorter, then less important columns give way; keys are never cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rich.text import Text

from .output import console, note, table_cell

GAP = 2
NARROWEST = 10
"""The width to which a column may be cut before others are left out."""

Way = Literal["keep", "cut", "drop", "last"]
"""What happens to a column that does not fit: nothing; it is cut with an ellipsis; it is left out; or it is cut, and
left out after all others."""

Shorter = Callable[[str], str]


class Column(NamedTuple):
    """A title, the cell of an item, and what may happen to the column if the table is too wide: it may say its cells in
    fewer words (`shorter`), and it may give way. Others are shortened and left out to keep it `readable` so wide.
    Numbers are `right`-aligned."""

    title: str
    cell: Callable[[Any], Text | str]
    way: Way = "keep"
    shorter: Shorter | None = None
    readable: int = NARROWEST
    right: bool = False


def print_table(columns: Sequence[Column], items: Iterable[Any]) -> None:
    """Columns without content are left out."""
    screen = console()
    lines, hidden = table_lines(columns, items, screen.width)
    for line in lines:
        screen.print(line, soft_wrap=True)
    if hidden:
        note(f"({hidden} column{'s' * (hidden > 1)} hidden; widen the terminal or use -o json)")


def table_lines(columns: Sequence[Column], items: Iterable[Any], width: int) -> tuple[list[Text], int]:
    """The title and a line for each item, and how many columns found no place."""
    lines = [[Text(column.title, style="bold") for column in columns]]
    lines += [[table_cell(column.cell(item)) for column in columns] for item in items]
    filled = [at for at in range(len(columns)) if at == 0 or any(line[at].plain not in ("", "-") for line in lines[1:])]
    ways, readable = [columns[at].way for at in filled], [columns[at].readable for at in filled]
    _shorten(lines, filled, columns, width)
    natural = [max(line[at].cell_len for line in lines) for at in filled]
    widths = fitting_widths(ways, natural, width, readable)
    right = [columns[at].right for at in filled]
    return [_line([line[at] for at in filled], widths, right) for line in lines], len(filled) - len(widths)


def fitting_widths(
    ways: Sequence[Way], natural: Sequence[int], width: int, readable: Sequence[int] = ()
) -> dict[int, int]:
    """The width of each column that is shown.

    >>> fitting_widths(["keep", "cut", "drop"], [20, 30, 15], 40)
    {0: 20, 1: 18}
    >>> fitting_widths(["keep", "last", "drop"], [20, 90, 15], 60, [10, 36, 10])
    {0: 20, 1: 38}
    >>> fitting_widths(["cut", "cut"], [50, 60], 60, [30, 20]), fitting_widths(["cut", "cut"], [50, 60], 40, [30, 20])
    ({0: 38, 1: 20}, {0: 18, 1: 20})
    """
    least = dict(enumerate(_least(ways, natural)))
    wished = dict(enumerate(_least(ways, natural, readable)))
    for way in ("drop", "last"):
        for at in reversed(range(len(ways))):
            if ways[at] == way and _total((wished if way == "drop" else least).values()) > width:
                del least[at], wished[at]
    widths = {at: natural[at] for at in least}
    for floor in (wished, least):  # if the terminal is too narrow even for what is never cut, lines wrap
        for at in sorted(widths, key=lambda column: floor[column] - widths[column]):
            excess = max(0, _total(widths.values()) - width)
            widths[at] = max(min(floor[at], widths[at]), widths[at] - excess)
    return widths


def _shorten(lines: Sequence[list[Text]], filled: Sequence[int], columns: Sequence[Column], width: int) -> None:
    """One column after another, until the table fits."""
    for at, column in enumerate(columns):
        natural = [max(line[each].cell_len for line in lines) for each in filled]
        ways, readable = [columns[each].way for each in filled], [columns[each].readable for each in filled]
        if column.shorter is None or _total(_least(ways, natural, readable)) <= width:
            continue
        for line in lines:
            line[at] = Text(column.shorter(line[at].plain), style=line[at].style)


def _least(ways: Sequence[Way], natural: Sequence[int], readable: Sequence[int] = ()) -> list[int]:
    limits = readable or [NARROWEST] * len(ways)
    return [
        min(size, limit) if way in ("cut", "last") else size
        for way, size, limit in zip(ways, natural, limits, strict=True)
    ]


def _total(widths: Collection[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _line(line: Sequence[Text], widths: Mapping[int, int], right: Sequence[bool]) -> Text:
    parts = []
    for at, width in widths.items():
        part = line[at].copy()
        if right[at]:
            part.pad_left(max(0, width - part.cell_len))
        part.truncate(width, overflow="ellipsis", pad=True)
        parts.append(part)
    joined = Text(" " * GAP).join(parts)
    joined.rstrip()
    return joined
