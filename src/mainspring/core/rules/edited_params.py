"""Edit and retry: the parameters of an execution with some of them changed, and the difference that is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...model.errors import InvalidValue
from ...model.execution import EDITED
from ...model.values.payload import presentable
from ...model.values.reading import words
from .secret_params import mask_pair


class ParamsEdit(msgspec.Struct, frozen=True):
    """`params` replaces single parameters, and null is a value like any other. `remove` removes parameters, so that the
    handler uses its defaults."""

    params: Mapping[str, Any] = {}
    remove: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.params or self.remove)


NO_EDIT = ParamsEdit()


def read_edit(params: Any, remove: Any = None) -> ParamsEdit:
    """Check what the caller gave."""
    if params is not None and not isinstance(params, Mapping):
        raise InvalidValue("params", presentable(params), "a mapping of parameter names to new values")
    if isinstance(remove, str) or (remove is not None and not isinstance(remove, Iterable)):
        raise InvalidValue("remove", presentable(remove), "a list of names of parameters")
    gone = tuple(dict.fromkeys(words("remove", name) for name in remove or ()))
    if both := [name for name in gone if name in (params or {})]:
        raise InvalidValue("remove", both[0], "no parameter that is given a new value too", "Give one or the other")
    return ParamsEdit(dict(params or {}), gone)


def edited(before: Mapping[str, Any], edit: ParamsEdit) -> dict[str, Any]:
    """
    >>> edited({"a": 1, "b": 2}, ParamsEdit({"b": 3}, ("a",)))
    {'b': 3}
    """
    return {name: value for name, value in {**before, **edit.params}.items() if name not in edit.remove}


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any], secret: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """What changed: each parameter with its value before and after. A side is absent if the parameter is absent there.
    The difference says of a secret that it changed, and shows neither value.

    >>> difference({"a": 1, "b": 2, "c": 0}, {"b": 3, "c": 0, "d": None})
    {'a': {'before': 1}, 'b': {'before': 2, 'after': 3}, 'd': {'after': None}}
    """
    names = [name for name in {**before, **after} if _differ(name, before, after)]
    old, new = mask_pair(before, after, secret)
    return {
        name: {side: values[name] for side, values in (("before", old), ("after", new)) if name in values}
        for name in names
    }


def _differ(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return name not in before or name not in after or before[name] != after[name]


def with_difference(
    before: str, after: str, secret: Sequence[str] = (), metadata: Mapping[str, Any] | None = None
) -> str | None:
    """The metadata of an execution whose parameters were edited: both are JSON texts. None if nothing changed."""
    changed = difference(msgspec.json.decode(before), msgspec.json.decode(after), secret)
    if not changed:
        return msgspec.json.encode(metadata).decode() if metadata else None
    return msgspec.json.encode({**(metadata or {}), EDITED: changed}).decode()
