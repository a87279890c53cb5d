"""Secret parameters: which values of a job's parameters nobody is shown, and what an edit does with a mask.

The secret paths of a job are those of its option `secret` and those whose declared type is a secret. A path is a list
of names with dots, such as `card.number`. Lists on the way are looked through: `cards.number` is the number of every
card. `*` stands for any name. Whatever is at a secret path is shown as `HIDDEN`, except null. Text or a number in the
place of an object that would contain a secret is hidden too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from ...model.errors import InvalidValue
from ...model.values.access import HIDDEN
from ...model.values.payload import presentable

CHANGED = f"{HIDDEN} (changed)"
"""Stands for a secret that differs from the one before."""
ANY = "*"
PATH = r"[^.\x00-\x20]+(\.[^.\x00-\x20]+)*"
"""The characters are named one by one: what counts as white space differs between the readers of the pattern."""
LONGEST_PATH = 200
MOST_PATHS = 100

_PATH = re.compile(PATH)
_ALLOWED = f'a path of names with dots, such as "api_key" or "card.number", of at most {LONGEST_PATH} characters'
_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]?")
_ITS_TYPE = "a value of its declared type"

Paths: TypeAlias = Sequence[str]


class _Missing:
    """The type of `_MISSING`, which stands for a value that is not there."""


_MISSING = _Missing()


class _Node(msgspec.Struct, frozen=True):
    """Names under which there are secrets. `secret`: the value itself is one."""

    secret: bool = False
    below: dict[str, _Node] = {}

    def at(self, name: str) -> _Node | None:
        named, others = self.below.get(name), self.below.get(ANY)
        return _both(named, others) if named is not None and others is not None else named or others


_Replace: TypeAlias = Callable[[str, Any, Any], Any]
"""Takes the place of a secret, its value, and the value at the same place of the other version."""


# --- which paths are secret -------------------------------------------------------------------------------------


def check_secret(field: str, value: Any) -> tuple[str, ...]:
    """The option `secret`: paths into the parameters; one may be given as text."""
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise InvalidValue(field, presentable(value), 'paths into the parameters, such as ("api_key", "card.number")')
    paths = union(_path(field, each) for each in given)
    if len(paths) > MOST_PATHS:
        raise InvalidValue(field, len(paths), f"at most {MOST_PATHS} paths")
    return paths


def is_path(text: str) -> bool:
    return len(text) <= LONGEST_PATH and _PATH.fullmatch(text) is not None


def _path(field: str, value: Any) -> str:
    if isinstance(value, str) and is_path(value):
        return value
    raise InvalidValue(field, presentable(value), _ALLOWED)


def union(*groups: Iterable[str]) -> tuple[str, ...]:
    """All paths, sorted, without those inside others.

    >>> union(("card", "api_key"), ("card.number",))
    ('api_key', 'card')
    """
    paths = {path for group in groups for path in group}
    return tuple(sorted(path for path in paths if not any(path.startswith(f"{other}.") for other in paths)))


def is_secret(path: str, paths: Paths) -> bool:
    """Whether the value at this path is a secret, or part of one.

    >>> is_secret("card.number", ("card",)), is_secret("card", ("card.number",)), is_secret("a.b", ("*.b",))
    (True, False, True)
    """
    node: _Node | None = _tree(tuple(paths))
    for name in path.split("."):
        node = node.at(name) if node is not None else None
        if node is not None and node.secret:
            return True
    return False


def has_secrets(name: str, paths: Paths) -> bool:
    """Whether the parameter of this name is a secret, or contains one."""
    return bool(paths) and _tree(tuple(paths)).at(name) is not None


# --- what is shown ----------------------------------------------------------------------------------------------


def mask(params: Mapping[str, Any], paths: Paths) -> dict[str, Any]:
    """The parameters as everybody may see them.

    >>> mask({"card": {"number": "4111", "holder": "Ada"}, "keys": ["a", "b"]}, ("card.number", "keys"))
    {'card': {'number': '********', 'holder': 'Ada'}, 'keys': '********'}
    """
    masked: dict[str, Any] = _replaced(params, _MISSING, paths, _hidden)
    return masked


def mask_document(document: Any, paths: Paths) -> Any:
    """JSON with parameters somewhere inside, all of them masked: also in fields beside them that repeat them, and in
    the difference to the execution that was edited.

    >>> mask_document({"id": "pay", "key": "x", "params": {"key": "x"}, "runs": [{"params": {"key": 1}}]}, ("key",))
    {'id': 'pay', 'key': '********', 'params': {'key': '********'}, 'runs': [{'params': {'key': '********'}}]}
    """
    if isinstance(document, list):
        return [mask_document(each, paths) for each in document]
    if not isinstance(document, dict):
        return document
    params = document.get("params")
    if not isinstance(params, dict):
        return {name: mask_document(value, paths) for name, value in document.items()}
    masked = mask(params, paths)
    hidden = {name: masked[name] for name in params if document.get(name) == params[name]} | {"params": masked}
    if isinstance(edited := document.get("edited"), dict):
        hidden["edited"] = {
            name: {side: mask({name: value}, paths)[name] for side, value in sides.items()}
            for name, sides in edited.items()
        }
    return {name: mask_document(value, paths) for name, value in document.items()} | hidden


def mask_pair(before: Any, after: Any, paths: Paths) -> tuple[Any, Any]:
    """Two versions of parameters. A secret of the second one says whether it differs from the first.

    >>> mask_pair({"key": "a", "other": "b"}, {"key": "c", "other": "b"}, ("*",))
    ({'key': '********', 'other': '********'}, {'key': '******** (changed)', 'other': '********'})
    """
    return _replaced(before, _MISSING, paths, _hidden), _replaced(after, before, paths, _compared)


def mask_fields(fields: Mapping[str, Any], paths: Paths) -> dict[str, Any]:
    """Fields of a job, a template or an audit record, with their parameters masked."""
    return mask_fields_pair({}, fields, paths)[1]


def mask_fields_pair(
    before: Mapping[str, Any], after: Mapping[str, Any], paths: Paths
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two versions of such fields. Overrides contain fields of a job themselves."""
    old, new = dict(before), dict(after)
    if not paths:
        return old, new
    for name, pair in (("params", mask_pair), ("overrides", mask_fields_pair)):
        was, now = (fields[name] if isinstance(fields.get(name), Mapping) else None for fields in (old, new))
        if was is None and now is None:
            continue
        masked_was, masked_now = pair(was or {}, now or {}, paths)
        old |= {} if was is None else {name: masked_was}
        new |= {} if now is None else {name: masked_now}
    return old, new


