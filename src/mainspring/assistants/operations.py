"""The operations of the HTTP interface as an assistant sees them, read from the OpenAPI document.

Path, query and body parameters become one flat list of arguments with references resolved. `{id}` and `{name}` in a
path are named after the collection before them: `/api/v1/jobs/{id}/why` takes `job`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from ..model.values.access import Role

Schema = dict[str, Any]
Place = Literal["path", "query", "body"]

LONGEST_NAME = 64
"""Many assistants refuse longer names of tools, and other characters."""
IDEMPOTENCY_KEY = "Idempotency-Key"
DRY_RUN = "dry_run"
_REFERENCE = "#/components/"
_NOISE = {"title", "examples", "example"}
_ANY_TEXT = r"^[^\x00]*$"


class Argument(msgspec.Struct, frozen=True):
    """`key` is what the interface calls it."""

    name: str
    place: Place
    key: str
    schema: Schema
    required: bool


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`fixed` are values in the body that the assistant has no say in. A `free_body` takes arguments that are not
    listed. `keyed` operations take an idempotency key."""

    name: str
    title: str
    description: str
    method: str
    path: str
    role: Role
    tags: tuple[str, ...]
    arguments: tuple[Argument, ...]
    reads: bool
    is_default: bool
    reversible: bool
    keyed: bool
    has_body: bool
    free_body: bool = False
    fixed: Mapping[str, Any] = {}

    def takes(self, name: str) -> bool:
        return any(argument.name == name for argument in self.arguments)


def read_operations(document: Schema) -> list[Operation]:
    """All operations that an assistant could use: those with a role and with answers in JSON. One with a dry run
    becomes two, and only the dry run reads."""
    found: dict[str, Operation] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if operation.get("x-required-role") in list(Role) and _answers_json(operation):
                for each in _with_preview(_read(document, path, method, operation)):
                    found[_unused(each.name, found)] = each
    return [replace(operation, name=name) for name, operation in found.items()]


def _unused(name: str, taken: Iterable[str]) -> str:
    """Names of handlers may differ only in characters that names of tools cannot have."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:LONGEST_NAME]
    number = 1
    while (tried := plain if number == 1 else f"{plain[: LONGEST_NAME - 3]}_{number}") in taken:
        number += 1
    return tried


def _answers_json(operation: Schema) -> bool:
    kinds = [answer.get("content", {}) for status, answer in operation["responses"].items() if status.startswith("2")]
    return all(kind == "application/json" for content in kinds for kind in content)


def _with_preview(operation: Operation) -> Iterator[Operation]:
    if not operation.takes(DRY_RUN):
        yield operation
        return
    arguments = tuple(each for each in operation.arguments if each.name != DRY_RUN)
    yield replace(operation, arguments=arguments)
    yield replace(
        operation,
        name=f"preview_{operation.name}",
        title=f"Preview: {operation.title}",
        description=f"Changes nothing; shows what `{operation.name}` would do with the same arguments.",
        arguments=arguments,
        reads=True,
        keyed=False,
        fixed={DRY_RUN: True},
    )


def _read(document: Schema, path: str, method: str, operation: Schema) -> Operation:
    parameters = [resolved(document, each) for each in operation["parameters"]]
    body = _body(document, operation)
    arguments = [*_in_path_and_query(path, parameters), *_in_body(body, nulls=method == "put")]
    names = [each.name for each in arguments]
    assert len(names) == len(set(names)), f"{operation['operationId']} has two arguments of one name"
    title = str(operation["summary"])
    return Operation(
        name=operation["operationId"],
        title=title,
        description=" ".join(str(operation.get("description") or f"{title}.").split()),
        method=method.upper(),
        path=path,
        role=Role(operation["x-required-role"]),
        tags=tuple(operation["tags"]),
        arguments=tuple(arguments),
        reads=method == "get",
        is_default=operation.get("x-assistant-tool") == "default",
        reversible=operation.get("x-reversible", False),
        keyed=any(each["name"] == IDEMPOTENCY_KEY for each in parameters),
        has_body=bool(operation.get("requestBody", {}).get("required")),
        free_body=body.get("additionalProperties") is True,
    )


# --- arguments ----------------------------------------------------------------------------------------------------


def _in_path_and_query(path: str, parameters: list[Schema]) -> Iterator[Argument]:
    for each in parameters:
        if each["in"] not in ("path", "query"):
            continue
        name = argument_name(path, each["name"]) if each["in"] == "path" else each["name"]
        schema = slim(each["schema"])
        if "description" in each:
            schema["description"] = each["description"]
        yield Argument(name, each["in"], each["name"], schema, each.get("required", False))


def argument_name(path: str, key: str) -> str:
    """
    >>> argument_name("/api/v1/jobs/{id}/why", "id"), argument_name("/jobs/{handler}", "handler")
    ('job', 'handler')
    """
    if key not in ("id", "name"):
        return key
    return path.partition(f"/{{{key}}}")[0].rpartition("/")[2].removesuffix("s")


def _body(document: Schema, operation: Schema) -> Schema:
    """The body's schema as one object."""
    content = operation.get("requestBody", {}).get("content", {})
    return _merged(resolved(document, content.get("application/json", {}).get("schema", {})))


