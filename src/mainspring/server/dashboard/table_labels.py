"""Names the cells of tables: on a phone each row is a block, and each cell shows the heading of its column.

The stylesheet reads a cell's heading from its attribute `data-label`. It is added to the finished page, so that no
template has to write every heading twice; a cell that already has the attribute keeps it. Everything that a template
prints is escaped: `<td` is always a cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup

_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
"""Tables with a class have their own layout."""
_HEAD = re.compile(r"<thead>(.*?)</thead>", re.DOTALL)
_HEADING = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW_OR_CELL = re.compile(r"<tr\b|<td\b([^>]*)>(\s*</td>)?")
_ARROWS = " ↑↓"


def label_cells(page: str) -> str:
    """
    >>> label_cells("<table><thead><tr><th>job</th></tr></thead><tbody><tr><td>crawl</td></tr></tbody></table>")
    '<table><thead><tr><th>job</th></tr></thead><tbody><tr><td data-label="job">crawl</td></tr></tbody></table>'
    """
    return _TABLE.sub(lambda table: _labelled(table[0]), page)


def _labelled(table: str) -> str:
    head = _HEAD.search(table)
    if head is None:
        return table
    labels = [Markup(each[1]).striptags().strip(_ARROWS) for each in _HEADING.finditer(head[1])]
    marks = [Markup(' data-label="{}"').format(label) if label else "" for label in labels]
    left: Iterator[str] = iter(())

    def mark(found: re.Match[str]) -> str:
        nonlocal left
        if found[0] == "<tr":
            left = iter(marks)
            return found[0]
        label = next(left, "")
        if "data-label=" in found[1]:
            return found[0]
        return f"<td{found[1]}></td>" if found[2] else f"<td{label}{found[1]}>"

    return table[: head.end()] + _ROW_OR_CELL.sub(mark, table[head.end() :])
