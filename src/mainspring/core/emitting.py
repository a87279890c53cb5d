"""Emitting routine events, which come many at a time and which often nobody wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from ..model.events import Enqueued
from ..model.execution import ExecutionRow
from ..model.store.messages import Added
from .loops import Emit

WantedBy: TypeAlias = Callable[[type, ExecutionRow], Emit | None]
MakeEvents: TypeAlias = Callable[[], Sequence[object]]
EmitMany: TypeAlias = Callable[[type, Sequence[ExecutionRow], MakeEvents], None]


def emit_many_of(emit: Emit) -> EmitMany:
    """A function that emits many routine events (`Started`, a completed `AttemptEnded`) at once. It takes their kind,
    the executions, and a function that makes one event for each, which is called only if an observer receives them."""
    dispatch_all: EmitMany | None = getattr(emit, "dispatch_all", None)
    return dispatch_all or partial(_emit_each, emit)


def _emit_each(emit: Emit, kind: type, executions: Sequence[ExecutionRow], make: MakeEvents) -> None:
    for event in make():
        emit(event)


def emit_enqueued(emit: Emit, given: Sequence[ExecutionRow], added: Sequence[Added]) -> None:
    """One event for each execution that is live now. A batch may hold ten thousand, so observers are asked once, about
    the first, whether they want them. An emitter without `wants` receives every event."""
    wants: WantedBy | None = getattr(emit, "wants", None)
    receiver = emit if wants is None or not given else wants(Enqueued, given[0])
    if receiver is None:
        return
    for execution, each in zip(given, added, strict=True):
        if each.outcome == "added" and not execution.state.final:
            receiver(Enqueued(each.execution or execution))
