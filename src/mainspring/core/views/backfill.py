"""`Backfill`: what users hold of a backfill."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ...model.backfill import OVER, BackfillRow, BackfillState, Only, Order
from ...model.windows import Window


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill, and how many of its windows have ended in which way.

    `window` is the range that was asked for. `already_done` and `already_running` windows of it were left out at the
    start; `skipped` ones were completed by another execution before their turn, `held` ones were running elsewhere.
    `windows` are only listed by a dry run.
    """

    id: str
    job: str
    state: BackfillState
    reason: str | None
    window: Window
    order: Order
    only: Only
    force: bool
    concurrency: int
    pace: float | None
    params: dict[str, Any] | None
    note: str | None
    total: int
    ended: int
    running: int
    completed: int
    failed: int
    cancelled: int
    skipped: int
    held: int
    already_done: int
    already_running: int
    created_at: datetime
    created_by: str
    started_at: datetime | None
    finished_at: datetime | None
    windows: tuple[Window, ...] = ()

    @property
    def over(self) -> bool:
        """Whether it has finished."""
        return self.state in OVER


def backfill_view(row: BackfillRow) -> Backfill:
    values = {name: getattr(row, name) for name in Backfill.__struct_fields__}
    values["params"] = None if row.params is None else msgspec.json.decode(row.params)
    return Backfill(**values)