def hide(error: InvalidValue, paths: Paths) -> InvalidValue:
    """The same error without the value, if that is a secret or contains one. What the type of the handler said about
    the value may repeat it, so that is left out too."""
    if not paths or not _concerns_secret(error.field, paths) or getattr(error, "message", None):
        return error
    kind = type(error)
    allowed = error.allowed if kind is InvalidValue else _ITS_TYPE
    return kind(error.field, HIDDEN, allowed, error.remedy)


def _concerns_secret(field: str, paths: Paths) -> bool:
    if not field.startswith("params"):
        return False
    node = _tree(tuple(paths))
    for name, inner in _STEP.findall(field.removeprefix("params")):
        if not name and inner.isdecimal():  # an item of a list
            continue
        found = node.at(name) if name else _merged(node.below.values())
        if found is None:
            return False
        if found.secret:
            return True
        node = found
    return True


# --- what is given ----------------------------------------------------------------------------------------------


def keep(given: Mapping[str, Any], stored: Mapping[str, Any], paths: Paths) -> dict[str, Any]:
    """The given parameters. Where a secret is still the mask, the stored value takes its place; `InvalidValue` if there
    is none. Items of lists are compared by their places, so the lists must be of the same length.

    >>> keep({"key": "********", "url": "/new"}, {"key": "a", "url": "/"}, ("key",))
    {'key': 'a', 'url': '/new'}
    """
    kept: dict[str, Any] = _replaced(given, stored, paths, _kept)
    return kept


def refuse_mask(given: Any, paths: Paths) -> None:
    """Refuse a mask in the place of a secret where no stored value could be meant."""
    if isinstance(given, Mapping):
        _replaced(given, _MISSING, paths, _kept)


def is_mask(value: Any) -> bool:
    return isinstance(value, str) and value in (HIDDEN, CHANGED)


# --- inside -----------------------------------------------------------------------------------------------------


def _hidden(place: str, value: Any, other: Any) -> Any:
    return HIDDEN


def _compared(place: str, value: Any, other: Any) -> Any:
    return HIDDEN if other is _MISSING or other == value else CHANGED


def _kept(place: str, value: Any, other: Any) -> Any:
    if not is_mask(value):
        return value
    if other is _MISSING:
        remedy = "This text stands for a secret that is not shown: give the secret itself"
        raise InvalidValue(place, value, "a value other than the mask", remedy)
    return other


def _replaced(params: Any, other: Any, paths: Paths, replace: _Replace) -> Any:
    if not paths:
        return dict(params) if isinstance(params, Mapping) else params
    return _walk("params", params, other, _tree(tuple(paths)), replace)


def _walk(place: str, value: Any, other: Any, node: _Node, replace: _Replace) -> Any:
    if value is None or (isinstance(value, bool) and not node.secret):
        return value
    if not node.secret and isinstance(value, Mapping):
        return {name: _field(place, name, each, other, node, replace) for name, each in value.items()}
    if not node.secret and isinstance(value, list | tuple):
        same = isinstance(other, list | tuple) and len(other) == len(value)
        others = other if same else [_MISSING] * len(value)
        return [_walk(f"{place}[{n}]", each, others[n], node, replace) for n, each in enumerate(value)]
    return replace(place, value, other)


def _field(place: str, name: Any, value: Any, other: Any, node: _Node, replace: _Replace) -> Any:
    below = node.at(name) if isinstance(name, str) else None
    if below is None:
        return value
    inner = other.get(name, _MISSING) if isinstance(other, Mapping) else _MISSING
    return _walk(f"{place}.{name}", value, inner, below, replace)


@lru_cache(maxsize=1024)
def _tree(paths: tuple[str, ...]) -> _Node:
    below: dict[str, list[str]] = {}
    secret = set()
    for path in paths:
        first, _, rest = path.partition(".")
        below.setdefault(first, []).append(rest)
        if not rest:
            secret.add(first)
    return _Node(
        below={name: _Node(secret=True) if name in secret else _tree(tuple(rests)) for name, rests in below.items()}
    )


def _both(one: _Node, two: _Node) -> _Node:
    if one.secret or two.secret:
        return _Node(secret=True)
    names = {*one.below, *two.below}
    return _Node(below={name: found for name in names if (found := _merged_at(name, one, two)) is not None})


def _merged_at(name: str, *nodes: _Node) -> _Node | None:
    return _merged(node.below[name] for node in nodes if name in node.below)


def _merged(nodes: Iterable[_Node]) -> _Node | None:
    found: _Node | None = None
    for node in nodes:
        found = node if found is None else _both(found, node)
    return found
