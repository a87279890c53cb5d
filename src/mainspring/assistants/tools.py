"""Which operations an assistant is offered, and how the protocol describes them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from mcp.types import Tool, ToolAnnotations

from ..model.errors import InvalidValue, nearest
from ..model.values.access import Role
from .operations import Operation

ALL, DEFAULT = "all", "default"
KEY = "idempotency_key"
_KEY_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "pattern": "^[!-~]+$",
    "description": "A key of your own for this action. If its answer got lost, call again with the same key: it is not "
    "done twice.",
}


def chosen(operations: Sequence[Operation], role: Role, patterns: Sequence[str]) -> list[Operation]:
    """The operations that the role may use and that a pattern matches: `default`, `all`, a tag, or a name in which `*`
    stands for anything."""
    for pattern in patterns:
        if not any(_fits(operation, pattern) for operation in operations):
            raise _no_such_tools(operations, pattern)
    wanted = [each for each in operations if any(_fits(each, pattern) for pattern in patterns)]
    return [operation for operation in wanted if role.covers(operation.role)]


def _fits(operation: Operation, pattern: str) -> bool:
    if pattern in (ALL, DEFAULT):
        return pattern == ALL or operation.is_default
    return any(fnmatchcase(each, pattern) for each in (operation.name, *operation.tags))


def _no_such_tools(operations: Sequence[Operation], pattern: str) -> InvalidValue:
    tags = sorted({tag for operation in operations for tag in operation.tags})
    near = nearest(pattern, [*tags, *(operation.name for operation in operations)])
    remedy = f"Did you mean {near!r}?" if near else f"Tags are {', '.join(tags)}"
    return InvalidValue("--tools", pattern, "default, all, a tag, or the name of a tool, such as '*_queue'", remedy)


def tool_of(operation: Operation) -> Tool:
    return Tool(
        name=operation.name,
        title=operation.title,
        description=operation.description,
        input_schema=input_schema(operation),
        annotations=ToolAnnotations(
            title=operation.title,
            read_only_hint=operation.reads,
            destructive_hint=not operation.reads and not operation.reversible,
            idempotent_hint=operation.reads or operation.reversible or operation.method in ("PUT", "DELETE"),
            open_world_hint=False,
        ),
    )


def input_schema(operation: Operation) -> dict[str, Any]:
    properties = {argument.name: argument.schema for argument in operation.arguments}
    if operation.keyed:
        properties[KEY] = _KEY_SCHEMA
    required = [argument.name for argument in operation.arguments if argument.required]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": operation.free_body,
    }
    return schema | ({"required": required} if required else {})


def check_arguments(operation: Operation, given: dict[str, Any]) -> None:
    """Refuse arguments that nothing would become of, and calls that have no address without one. The interface checks
    the values."""
    known = [argument.name for argument in operation.arguments] + ([KEY] if operation.keyed else [])
    for name in given:
        if name not in known and not operation.free_body:
            near = nearest(name, known)
            remedy = f"Did you mean {near!r}?" if near else ""
            allowed = f"one of {', '.join(known)}" if known else "no argument at all"
            raise InvalidValue("argument", name, f"{allowed} for {operation.name}", remedy)
    for argument in operation.arguments:
        if argument.required and given.get(argument.name) is None:
            raise InvalidValue(argument.name, None, f"a value: {operation.name} cannot be called without it")
        if argument.place == "path" and given.get(argument.name) in ("", ".", ".."):
            raise InvalidValue(argument.name, given[argument.name], "the name or the id of something that exists")
