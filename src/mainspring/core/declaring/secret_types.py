"""Secrets by their declared types: at which paths of a handler's parameters they are, and how they become JSON.

Types of secrets are `mainspring.Secret` and those of pydantic, which this module never imports.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, get_args, get_origin

import msgspec

from ...model.values.access import Secret
from ..rules.secret_params import ANY, LONGEST_PATH, MOST_PATHS, is_path, union

_NAMES = frozenset({Secret.__name__, "SecretStr", "SecretBytes"})
_Steps: typing.TypeAlias = tuple[str, ...]


# --- where they are -------------------------------------------------------------------------------------------


def secret_paths(hints: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths of all secrets in parameters of these types. A value that refers to its own type again is secret as a
    whole, if that type contains a secret. If there are too many paths, the parameters that contain them are secret."""
    found = [(name, *steps) for name, hint in hints.items() for steps in _paths(hint, ())]
    paths = union(_shortened(steps) for steps in found)
    return paths if len(paths) <= MOST_PATHS else union(steps[0] for steps in found)


def paths_inside(hint: Any) -> tuple[str, ...]:
    """The same for a payload that one parameter of this type receives as a whole."""
    paths = union(_shortened(steps or (ANY,)) for steps in _paths(hint, ()))
    return paths if len(paths) <= MOST_PATHS else (ANY,)


def is_secret_type(kind: Any) -> bool:
    return isinstance(kind, type) and not _NAMES.isdisjoint(base.__name__ for base in kind.__mro__)


def _shortened(steps: _Steps) -> str:
    """A path as text. What cannot be written is part of a shorter path, which hides more."""
    while not is_path(path := ".".join(steps)) and len(steps) > 1:
        steps = steps[:-1]
    return path if is_path(path) else ANY


def _paths(hint: Any, outer: tuple[Any, ...]) -> Iterator[_Steps]:
    for kind in _kinds(hint):
        if is_secret_type(kind):
            yield ()
        elif _is_mapping(get_origin(kind)):
            for each in get_args(kind)[1:]:
                yield from ((ANY, *steps) for steps in _paths(each, outer))
        elif kind in outer or _is_array(kind):
            yield from [()] * _contains_secret(kind, ())
        else:
            for name, each in _fields(kind):
                inner = _paths(each, (*outer, kind))
                yield from inner if name is None else (_at(name, steps) for steps in inner)


def _at(name: str, steps: _Steps) -> _Steps:
    """A name that no path can contain is left out with all that follows: then the object around it is secret."""
    return (name, *steps) if "." not in name and is_path(name[:LONGEST_PATH]) else ()


def _contains_secret(hint: Any, outer: tuple[Any, ...]) -> bool:
    for kind in _kinds(hint):
        if is_secret_type(kind):
            return True
        inner: Iterable[Any] = (each for _, each in _fields(kind)) if kind not in outer else ()
        if any(_contains_secret(each, (*outer, kind)) for each in (*get_args(kind), *inner)):
            return True
    return False


def _kinds(hint: Any) -> Iterator[Any]:
    """The types that a hint may stand for: the members of a union, the items of a list or similar, and the target of an
    alias."""
    origin, inner = get_origin(hint), get_args(hint)
    meant = getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)  # a NewType, a `type` statement
    if meant is not None and not isinstance(hint, type):
        yield from _kinds(meant)
    elif origin is typing.Annotated:
        yield from _kinds(inner[0])
    elif origin is None or origin is typing.Literal or _is_mapping(origin):
        yield hint
    else:
        yield origin
        for each in inner:
            yield from _kinds(each)


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_array(kind: Any) -> bool:
    """Whether JSON has its fields as a list, without their names."""
    config = getattr(kind, "__struct_config__", None)
    return bool(getattr(config, "array_like", False)) or (isinstance(kind, type) and issubclass(kind, tuple))


def _fields(kind: Any) -> Iterator[tuple[str | None, Any]]:
    """The fields of a type, by the names that JSON may have for them. None: the value itself is the field."""
    known = getattr(kind, "model_fields", None)
    if isinstance(known, Mapping):  # a pydantic model
        root = any(base.__name__ == "RootModel" for base in kind.__mro__)
        for field, details in known.items():
            aliases = (getattr(details, name, None) for name in ("alias", "serialization_alias", "validation_alias"))
            for name in {field, *(each for each in aliases if isinstance(each, str))}:
                yield None if root else name, details.annotation
        return
    try:
        hints = typing.get_type_hints(kind, include_extras=True) if isinstance(kind, type) else {}
    except Exception:  # whatever a foreign annotation raises: it has no fields that we know
        return
    names: Mapping[str, str] = {}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        names = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    for field, hint in hints.items():
        yield names.get(field, field), hint


# --- how they become JSON -------------------------------------------------------------------------------------


def read_secret(kind: Any, value: Any) -> Any:
    """A secret from its text. The error never repeats the value."""
    if not isinstance(value, str):
        raise ValueError("Expected `str`")
    return kind(value.encode() if _holds_bytes(kind) else value)


def write_secret(value: Any) -> str:
    """The text of a secret, to be stored. Bytes must be text in UTF-8, which is how pydantic reads them."""
    secret = value.reveal() if isinstance(value, Secret) else value.get_secret_value()
    try:
        return secret.decode() if isinstance(secret, bytes) else str(secret)
    except UnicodeDecodeError:
        raise ValueError("Expected text in UTF-8: encode other bytes as base64") from None


def write_model(model: Any) -> Any:
    """The JSON form of a pydantic model. Its own one has stars in the place of secrets, which are put back."""
    plain = model.model_dump(mode="json")
    kind: type = type(model)
    return _revealed(plain, model.model_dump()) if _model_has_secrets(kind) else plain


@lru_cache(maxsize=1024)
def _model_has_secrets(kind: type) -> bool:
    return _contains_secret(kind, ())


def _revealed(plain: Any, typed: Any) -> Any:
    """Both dumps of a model have the same parts in the same order."""
    if is_secret_type(type(typed)):
        return write_secret(typed)
    if isinstance(plain, dict) and isinstance(typed, dict):
        pairs = zip(plain.items(), typed.values(), strict=True)
        return {name: _revealed(each, inner) for (name, each), inner in pairs}
    if isinstance(plain, list) and isinstance(typed, Iterable) and not isinstance(typed, str | bytes | Mapping):
        return [_revealed(each, inner) for each, inner in zip(plain, typed, strict=True)]
    return plain


def _holds_bytes(kind: type) -> bool:
    return any(base.__name__ == "SecretBytes" for base in kind.__mro__)
