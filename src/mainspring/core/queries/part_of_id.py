"""Executions by the beginning or the end of their id: people read and type the end, where ids differ."""

from __future__ import annotations

import re

from ...model.execution import ExecutionRow
from ...model.values.ids import LENGTH
from .queries import Queries

SHORTEST = 8
PAGE, PAGES = 1_000, 10
"""An ending is searched for in so many pages of the newest executions."""

_PART = re.compile(r"[0-9a-f-]+")
_HIGHEST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def is_part(text: str) -> bool:
    """Whether it can be a part of an id that is worth looking for."""
    return SHORTEST <= len(text) < LENGTH and _PART.fullmatch(text) is not None


async def with_part(queries: Queries, part: str) -> list[ExecutionRow]:
    """The executions whose id begins with this text, or else those whose id ends with it; two of them are enough to
    show that it is ambiguous."""
    return await _beginning_with(queries, part) or await ending_with(queries, part)


async def _beginning_with(queries: Queries, part: str) -> list[ExecutionRow]:
    """Ids are in order, so two rows show whether it is unique."""
    highest = part + _HIGHEST[len(part) :]
    return [run for run in await queries.executions(before=highest, limit=2, system=True) if run.id.startswith(part)]


async def ending_with(queries: Queries, part: str, pages: int = PAGES) -> list[ExecutionRow]:
    found: list[ExecutionRow] = []
    before = None
    for _ in range(pages):
        page = await queries.executions(before=before, limit=PAGE, system=True)
        found += [run for run in page if run.id.endswith(part)]
        if len(page) < PAGE:
            break
        before = page[-1].id
    return found
