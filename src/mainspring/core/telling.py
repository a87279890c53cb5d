"""Telling observers what was made."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.changes import Added
from ..model.events import Enqueued
from ..model.execution import Execution
from .loop import Emit, heard


def tell_enqueued(emit: Emit, given: Sequence[Execution], added: Sequence[Added]) -> None:
    """One event for each that is live now, if anybody listens: a batch may hold ten thousand."""
    if not heard(emit, Enqueued):
        return
    for execution, each in zip(given, added, strict=True):
        if each.outcome == "added" and not execution.state.final:
            emit(Enqueued(each.execution or execution))
