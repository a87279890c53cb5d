"""Telling observers what was made, and asking them first whether they care."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from ..model.events import Enqueued
from ..model.execution import ExecutionRow
from ..model.store.messages import Added
from .loops import Emit

Wants: TypeAlias = Callable[[type, ExecutionRow], Emit | None]
MakeEvents: TypeAlias = Callable[[], Sequence[object]]
Together: TypeAlias = Callable[[type, Sequence[ExecutionRow], MakeEvents], None]


def wants_of(emit: Emit) -> Wants:
    """A function that answers, before a routine event (`Enqueued`, `Started`, a completed `AttemptEnded`) is made, whom
    to send it to; None when nobody wants it. An emitter without `wants` receives every event."""
    wants: Wants | None = getattr(emit, "wants", None)
    return wants or (lambda kind, execution: emit)


def together_of(emit: Emit) -> Together:
    """A function that emits many routine events (`Started`, completed `AttemptEnded`) at once. It takes their kind, the
    executions, and a function that makes one event for each, which is called only if somebody wants them."""
    together: Together | None = getattr(emit, "dispatch_all", None)
    return together or partial(_tell_each, emit)


def _tell_each(emit: Emit, kind: type, executions: Sequence[ExecutionRow], make: MakeEvents) -> None:
    for event in make():
        emit(event)


def tell_enqueued(emit: Emit, given: Sequence[ExecutionRow], added: Sequence[Added]) -> None:
    """One event for each that is live now, if anybody wants them: a batch may hold ten thousand, so one question is
    asked for all."""
    tell = wants_of(emit)(Enqueued, given[0]) if given else None
    if tell is None:
        return
    for execution, each in zip(given, added, strict=True):
        if each.outcome == "added" and not execution.state.final:
            tell(Enqueued(each.execution or execution))
