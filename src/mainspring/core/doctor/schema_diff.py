"""Compares the objects of a live schema with those that this release expects, and words the repair. Pure functions,
the same for every kind of database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec

from ...model.store.inspection import ObjectKey, ObjectKind, SchemaObject, SchemaObjects

What: TypeAlias = Literal["missing", "extra", "different"]
_PLACE = {kind: place for place, kind in enumerate(get_args(ObjectKind))}
_HOLDS_DATA = frozenset({"table", "column", "sequence", "collection", "partition"})
LONGEST = 60
"""The longest definition that the words of a difference show."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One object that is missing, that nobody expects, or that differs; `repair` is for an administrator to run."""

    kind: ObjectKind
    name: str
    what: What
    expected: str = ""
    found: str = ""
    repair: str = ""

    @property
    def words(self) -> str:
        """
        >>> Difference(kind="default", name="live.token", what="different", expected="0", found="7").words
        'default live.token is 7, expected 0'
        """
        if self.what == "missing":
            return f"{self.kind} {self.name} is missing"
        if self.what == "extra":
            return f"{self.kind} {self.name} is not part of Mainspring"
        if max(len(self.expected), len(self.found)) > LONGEST:
            return f"{self.kind} {self.name} has another definition than in this release"
        return f"{self.kind} {self.name} is {self.found}, expected {self.expected}"


def differences(objects: SchemaObjects) -> list[Difference]:
    """Everything that differs, in the order in which the repairs can run. What belongs to an object that is missing or
    not expected is left out: the object itself is named. A table whose columns differ is named by them."""
    found = {each.key: each for each in objects.found}
    expected = {each.key: each for each in objects.expected}
    extra = [each for each in found.values() if each.key not in expected and _stands(each, expected, found)]
    wrong = [each for each in expected.values() if _is_wrong(each, found, expected)]
    named = {each.parent for each in (*extra, *wrong) if each.kind == "column"}
    result = [_extra(each, objects.comment) for each in sorted(extra, key=_place, reverse=True)]
    for each in sorted(wrong, key=_place):
        if each.key not in found:
            result.append(_missing(each, objects.expected))
        elif each.key not in named:
            result.append(_different(found[each.key], each))
    return result


def repair_script(objects: SchemaObjects, found: Sequence[Difference]) -> str:
    """All repairs as one script; nothing if there is nothing to repair."""
    statements = dict.fromkeys(each.repair for each in found if each.repair)
    if not statements:
        return ""
    return "\n".join(filter(None, (objects.begin, *statements, objects.end))) + "\n"


def _is_wrong(
    each: SchemaObject, found: Mapping[ObjectKey, SchemaObject], expected: Mapping[ObjectKey, SchemaObject]
) -> bool:
    """Whether it is missing, or differs."""
    there = found.get(each.key)
    return _stands(each, found, expected) if there is None else there.definition != each.definition


def _stands(each: SchemaObject, others: Mapping[ObjectKey, object], own: Mapping[ObjectKey, object]) -> bool:
    """Whether it stands for itself: its parent is on both sides."""
    return each.parent is None or each.parent in others or each.parent not in own


def _extra(found: SchemaObject, comment: str) -> Difference:
    """Whatever may hold somebody's data is dropped by hand only: its statements are comments."""
    drop = found.drop
    if found.kind in _HOLDS_DATA:
        drop = "\n".join(f"{comment} {line}" for line in drop.splitlines())
    return Difference(kind=found.kind, name=found.name, what="extra", found=found.definition, repair=drop)


def _missing(expected: SchemaObject, all_expected: Iterable[SchemaObject]) -> Difference:
    parts = [expected, *_below(expected, sorted(all_expected, key=_place))]
    created = dict.fromkeys(each.create for each in parts if each is expected or not each.inline)
    return Difference(
        kind=expected.kind,
        name=expected.name,
        what="missing",
        expected=expected.definition,
        repair="\n".join(filter(None, created)),
    )


def _below(parent: SchemaObject, among: Sequence[SchemaObject]) -> Iterator[SchemaObject]:
    for each in among:
        if each.parent == parent.key:
            yield each
            yield from _below(each, among)


def _different(found: SchemaObject, expected: SchemaObject) -> Difference:
    return Difference(
        kind=expected.kind,
        name=expected.name,
        what="different",
        expected=expected.definition,
        found=found.definition,
        repair=expected.replace or "\n".join((found.drop, expected.create)),
    )


def _place(each: SchemaObject) -> int:
    """Objects of the same kind stay in the order in which the store lists them."""
    return _PLACE[each.kind]
