"""Execution ids as people type them: in full, or a beginning or an ending that only one execution has."""

from __future__ import annotations

from ..app.mainspring import Mainspring
from ..core.views.execution import Execution
from ..model.errors import ExecutionNotFound, InvalidValue

SHORTEST = 8
ENDING = 12
PAGE, PAGES = 1_000, 10
"""An ending is searched for in so many pages of the newest executions."""

_HIGHEST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def short_id(id: str) -> str:
    """The end of an id, where ids differ: they begin with the time.

    >>> short_id("019a1b2c-3d4e-7f00-8a1b-0123456789ab")
    '…0123456789ab'
    """
    return f"…{id[-ENDING:]}" if len(id) == len(_HIGHEST) else id


async def find_execution(app: Mainspring, text: str) -> Execution:
    """The execution with this id, or with this beginning or ending of an id."""
    part = text.strip().lstrip("….").lower()
    if len(part) >= len(_HIGHEST) or len(part) < SHORTEST or not set(part) <= set("0123456789abcdef-"):
        return await app.get(text)
    found = await _beginning_with(app, part) or await _ending_with(app, part)
    if not found:
        raise ExecutionNotFound(text)
    if len(found) > 1:
        raise InvalidValue("execution id", text, "a part that one execution has alone", f"It fits {_some(found)}")
    return found[0]


async def _beginning_with(app: Mainspring, part: str) -> list[Execution]:
    """Ids are in order, so two rows show whether it is unique."""
    highest = part + _HIGHEST[len(part) :]
    return [run for run in await app.executions(before=highest, limit=2) if run.id.startswith(part)]


async def _ending_with(app: Mainspring, part: str) -> list[Execution]:
    found: list[Execution] = []
    before = None
    for _ in range(PAGES):
        page = await app.executions(before=before, limit=PAGE)
        found += [run for run in page if run.id.endswith(part)]
        if len(page) < PAGE:
            break
        before = page[-1].id
    return found


def _some(found: list[Execution]) -> str:
    return f"{found[0].id} and {found[1].id}" + (", among others" if len(found) > 2 else "")
