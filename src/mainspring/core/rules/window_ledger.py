"""The window ledger: which windows of a job are done and which failed. Its entries outlive the executions.

The follow-ups enter every ending of an execution that has a window, once. These are the pure rules;
`engine.follow_ups` writes.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ...model.execution import ExecutionRow, State
from ...model.time.instants import Micros

Stretch: TypeAlias = tuple[Micros, Micros]
"""A window as two instants: begin, and end, which it does not contain."""

LedgerState: TypeAlias = Literal["done", "failed", "cancelled"]

REMEMBERED = 20
"""Executions of one window that are remembered by id, so that a repeated follow-up is not counted again."""

_ENTERED: dict[State, LedgerState] = {
    State.COMPLETED: "done",
    State.PARTIAL: "failed",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}
_RANK: dict[LedgerState, int] = {"cancelled": 0, "failed": 1, "done": 2}


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of one window. `state` is the best of all its endings, `last_state` the newest."""

    state: LedgerState
    last_state: State
    execution_id: str
    finished: Micros
    runs: int = 1
    ids: tuple[str, ...] = ()
    tenant: str | None = None


def window_of(execution: ExecutionRow) -> Stretch | None:
    """The window of an execution; None if it covers no time."""
    begin, end = execution.window_begin, execution.window_end
    return None if begin is None or end is None or begin >= end else (begin, end)


def key_of(window: Stretch) -> str:
    """Keys sort by the beginning of the window."""
    return f"{window[0]:017d}-{window[1]:017d}"


def window_from(key: str) -> Stretch:
    """The inverse of `key_of`."""
    return int(key[:17]), int(key[18:])


def is_entered(execution: ExecutionRow) -> bool:
    """Whether this ending counts for a window. The execution of one tenant does not, because its parent's ending does.
    A run for chosen tenants does not, because the others have not run."""
    if window_of(execution) is None or execution.tenant is not None or execution.state not in _ENTERED:
        return False
    return not execution.for_some


def entered(known: LedgerEntry | None, execution: ExecutionRow) -> LedgerEntry | None:
    """The entry of a window after this ending; None when the ending is in it already."""
    state, finished = _ENTERED[execution.state], execution.finished or execution.created
    if known is None:
        return LedgerEntry(
            state=state,
            last_state=execution.state,
            execution_id=execution.id,
            finished=finished,
            ids=(execution.id,),
        )
    if execution.id in known.ids:
        return None
    newer = finished >= known.finished
    return msgspec.structs.replace(
        known,
        state=max(known.state, state, key=_RANK.__getitem__),
        last_state=execution.state if newer else known.last_state,
        execution_id=execution.id if newer else known.execution_id,
        finished=max(finished, known.finished),
        runs=known.runs + 1,
        ids=(*known.ids, execution.id)[-REMEMBERED:],
    )


def encode_entry(entry: LedgerEntry) -> str:
    return msgspec.json.encode(entry).decode()


def decode_entry(body: str) -> LedgerEntry:
    return msgspec.json.decode(body, type=LedgerEntry)
