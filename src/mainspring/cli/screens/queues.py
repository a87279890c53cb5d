"""Screens of queues and handlers: the lists, one queue in full, and words for their state."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.rules.limits import rate_words
from ...core.views.queues import HandlerView, PauseView, QueueView, ScaleView
from ..terminal import echo
from .output import moment, print_fields, rough
from .table import Column, print_table


def print_queues(found: Sequence[QueueView], scale: ScaleView) -> None:
    if not found:
        echo("There are no queues: no job, no worker and no execution names one.")
        return
    print_table(QUEUE_COLUMNS, found)
    echo(f"\nProcesses wanted: {scale.wanted}; running: {scale.processes}. For one queue: mainspring queues show NAME")


def print_queue(view: QueueView, scale: ScaleView) -> None:
    print_fields(
        {
            "queue": view.name,
            "state": None if view.pause is None else pause_words(view.pause),
            "ceiling": ceiling(view),
            "ready": f"{view.ready}, the oldest for {age(view.oldest)}" if view.ready else "0",
            "planned": f"{view.planned}, next {moment(view.next_due_at)}" if view.next_due_at else str(view.planned),
            "parked": f"{view.parked} wait for a limit" if view.parked else None,
            "running": f"{view.running} on {view.slots} slot{'' if view.slots == 1 else 's'}",
            "in and out": f"{view.rate_in:.1f} and {view.rate_out:.1f} a minute, over five minutes",
            "workers": alive(view),
            "processes wanted": f"{scale.wanted}; running: {scale.processes}",
        }
    )
    if view.handlers:
        echo()
        columns = [
            Column("HANDLER", lambda each: each.name, "keep"),
            Column("READY", lambda each: str(each.ready), right=True),
            Column("PLANNED", lambda each: str(each.planned), right=True),
            Column("PARKED", lambda each: str(each.parked), right=True),
            Column("RUNNING", lambda each: str(each.running), right=True),
            Column("STATE", lambda each: "paused" if each.paused else ""),
        ]
        print_table(columns, view.handlers)


def print_handlers(found: Sequence[HandlerView]) -> None:
    if not found:
        echo("No running worker has a handler.")
        return
    columns = [
        Column("HANDLER", lambda view: view.name, "keep"),
        Column("READY", lambda view: str(view.ready), right=True),
        Column("RUNNING", lambda view: str(view.running), right=True),
        Column("WORKERS", lambda view: str(view.workers)),
        Column("STATE", lambda view: "" if view.pause is None else pause_words(view.pause), "cut"),
    ]
    print_table(columns, found)


def state_words(view: QueueView) -> str:
    words = [] if view.pause is None else [pause_words(view.pause)]
    return "; ".join(words + ([limits] if (limits := ceiling(view)) else []))


def pause_words(pause: PauseView | None) -> str:
    if pause is None:
        return "not paused"
    until = f" until {moment(pause.resume_at)}" if pause.resume_at is not None else ""
    return f"paused by {pause.by or 'an unknown user'}{until}{f': {pause.note}' if pause.note else ''}"


def waits(view: QueueView | HandlerView) -> str:
    return f" ({view.ready} ready, {view.running} running)"


def ceiling(view: QueueView) -> str | None:
    parts = [] if view.concurrency is None else [f"at most {view.concurrency} at once"]
    if view.rate is not None:
        parts.append(f"at most {rate_words(view.rate)} begin")
    return ", ".join(parts) or None


def alive(view: QueueView) -> str:
    if view.own:
        return f"{view.workers_alive}, built in"
    return str(view.workers) if view.workers == view.workers_alive else f"{view.workers_alive} of {view.workers} alive"


def age(seconds: float | None) -> str:
    return "-" if seconds is None else rough(seconds) if seconds >= 1 else "now"


QUEUE_COLUMNS = [
    Column("QUEUE", lambda view: view.name, "keep"),
    Column("READY", lambda view: str(view.ready), right=True),
    Column("PLANNED", lambda view: str(view.planned), "drop", right=True),
    Column("PARKED", lambda view: str(view.parked), "drop", right=True),
    Column("RUNNING", lambda view: str(view.running), right=True),
    Column("OLDEST", lambda view: age(view.oldest), right=True),
    Column("IN/MIN", lambda view: f"{view.rate_in:.1f}", right=True),
    Column("OUT/MIN", lambda view: f"{view.rate_out:.1f}", right=True),
    Column("WORKERS", alive),
    Column("STATE", state_words, "cut"),
]
