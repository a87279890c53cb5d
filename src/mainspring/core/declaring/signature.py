"""The signature of a handler is the type of its payload.

Each parameter besides the context is a field of the payload. One decoder per handler reads the stored JSON straight
into typed values, without coercion: "42" is not an int. `encode` and `bind` use the same decoder, so that every payload
that is accepted can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec import UNSET

from ...model.defaults import PAYLOAD_LIMIT
from ...model.errors import InvalidValue, nearest, one_of, shown
from ...model.values.payload import encode_payload, plainly, presentable
from .parameters import (
    Parameter,
    Parameters,
    Style,
    choices_text,
    is_async,
    read_foreign,
    read_parameters,
    write_foreign,
)
from .secret_types import is_secret_type

__all__ = ["PayloadMismatch", "Signature", "Style"]

_PAYLOAD = "Payload"
_SCALARS = frozenset({str, int, float, bool, type(None)})
_PLACE = re.compile(r"(?s)(?P<message>.*?)(?: - at (?:`key` in )?`\$(?P<path>.*)`)?")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+)`")
_EXPECTED = re.compile(r"(?s)Expected (.*?)(?:, got .*)?")
_STEP = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")


class PayloadMismatch(InvalidValue):
    """A payload does not fit the handler's signature. Names the parameter and what the handler takes."""

    def __init__(self, field: str, value: Any, allowed: str, remedy: str = "", message: str = "") -> None:
        super().__init__(field, value, allowed, remedy)
        self.args = (field, value, allowed, remedy, message)
        self.message = message
        """What is wrong in one sentence, where the parts alone do not say it."""

    def __str__(self) -> str:
        if not self.message:
            return super().__str__()
        stop = "" if self.message.endswith("?") else "."
        return f"{self.message}{stop} {self.remedy}"

    def reworded(self, *, field: str | None = None, remedy: str | None = None) -> PayloadMismatch:
        """The same error with another name of the field, or another remedy."""
        given = self.remedy if remedy is None else remedy
        return PayloadMismatch(field or self.field, self.value, self.allowed, given, self.message)


