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
    """How to ask whom to tell the event of a kind about an execution that goes as it should (`Enqueued`, `Started`, the
    `Ended` of one that completed), before it is made; None when nobody wants it. Who cannot say is told everything."""
    wants: Wants | None = getattr(emit, "wants", None)
    return wants or (lambda kind, execution: emit)


def together_of(emit: Emit) -> Together:
    """How to tell of many executions that go as they should (`Started`, the `Ended` of those that completed): kind,
    executions, and what makes one event for each, called if anybody wants any. Who cannot say is told everything."""
    together: Together | None = getattr(emit, "together", None)
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