def _merged(schema: Schema) -> Schema:
    """Of a choice between objects: all their properties, and what all of them require."""
    if "properties" in schema or schema.get("additionalProperties") is True:
        return schema
    offered: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    choices = [_merged(each) for each in offered if each.get("type") != "null"]
    if len(choices) <= 1:
        return choices[0] if choices else schema
    properties: dict[str, Schema] = {}
    for choice in choices:
        for name, each in choice.get("properties", {}).items():
            known = properties.get(name)
            properties[name] = each if known in (None, each) else _either(known or {}, each)
    required = set.intersection(*(set(choice.get("required", ())) for choice in choices))
    return {"type": "object", "properties": properties, "required": sorted(required)}


def _either(one: Schema, other: Schema) -> Schema:
    """
    >>> _either({"const": "jobs"}, {"const": "executions"})
    {'enum': ['jobs', 'executions']}
    """
    values = [*_values(one), *(each for each in _values(other) if each not in _values(one))]
    if _values(one) and _values(other):
        return {"enum": values}
    known = _choices(one)
    return {"anyOf": [*known, *(each for each in _choices(other) if each not in known)]}


def _choices(schema: Schema) -> list[Schema]:
    return list(schema["anyOf"]) if "anyOf" in schema else [schema]


def _values(schema: Schema) -> list[Any]:
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _in_body(body: Schema, *, nulls: bool) -> Iterator[Argument]:
    """Null takes a field away where things are changed (PUT); elsewhere it is the same as nothing."""
    for name, schema in body.get("properties", {}).items():
        yield Argument(name, "body", name, slim(schema, nulls=nulls), name in body.get("required", ()))


# --- schemas ------------------------------------------------------------------------------------------------------


def resolved(document: Schema, schema: Any) -> Any:
    """The schema with what its references lead to in their place."""
    if isinstance(schema, list):
        return [resolved(document, each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(reference := schema.get("$ref"), str):
        kind, _, name = reference.removeprefix(_REFERENCE).partition("/")
        others = {key: value for key, value in schema.items() if key != "$ref"}
        return resolved(document, {**document["components"][kind][name], **others})
    return {key: resolved(document, value) for key, value in schema.items()}


def slim(schema: Any, *, nulls: bool = False) -> Any:
    """The schema without what tells an assistant nothing: it pays for every word. Without `nulls`, a field that may be
    null is simply one that may be left out."""
    if isinstance(schema, list):
        return [slim(each, nulls=nulls) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for key, value in schema.items():
        if key == "properties":
            kept[key] = {name: slim(each, nulls=nulls) for name, each in value.items()}
        elif not (key in _NOISE or (key == "default" and value is None) or (key, value) == ("pattern", _ANY_TEXT)):
            kept[key] = slim(value, nulls=nulls)
    return _without_choice(kept, nulls)


def _without_choice(schema: Schema, nulls: bool) -> Schema:
    """
    >>> _without_choice({"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "How many."}, nulls=False)
    {'type': 'integer', 'description': 'How many.'}
    """
    choices = [each for each in schema.get("anyOf", ()) if nulls or each != {"type": "null"}]
    others = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**choices[0], **others} if len(choices) == 1 else {**others, **({"anyOf": choices} if choices else {})}
