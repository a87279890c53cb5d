"""Reads the parameters of a callable: which one is the context, which are fields of the payload, and their types."""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from typing import Any, Literal, TypeAlias, get_args, get_origin, is_typeddict

import msgspec

from ...model.errors import InvalidValue, shown
from ...model.values.payload import Verbatim, presentable
from ..rules.secret_params import ANY
from .secret_types import is_secret_type, paths_inside, read_secret, secret_paths, write_model, write_secret

Style: TypeAlias = Literal["function", "perform", "execute"]
"""How a handler takes its arguments: `f(ctx, field, ...)`, `perform(data, execution)` or `execute(ctx, field, ...)`."""

_CONTEXT_NAMES = frozenset({"ctx", "context"})
_CONTEXT_TYPE = ("JobContext",)
_RECORD_TYPES = ("Execution",)
_PACKAGE = __name__.partition(".")[0]
_DATA_NAMES = frozenset({"data", "payload"})
_TYPES = "types with a JSON form (int, str, list[int], datetime, UUID, Enum, dataclasses, Structs, TypedDicts)"

_DOTTED = re.compile(r"'[^']*'|(?:[A-Za-z_]\w*\.|<locals>\.)+([A-Za-z_]\w*)")


class Parameter(msgspec.Struct, frozen=True):
    """One field of the payload. `converts`: its annotation turns values such as datetimes into JSON."""

    name: str
    hint: Any
    required: bool
    text: str
    converts: bool


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """All parameters of a callable."""

    context: str | None = None
    """The name of the parameter that receives the context."""
    record: bool = False
    """That parameter, the second one of `perform`, receives the execution instead."""
    whole: str | None = None
    """The name of the parameter that receives the payload as a whole, of the type `hint`."""
    hint: Any = None
    extra: Any = None
    """The type of `**kwargs`, if there are any."""
    fields: tuple[Parameter, ...] = ()
    """The fields of the payload."""

    @property
    def open(self) -> bool:
        """Whether names that are not listed are accepted."""
        return self.extra is not None or (self.whole is not None and not self.fields)

    @property
    def secret(self) -> tuple[str, ...]:
        """The paths of those that are secrets by their declared types."""
        if self.whole is not None:
            return paths_inside(self.hint)
        others = {} if self.extra is None else {ANY: self.extra}
        return secret_paths({each.name: each.hint for each in self.fields} | others)

    def __str__(self) -> str:
        parts = [parameter.text for parameter in self.fields]
        return f"({', '.join([*parts, '**anything'] if self.open else parts)})"


def read_parameters(handler: str, call: Callable[..., Any], style: Style = "function") -> Parameters:
    """The parameters of a callable, or `InvalidValue` naming the handler and the parameter that cannot be filled."""
    found = _named_parameters(handler, call)
    rest = next((item for item in found if item.kind is item.VAR_KEYWORD), None)
    named = [item for item in found if item is not rest]
    context = _context_of(named, style)
    fields = [item for item in named if item is not context]
    read = Parameters(
        context=context.name if context else None,
        record=style == "perform" and context is not None and _wants_record(context),
        extra=_hint(handler, call, rest) if rest else None,
    )
    if style == "perform" and fields and _is_whole(fields[0], _hint(handler, call, fields[0])):
        _refuse_required(handler, call, fields[1:])
        hint = _whole_type(_hint(handler, call, fields[0]))
        return msgspec.structs.replace(read, whole=fields[0].name, hint=hint, fields=tuple(_fields_of(hint)))
    return msgspec.structs.replace(read, fields=tuple(_parameter(handler, call, item) for item in fields))


