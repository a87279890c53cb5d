"""The usual batch of changes: first tries that completed, all of one owner. Nearly everything settled is of that kind,
and it travels and is applied for half of what other changes cost.

Texts of JSON are joined by a character that JSON never contains as it is, so that nothing has to be quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import attrgetter

from ....model.execution import AttemptRecord, State
from ....model.store.messages import Change
from .literals import Literals, numbers

SEPARATOR = "\x1e"

_IDS = re.compile(r"\{[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:,[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})*\}")

_TELLING = ("id", "token", "owner", "at", "attempt", "result_json")
_TELLING_OF_TRY = ("worker", "started", "ended", "cpu_ms")
_told, _told_of_try = attrgetter(*_TELLING), attrgetter(*_TELLING_OF_TRY)
_rest = attrgetter(*(name for name in Change.__struct_fields__ if name not in _TELLING))
_rest_of_try = attrgetter(*(name for name in AttemptRecord.__struct_fields__ if name not in _TELLING_OF_TRY))
_USUAL = _rest(Change(id="", expect=State.RUNNING, token=0, to=State.COMPLETED, at=0, failures=0, crashes=0))
_USUAL_TRY = _rest_of_try(AttemptRecord(number=1, worker="", started=0, ended=0, end="completed"))


def endings_literals(changes: Sequence[Change]) -> Literals | None:
    """The fields of the schema's type `endings`; None when the changes are not all of that kind, in the order of their
    ids and no id twice."""
    owner, told, tries = changes[0].owner, [], []
    if owner is None:
        return None
    for change in changes:
        attempt = change.attempt
        if attempt is None or _rest(change) != _USUAL or _rest_of_try(attempt) != _USUAL_TRY:
            return None
        told.append(_told(change))
        tries.append(_told_of_try(attempt))
    ids, tokens, owners, ats, _, results = zip(*told, strict=True)
    workers, starts, ends, cpus = zip(*tries, strict=True)
    literal = numbers(ids)
    alike = set(owners) == set(workers) == {owner} and ats == ends
    if not alike or any(map(str.__ge__, ids, ids[1:])) or not _IDS.fullmatch(literal):
        return None
    return (
        literal,
        numbers(tokens[:1] if len(set(tokens)) == 1 else tokens),
        owner,
        numbers(ats),
        numbers(starts),
        _numbers_or_null(cpus),
        joined(results),
    )


def joined(texts: Sequence[str | None]) -> str | None:
    """Texts of JSON, for string_to_array; None for those left out, and for all if none is there."""
    return None if all(text is None for text in texts) else SEPARATOR.join(text or "" for text in texts)


def _numbers_or_null(values: Iterable[float | None]) -> str | None:
    known = ["NULL" if value is None else value for value in values]
    return None if all(value == "NULL" for value in known) else numbers(known)
