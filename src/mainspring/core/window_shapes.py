"""Windows and backfills as plain data, with the field names of the HTTP interface."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model.backfill import Backfill, Windows, WindowStatus
from ..model.windows import Window
from .shapes import instant_text


def windows_shape(job: str, windows: Windows) -> dict[str, Any]:
    return {"job": job, "counts": windows.counts, "windows": [status_shape(each) for each in windows]}


def status_shape(status: WindowStatus) -> dict[str, Any]:
    return {
        **window_shape(status.window),
        "state": status.state,
        "execution_id": status.execution_id,
        "last_status": status.last_state,
        "runs": status.runs,
        "finished_at": instant_text(status.finished_at),
    }


def window_shape(window: Window) -> dict[str, Any]:
    return {"begin": instant_text(window.begin), "end": instant_text(window.end)}


def backfill_shape(backfill: Backfill) -> dict[str, Any]:
    """`windows` only of a dry run."""
    fields = {
        "id": backfill.id or None,
        "job": backfill.job,
        "status": backfill.state,
        "reason": backfill.reason,
        "range": window_shape(backfill.window),
        "order": backfill.order,
        "only": backfill.only,
        "force": backfill.force,
        "concurrency": backfill.concurrency,
        "pace": backfill.pace,
        "params": None if backfill.params is None else msgspec.json.decode(backfill.params),
        "note": backfill.note,
        "total": backfill.total,
        "ended": backfill.ended,
        "running": backfill.running,
        "completed": backfill.completed,
        "failed": backfill.failed,
        "cancelled": backfill.cancelled,
        "skipped": backfill.skipped,
        "held": backfill.held,
        "already_done": backfill.already_done,
        "already_running": backfill.already_running,
        "created_at": instant_text(backfill.created_at),
        "created_by": backfill.created_by,
        "started_at": instant_text(backfill.started_at),
        "finished_at": instant_text(backfill.finished_at),
    }
    if backfill.state == "planned":
        fields["windows"] = [window_shape(window) for window in backfill.windows]
    return fields
