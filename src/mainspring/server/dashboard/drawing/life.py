"""The life of an execution in parts: waiting, attempts, the pauses between them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from ....model.execution import AttemptEnd, AttemptRecord, ExecutionRow, State
from ....model.time.instants import SECOND, Micros, to_datetime

Kind: TypeAlias = Literal["waiting", "running", "pause", "tenants"]

COLOURS: dict[AttemptEnd, str] = {
    "completed": "ok",
    "failed": "bad",
    "timeout": "bad",
    "worker_lost": "bad",
    "snoozed": "run",
    "fanned_out": "soft",
    "handed_back": "warn",
    "cancelled": "idle",
    "skipped": "idle",
}
AFTER: dict[AttemptEnd, tuple[Kind, str]] = {
    "failed": ("pause", "pause before the next attempt"),
    "timeout": ("pause", "pause before the next attempt"),
    "snoozed": ("pause", "pause that the handler asked for"),
    "handed_back": ("waiting", "handed back, waiting for another worker"),
    "worker_lost": ("waiting", "worker lost, waiting for another"),
    "fanned_out": ("tenants", "its tenants run"),
}
"""What an execution does after an attempt that ended so, until its next attempt or its end."""


END_WORDS: dict[AttemptEnd, str] = {"fanned_out": "started its tenants"}
"""Ends that need other words than their own names."""
OUTCOMES: dict[State, str] = {
    State.COMPLETED: "ok",
    State.PARTIAL: "warn",
    State.FAILED: "bad",
    State.CANCELLED: "idle",
}


def end_words(end: AttemptEnd) -> str:
    return END_WORDS.get(end, end.replace("_", " "))


class LifePart(msgspec.Struct, frozen=True):
    kind: Kind
    name: str
    colour: str
    begin: Micros
    end: Micros

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / SECOND

    @property
    def begin_at(self) -> datetime:
        return to_datetime(self.begin)


def life(row: ExecutionRow, now: Micros) -> list[LifePart]:
    """The parts of its life until its end, or until now; parts without any length are left out. When it has ended, what
    only says that it went on has the colour of its outcome."""
    found = [part for part in _parts(row, now) if part.end > part.begin]
    outcome = OUTCOMES.get(row.state)
    if outcome is None:
        return found
    return [_settled(part, row.state, outcome) if part.colour == "run" else part for part in found]


def _settled(part: LifePart, state: State, colour: str) -> LifePart:
    name = f"its tenants ran: {state}" if part.kind == "tenants" else part.name
    return msgspec.structs.replace(part, name=name, colour=colour)


def _parts(row: ExecutionRow, now: Micros) -> Iterator[LifePart]:
    end = row.finished if row.finished is not None else max(now, row.created)
    at, last = row.created, None
    for attempt in row.attempts:
        yield _between(last, at, attempt.started)
        name = f"attempt {attempt.number}: {end_words(attempt.end)}"
        yield LifePart("running", name, COLOURS[attempt.end], attempt.started, attempt.ended)
        at, last = attempt.ended, attempt
    if row.state is State.RUNNING and row.claimed is not None:
        yield _between(last, at, row.claimed)
        yield LifePart("running", f"attempt {row.attempt}: runs", "run", row.claimed, end)
    elif row.state is State.PENDING and last is not None and at < row.due < end:
        yield _between(last, at, row.due)
        yield _between(None, row.due, end)
    elif last is None or last.end in AFTER:
        yield _between(last, at, end)


def _between(last: AttemptRecord | None, begin: Micros, end: Micros) -> LifePart:
    kind, name = AFTER.get(last.end, ("waiting", "waiting")) if last is not None else ("waiting", "waiting")
    return LifePart(kind, name, {"tenants": "run", "pause": "soft"}.get(kind, "idle"), begin, end)


def sums(parts: list[LifePart]) -> dict[Kind, float]:
    """Seconds of each kind."""
    found: dict[Kind, float] = {}
    for part in parts:
        found[part.kind] = found.get(part.kind, 0.0) + part.seconds
    return found