class Signature:
    """The parameters of a handler. Checks payloads, encodes them for the store and reads them back.

    >>> def remind(ctx, shift_id: str, urgent: bool = False): ...
    >>> signature = Signature("remind", remind)
    >>> signature.encode({"shift_id": "42"})
    '{"shift_id":"42"}'
    >>> signature.bind('{"shift_id":"42","urgent":true}')
    {'shift_id': '42', 'urgent': True}
    """

    def __init__(self, handler: str, call: Callable[..., Any], style: Style = "function") -> None:
        self.handler = handler
        self.is_async = is_async(call)
        self.parameters: Parameters = read_parameters(handler, call, style)
        self._by_name: dict[str, Parameter] = {item.name: item for item in self.parameters.fields}
        self._optional = any(not item.required for item in self.parameters.fields)
        self._closed = not self.parameters.open and self.parameters.whole is None and self.parameters.extra is None
        self._decoder = self._make_decoder()

    @property
    def wants_context(self) -> bool:
        return self.parameters.context is not None

    @property
    def payload_type(self) -> Any:
        """The type that stored payloads are read as."""
        return self._decoder.type

    @property
    def names(self) -> frozenset[str] | None:
        """The names of all parameters; None when there may be others."""
        return frozenset(self._by_name) if self._closed else None

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the parameters that have no default."""
        return tuple(item.name for item in self.parameters.fields if item.required)

    @cached_property
    def secret(self) -> tuple[str, ...]:
        """The paths of the parameters that are secrets by their declared types."""
        return self.parameters.secret

    def __str__(self) -> str:
        return str(self.parameters)

    # --- enqueue ------------------------------------------------------------------------------------------
    def validate(self, params: Any, *, partial: bool = False, limit: int = PAYLOAD_LIMIT) -> dict[str, Any]:
        """The payload as plain JSON data of at most `limit` bytes, or an error that names the parameter.

        `partial` lets required parameters be missing: defaults of a job that are completed when it is triggered.
        """
        return dict(self._checked(params, limit, partial)[0])

    def encode(self, params: Any, limit: int = PAYLOAD_LIMIT) -> str:
        """The payload as the JSON text to store, checked like `validate`."""
        text = plainly(params) if self._closed else None
        if text is not None and len(text) <= limit:
            try:
                self._decoder.decode(text)
            except msgspec.ValidationError:
                pass  # reported below, in terms of the handler's parameters
            else:
                return text.decode()
        return self._checked(params, limit, False)[1]

    def _checked(self, params: Any, limit: int, partial: bool) -> tuple[dict[str, Any], str]:
        plain = params if self._is_plain(params) else self._to_plain(params)
        text = encode_payload("params", plain, limit)
        try:
            (self._partial_decoder if partial else self._decoder).decode(text)
            if self.parameters.extra is not None:
                self._extras(text)
        except msgspec.ValidationError as error:
            raise self._mismatch(error, plain) from None
        return plain, text

    def _is_plain(self, params: Any) -> bool:
        """The usual case: known names and scalars, which need no conversion."""
        known = type(params) is dict and not self.parameters.whole and params.keys() <= self._by_name.keys()
        return known and _SCALARS.issuperset(map(type, params.values()))

    def _to_plain(self, params: Any) -> dict[str, Any]:
        plain = self._plain_whole(params) if self.parameters.whole else params
        if not isinstance(plain, Mapping):
            raise PayloadMismatch("params", presentable(params), "an object (dict) of parameters", self._usage)
        return {name: self._plain(name, value) for name, value in plain.items()}

    def _plain(self, name: Any, value: Any) -> Any:
        parameter = self._by_name.get(name) if isinstance(name, str) else None
        if parameter is None and not self.parameters.open:
            raise self._unknown(name)
        if parameter is None or type(value) in _SCALARS or not parameter.converts or self.parameters.whole:
            return value
        return self._converted(value, parameter.hint, f".{name}")

    def _plain_whole(self, params: Any) -> Any:
        """A payload that one parameter receives whole: an object of its type, or a mapping of its fields."""
        return params if self.parameters.open else self._converted(params, self.parameters.hint, "", partial=True)

    def _converted(self, value: Any, hint: Any, path: str, partial: bool = False) -> Any:
        try:
            if not (partial and isinstance(value, Mapping)):
                msgspec.convert(value, hint, str_keys=True, dec_hook=read_foreign)
            return msgspec.to_builtins(value, str_keys=True, enc_hook=write_foreign)
        except msgspec.ValidationError as error:
            raise self._mismatch(error, value, path) from None
        except (TypeError, ValueError, RecursionError):
            return value  # `encode_payload` reports what is wrong with it, and where

    # --- worker -------------------------------------------------------------------------------------------
    def bind(self, params: str) -> dict[str, Any]:
        """Typed keyword arguments from a stored payload, or `PayloadMismatch`."""
        try:
            value = self._decoder.decode(params)
            if self.parameters.whole is not None:
                return {self.parameters.whole: value}
            arguments = msgspec.structs.asdict(value)
            if self.parameters.extra is not None:
                arguments |= self._extras(params)
        except msgspec.ValidationError as error:
            raise self._mismatch(error, _as_data(params)) from None
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise PayloadMismatch("params", presentable(params), f"JSON ({error})", self._usage) from None
        if self._optional:
            return {name: value for name, value in arguments.items() if value is not UNSET}
        return arguments

    def _extras(self, params: str) -> dict[str, Any]:
        """The arguments for `**kwargs`."""
        found = {name: value for name, value in msgspec.json.decode(params).items() if name not in self._by_name}
        return {name: self._extra(name, value) for name, value in found.items()}

    def _extra(self, name: str, value: Any) -> Any:
        try:
            return msgspec.convert(value, self.parameters.extra, str_keys=True, dec_hook=read_foreign)
        except msgspec.ValidationError as error:
            raise self._mismatch(error, value, f".{name}") from None

    def _make_decoder(self, partial: bool = False) -> msgspec.json.Decoder[Any]:
        if self.parameters.whole is not None:
            return msgspec.json.Decoder(dict[str, Any] if partial else self.parameters.hint, dec_hook=read_foreign)
        fields = [
            (item.name, item.hint) if item.required and not partial else (item.name, item.hint, UNSET)
            for item in self.parameters.fields
        ]
        payload = msgspec.defstruct(_PAYLOAD, fields, kw_only=True, forbid_unknown_fields=not self.parameters.open)
        return msgspec.json.Decoder(payload, dec_hook=read_foreign)

    @cached_property
    def _partial_decoder(self) -> msgspec.json.Decoder[Any]:
        return self._make_decoder(partial=True)

    # --- errors -------------------------------------------------------------------------------------------
    @property
    def _usage(self) -> str:
        return f"Handler {self.handler!r} takes {self}"

    def _mismatch(self, error: msgspec.ValidationError, payload: Any, path: str = "") -> PayloadMismatch:
        """An error of msgspec, in terms of the handler's parameters."""
        match = _PLACE.fullmatch(str(error))
        message, inner = (match["message"], match["path"] or "") if match else (str(error), "")
        if found := _MISSING.fullmatch(message):
            return self._missing(f"params{path}{inner}.{found[1]}")
        if found := _UNKNOWN.fullmatch(message):
            return self._unknown(found[1]) if not path + inner else self._stray(f"params{path}{inner}", found[1])
        value = presentable(_inside(payload, inner))
        return PayloadMismatch(f"params{path}{inner}", value, self._allowed(message, path + inner), self._usage)

    def _allowed(self, message: str, path: str) -> str:
        plain = " ".join(message.replace("`", "").split())
        if expected := _EXPECTED.fullmatch(plain):
            return expected[1]
        parameter = self._by_name.get(path.lstrip("."))
        if parameter is None or parameter.hint is Any:
            return f"a value that fits ({plain})"
        return choices_text(parameter.hint)

    def _missing(self, field: str) -> PayloadMismatch:
        return PayloadMismatch(field, None, "a value", self._usage, f"{field} is missing")

    def _unknown(self, name: Any) -> PayloadMismatch:
        guess = nearest(name, self._by_name) if isinstance(name, str) else None
        hint = f"; did you mean {guess!r}?" if guess else ""
        message = f"params has no parameter {shown(presentable(name))}{hint}"
        allowed = one_of(self._by_name) if self._by_name else "no parameters"
        return PayloadMismatch(f"params.{presentable(name)}", presentable(name), allowed, self._usage, message)

    def _stray(self, field: str, name: str) -> PayloadMismatch:
        return PayloadMismatch(f"{field}.{name}", name, "known fields", self._usage, f"{field} has no field {name!r}")


