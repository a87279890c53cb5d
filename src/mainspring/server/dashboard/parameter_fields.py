"""The parameters of a handler as fields of a form: which kind of field each is, and the values that come back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import inspect

from ...core.declaring.registry import Registry
from ...core.declaring.secret_types import is_secret_type
from ...core.declaring.signature import Signature
from ...core.rules.secret_params import has_secrets, hide, is_mask
from ...model.errors import HandlerNotFound, InvalidValue
from ...model.values.access import HIDDEN
from ...model.values.json_text import check_json
from .forms import Form

PREFIX = "param."
WHOLE = "params"
"""The field that holds several parameters as one JSON object."""

LONGEST_VALUE = 2_000

Kind: TypeAlias = Literal["text", "number", "switch", "choice", "json", "any"]
_ENUM_MEMBER = re.compile(r"<[\w.]+: (.*)>")
_NUMBERS = (inspect.IntType, inspect.FloatType)
_TEXTS = (
    *(inspect.StrType, inspect.DateTimeType, inspect.DateType, inspect.TimeType, inspect.TimeDeltaType),
    *(inspect.UUIDType, inspect.DecimalType, inspect.BytesType),
)


class ParameterField(msgspec.Struct, frozen=True, kw_only=True):
    """`type` and `default` are as its code has them. `value` is what the job gives it, unless that is long: an empty
    field means the same. Choices are texts of JSON."""

    name: str
    kind: Kind
    type: str
    default: str
    required: bool
    secret: bool = False
    """Its value is not shown, nor what is typed."""
    value: str = ""
    choices: tuple[str, ...] = ()


def signature_of(registry: Registry, handler: str) -> Signature | None:
    """None for a handler whose code this process does not have."""
    try:
        return registry.get(handler).signature
    except HandlerNotFound:
        return None


def parameter_fields(
    signature: Signature, params: Mapping[str, Any], secret: Sequence[str] = ()
) -> list[ParameterField]:
    """The fields of a form that runs a job with these parameters of its own. A parameter that is a secret, or contains
    one, has no value there; left empty, it is that of the job."""
    found = []
    for parameter in signature.parameters.fields:
        kind, choices = _kind(parameter.hint)
        hidden = has_secrets(parameter.name, secret)
        value = _shown(kind, params[parameter.name]) if parameter.name in params and not hidden else ""
        type, _, default = parameter.text.removeprefix(parameter.name).lstrip(": ").partition("= ")
        found.append(
            ParameterField(
                name=parameter.name,
                kind=kind,
                type=type.strip(),
                default=HIDDEN if hidden and parameter.name in params else _ENUM_MEMBER.sub(r"\1", default),
                secret=hidden,
                required=parameter.required and parameter.name not in params,
                value=value if len(value) <= LONGEST_VALUE else "",
                choices=choices,
            )
        )
    return found


def read_params(form: Form, signature: Signature | None, secret: Sequence[str] = ()) -> dict[str, Any]:
    """The parameters that the form gives, typed; an empty field, or the mask of a secret, gives none."""
    try:
        found = _read_params(form, signature)
    except InvalidValue as error:
        raise hide(error, secret) from None
    return {name: value for name, value in found.items() if not (is_mask(value) and has_secrets(name, secret))}


def _read_params(form: Form, signature: Signature | None) -> dict[str, Any]:
    found = read_json_object(WHOLE, form.get(WHOLE))
    kinds = {} if signature is None else {each.name: _kind(each.hint)[0] for each in signature.parameters.fields}
    for name, text in form.under(PREFIX).items():
        if text:
            found[name] = _value(f"params.{name}", kinds.get(name, "any"), text)
    return found


def read_json_object(field: str, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    value = _json(field, text, "a JSON object")
    if not isinstance(value, dict):
        raise InvalidValue(field, text, "a JSON object", 'Write {"name": "value"}')
    return value


def _value(field: str, kind: Kind, text: str) -> Any:
    if kind == "text":
        return text
    if kind == "any":
        try:
            return _read(field, text)
        except json.JSONDecodeError:
            return text
    value = _json(field, text, {"number": "a number", "switch": "true or false"}.get(kind, "JSON"))
    if kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InvalidValue(field, text, "a number")
    return value


def _json(field: str, text: str, allowed: str) -> Any:
    try:
        return _read(field, text)
    except json.JSONDecodeError as error:
        place = f"; line {error.lineno}, column {error.colno} is no JSON"
        raise InvalidValue(field, text[:200], f"{allowed}{place}") from None


def _read(field: str, text: str) -> Any:
    check_json(field, text.encode())
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise InvalidValue(field, text[:200], "numbers of at most 64 bits") from None


def _shown(kind: Kind, value: Any) -> str:
    return value if kind == "text" and isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _kind(hint: Any) -> tuple[Kind, tuple[str, ...]]:
    info = inspect.type_info(hint)
    kinds = [each for each in getattr(info, "types", (info,)) if not isinstance(each, inspect.NoneType)]
    if any(isinstance(each, inspect.AnyType) for each in kinds):
        return "any", ()
    if all(isinstance(each, inspect.EnumType | inspect.LiteralType) for each in kinds):
        return "choice", tuple(json.dumps(value, ensure_ascii=False) for each in kinds for value in _values(each))
    if all(isinstance(each, inspect.BoolType) for each in kinds):
        return "switch", ("true", "false")
    if all(isinstance(each, _NUMBERS) for each in kinds):
        return "number", ()
    if all(isinstance(each, _TEXTS) or _is_secret(each) for each in kinds):
        return "text", ()
    return ("any" if any(isinstance(each, _TEXTS) for each in kinds) else "json"), ()


def _is_secret(kind: Any) -> bool:
    return isinstance(kind, inspect.CustomType) and is_secret_type(kind.cls)


def _values(kind: Any) -> tuple[Any, ...]:
    return tuple(each.value for each in kind.cls) if isinstance(kind, inspect.EnumType) else tuple(kind.values)