def is_async(call: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine. Looks through partials, callable objects and bound methods."""
    return inspect.iscoroutinefunction(_function_of(call))


def read_foreign(kind: Any, value: Any) -> Any:
    """The hook of msgspec for types it does not know: secrets and pydantic models."""
    if isinstance(value, kind):
        return value
    return read_secret(kind, value) if is_secret_type(kind) else kind.model_validate(value)


def write_foreign(value: Any) -> Any:
    if is_secret_type(type(value)):
        return write_secret(value)
    if hasattr(value, "model_dump"):
        return write_model(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def choices_text(hint: Any) -> str:
    """The allowed values of an Enum or a Literal in words; otherwise the type."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "one of " + ", ".join(repr(member.value) for member in hint)
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(repr(value) for value in get_args(hint))
    return hint_text(hint)


def hint_text(hint: Any) -> str:
    """A type as one would write it, without the modules: `datetime | None`."""
    return _DOTTED.sub(lambda found: found[1] or found[0], inspect.formatannotation(hint))


# ---------------------------------------------------------------- which parameter is what


def _context_of(named: list[inspect.Parameter], style: Style) -> inspect.Parameter | None:
    typed = [item for item in named if _names_type(item.annotation, _CONTEXT_TYPE)]
    if typed:
        return typed[0]
    if style == "execute":
        return named[0] if named else None
    if style == "perform":
        called = [item for item in named[:2] if item.name in {*_CONTEXT_NAMES, "execution"}]
        recorded = [item for item in named if _names_type(item.annotation, _RECORD_TYPES)]
        return next(iter([*recorded, *called, *named[1:2]]), None)
    if named and named[0].name in _CONTEXT_NAMES and named[0].annotation in (inspect.Parameter.empty, Any, "Any"):
        return named[0]
    return None


def _wants_record(parameter: inspect.Parameter) -> bool:
    """Whether the second parameter of `perform` receives the execution rather than the context: it does unless it is
    annotated as the context, or called so without an annotation."""
    if parameter.annotation in (parameter.empty, Any, "Any"):
        return parameter.name not in _CONTEXT_NAMES
    return not _names_type(parameter.annotation, _CONTEXT_TYPE)


def _names_type(annotation: Any, names: tuple[str, ...]) -> bool:
    """Whether an annotation means one of these types of ours, or None: also as text that only a type checker could
    resolve, and with type arguments."""
    text = getattr(annotation, "__forward_arg__", annotation)
    if isinstance(text, str):
        return re.fullmatch(rf"(\w+\.)*({'|'.join(names)})(\[.*\])?( *\| *None)?", text.strip("'\"")) is not None
    members = [member for member in get_args(annotation) if member is not type(None)]
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return len(members) == 1 and _names_type(members[0], names)
    kind = get_origin(annotation) or annotation
    ours = getattr(kind, "__module__", "").partition(".")[0] == _PACKAGE
    return ours and getattr(kind, "__name__", "") in names


def _is_whole(parameter: inspect.Parameter, hint: Any) -> bool:
    """Whether `perform`'s first parameter is the payload itself instead of one field of it."""
    mapping = hint in (dict, Mapping) or get_origin(hint) in (dict, Mapping)
    return parameter.name in _DATA_NAMES or mapping or _is_record(hint)


def _is_record(hint: Any) -> bool:
    struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    return struct or is_dataclass(hint) or is_typeddict(hint) or hasattr(hint, "model_validate")


def _whole_type(hint: Any) -> Any:
    return dict[str, Any] if hint in (Any, dict, Mapping) else hint


def _fields_of(hint: Any) -> Iterator[Parameter]:
    """The fields of a record type, for messages and to notice unknown names."""
    info = msgspec.inspect.type_info(hint)
    for field in getattr(info, "fields", ()):
        text = field.encode_name if field.required else f"{field.encode_name}=..."
        yield Parameter(field.encode_name, Any, field.required, text, True)


def _parameter(handler: str, call: Callable[..., Any], parameter: inspect.Parameter) -> Parameter:
    hint = _hint(handler, call, parameter)
    text = parameter.name if hint is Any else f"{parameter.name}: {hint_text(hint)}"
    required = parameter.default is parameter.empty
    default = "" if required else f" = {shown(presentable(parameter.default))}"
    return Parameter(parameter.name, hint, required, text + default, _converts(hint))


def _refuse_required(handler: str, call: Callable[..., Any], others: list[inspect.Parameter]) -> None:
    for item in others:
        if item.default is item.empty:
            raise InvalidValue(
                f"parameter {item.name!r} of handler {handler!r}",
                Verbatim(f"perform{inspect.signature(call)}"),
                "perform(data) or perform(data, execution)",
                "Take further values from data, or give the parameter a default",
            )


# ---------------------------------------------------------------- reading the callable


def _named_parameters(handler: str, call: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        found = list(_signature(call).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidValue(
            f"handler {handler!r}", presentable(call), f"a callable with a signature ({error})"
        ) from None
    if found and found[0].name == "self":
        remedy = "Declare a plain function, or register an object: app.register(...) takes one with a method perform"
        raise _refused(handler, "self", Verbatim("a method"), "a function that needs no object", remedy)
    for item in found:
        if item.kind is item.VAR_POSITIONAL:
            remedy = "Name the parameters; a decorator around the handler should use functools.wraps"
            raise _refused(handler, item.name, Verbatim(f"*{item.name}"), "parameters with names", remedy)
        if item.kind is item.POSITIONAL_ONLY:
            remedy = "Remove the / from its signature"
            raise _refused(handler, item.name, Verbatim(item.name), "parameters that can be given by name", remedy)
    return found


def _signature(call: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(call, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(call)


def _function_of(call: Callable[..., Any]) -> Any:
    """The function behind partials, bound methods and callable objects."""
    while isinstance(call, partial):
        call = call.func
    if inspect.isroutine(call) or isinstance(call, type):
        return getattr(call, "__func__", call)
    return type(call).__call__


def _hint(handler: str, call: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type a parameter is annotated with, checked; Any when it is not."""
    if parameter.annotation in (parameter.empty, Any, object, "Any", "object"):
        return Any
    holder = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    scope = getattr(inspect.unwrap(_function_of(call)), "__globals__", {})
    try:
        hint = typing.get_type_hints(holder, scope, {}, include_extras=True)[parameter.name]
    except Exception as error:
        text = Verbatim(hint_text(parameter.annotation))
        remedy = f"{error}: define or import the type at module level (not under TYPE_CHECKING, not inside a function)"
        raise _refused(handler, parameter.name, text, "an annotation that can be resolved", remedy) from error
    _check_hint(handler, parameter.name, hint)
    return hint


def _check_hint(handler: str, name: str, hint: Any) -> None:
    try:
        unknown = [kind for kind in _kinds(msgspec.inspect.type_info(hint)) if _is_unknown(kind)]
        msgspec.json.Decoder(hint, dec_hook=read_foreign)
    except (TypeError, ValueError, NameError) as error:
        raise _refused(handler, name, Verbatim(hint_text(hint)), _TYPES, str(error)) from error
    if unknown:
        remedy = f"{unknown[0].cls.__name__} cannot be stored: take an id or a dataclass, or use ctx.resources"
        raise _refused(handler, name, Verbatim(hint_text(hint)), _TYPES, remedy)


def _refused(handler: str, name: str, value: Any, allowed: str, remedy: str) -> InvalidValue:
    return InvalidValue(f"parameter {name!r} of handler {handler!r}", value, allowed, remedy)


def _is_unknown(kind: Any) -> bool:
    if not isinstance(kind, msgspec.inspect.CustomType):
        return False
    return not hasattr(kind.cls, "model_validate") and not is_secret_type(kind.cls)


def _converts(hint: Any) -> bool:
    """Whether values of this type may be converted to JSON: the type is exact enough to read them back."""
    if hint is Any:
        return False
    kinds = list(_kinds(msgspec.inspect.type_info(hint)))
    anything = any(isinstance(kind, msgspec.inspect.AnyType) for kind in kinds)
    return not anything or any(hasattr(kind, "cls") for kind in kinds)


def _kinds(kind: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """A msgspec type and everything inside it, recursive types included."""
    seen = set() if seen is None else seen
    if id(kind) in seen or not isinstance(kind, (msgspec.inspect.Type, msgspec.inspect.Field)):
        return
    seen.add(id(kind))
    yield kind
    for name in kind.__struct_fields__:
        inner = getattr(kind, name)
        for item in inner if isinstance(inner, tuple) else (inner,):
            yield from _kinds(item, seen)
