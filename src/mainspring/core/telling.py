"""Telling observers what was made, and asking them first whether they care."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..model.changes import Added
from ..model.events import Enqueued
from ..model.execution import Execution
from .loop import Emit

Wants: TypeAlias = Callable[[type, Execution], bool]


def wants_of(emit: Emit) -> Wants:
    """How to ask whether anybody wants the event of a kind about an execution that goes as it should (`Enqueued`,
    `Started`, the `Ended` of one that completed), before it is made. Who cannot say is taken to want all."""
    wants: Wants = getattr(emit, "wants", _always)
    return wants


def tell_enqueued(emit: Emit, given: Sequence[Execution], added: Sequence[Added]) -> None:
    """One event for each that is live now, if anybody wants them: a batch may hold ten thousand, so one question is
    asked for all."""
    if not given or not wants_of(emit)(Enqueued, given[0]):
        return
    for execution, each in zip(given, added, strict=True):
        if each.outcome == "added" and not execution.state.final:
            emit(Enqueued(each.execution or execution))


def _always(kind: type, execution: Execution) -> bool:
    return True
