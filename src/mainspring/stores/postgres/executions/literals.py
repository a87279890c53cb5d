"""A batch of changes as PostgreSQL array literals, one per field; a field that has its usual value throughout is None.

Literals are plain text: every driver passes them alike, and the server reads them twice as fast as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ....model.execution import State
from ....model.store.messages import Change
from ....model.time.instants import seconds_to_micros
from .rows import as_json

Literals: TypeAlias = tuple[str | None, ...]

LIVE, TODO, DROPPED, RESCUE, ALONE = 1, 2, 4, 8, 16
_EXPECTED = {State.PENDING: 1, State.RUNNING: 2, State.WAITING: 3}
_NEVER = 0  # no row is in this phase: a change that expects a final state never applies


def changes_literals(changes: Sequence[Change]) -> Literals:
    """The fields of the schema's type `changes`; the changes are in the order of their ids."""
    flags = [flags_of(change) for change in changes]
    plain = not any(flags)
    return (
        numbers([change.id for change in changes]),
        unless([_EXPECTED.get(change.expect, _NEVER) for change in changes], 2),
        numbers([change.token for change in changes]),
        _owners([change.owner for change in changes], plain),
        unless([change.to.value for change in changes], "completed"),
        numbers([change.at for change in changes]),
        unless([change.failures for change in changes], 0),
        unless([change.crashes for change in changes], 0),
        unless([seconds_to_micros(change.delay) for change in changes], 0),
        unless(["NULL" if change.started is None else change.started for change in changes], "NULL"),
        texts([None if change.attempt is None else as_json(change.attempt) for change in changes]),
        texts([storable(change.reason) for change in changes]),
        texts([storable(change.error) for change in changes]),
        texts([change.result_json for change in changes]),
        texts([change.counters_json for change in changes]),
        texts([change.metadata_json for change in changes]),
        None if plain else numbers(flags),
        _audits(changes),
    )


def flags_of(change: Change) -> int:
    return (
        LIVE * (not change.to.final)
        | TODO * change.todo
        | DROPPED * (not change.keep)
        | RESCUE * change.rescue
        | ALONE * change.alone
    )


def numbers(values: Iterable[Any]) -> str:
    """An array of values that need no quotes: numbers, ids, names of states."""
    return "{" + ",".join(map(str, values)) + "}"


def unless(values: Sequence[Any], usual: Any) -> str | None:
    return None if all(value == usual for value in values) else numbers(values)


def texts(values: Sequence[str | None]) -> str | None:
    """
    >>> texts(["plain", None, 'with "quotes"'])
    '{"plain",NULL,"with \\\\"quotes\\\\""}'
    """
    if all(value is None for value in values):
        return None
    return "{" + ",".join("NULL" if value is None else quoted(value) for value in values) + "}"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def storable(text: str | None) -> str | None:
    """NUL is the only character that PostgreSQL cannot store; settling must never fail because of a text."""
    return text.replace("\x00", "\ufffd") if text and "\x00" in text else text


def storable_texts(texts: Iterable[str]) -> list[str]:
    return [text.replace("\x00", "\ufffd") for text in texts]


def _owners(owners: Sequence[str | None], plain: bool) -> str | None:
    """One owner may stand for all, but only if no change has a flag."""
    one = plain and owners[0] is not None and all(owner == owners[0] for owner in owners)
    return texts(owners[:1] if one else owners)


def _audits(changes: Sequence[Change]) -> str | None:
    return as_json([change.audit for change in changes]) if any(change.audit for change in changes) else None