def json_schema(signature: Signature, place: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON Schema of the payload, and the types it refers to, which belong under `place` by their names."""
    prefix = f"{signature.handler}."
    (schema,), others = msgspec.json.schema_components(
        [signature.payload_type], schema_hook=_model_schema, ref_template=f"{place}{prefix}{{name}}"
    )
    if schema.get("$ref", "").endswith(f"{prefix}{_PAYLOAD}"):
        schema = others.pop(_PAYLOAD)
    schema.pop("title", None)
    if signature.parameters.open:
        schema["additionalProperties"] = True
    return schema, {prefix + name: each for name, each in others.items()}


def _model_schema(kind: Any) -> dict[str, Any]:
    """The schema of a type that msgspec does not know."""
    if is_secret_type(kind):
        return {"type": "string", "format": "password"}
    return {"type": "object", "title": kind.__name__}


def _as_data(params: str) -> Any:
    """The payload for an error message: as data, or as text where it is not even JSON."""
    try:
        return msgspec.json.decode(params)
    except (msgspec.DecodeError, RecursionError):
        return params


def _inside(payload: Any, path: str) -> Any:
    """The value at a msgspec path, as deep as it can be followed."""
    for key, index in _STEP.findall(path):
        try:
            payload = payload[key] if key else payload[int(index)]
        except (KeyError, IndexError, TypeError):
            return payload
    return payload
