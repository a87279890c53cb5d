"""The OpenAPI document: what FastAPI finds, who may do it, every answer there can be, and each handler's own body."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from ..core.registry import Handler, Registry
from ..core.signature import json_schema
from .access import access_extra
from .docs import MEANING
from .routes.run_handler import PATH

ALWAYS = (401, 403, 429, 500, 503)
WITH_BODY = (413, 415)
_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_UNUSED = ("HTTPValidationError", "ValidationError")

Document = dict[str, Any]


def document(api: FastAPI, registry: Registry) -> Document:
    made = get_openapi(
        title=api.title, version=api.version, description=api.description, routes=api.routes, tags=api.openapi_tags
    )
    for route in api.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                operation = made["paths"][route.path_format][method.lower()]
                operation |= access_extra(route)
                _complete(operation)
    for name in _UNUSED:
        made["components"]["schemas"].pop(name, None)
    made["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API token or a JWT."}
    }
    _add_handlers(made, registry)
    return made


def _complete(operation: Document) -> None:
    """The answers that any route can give, instead of the one that FastAPI supposes."""
    answers = operation["responses"]
    if "Error" not in str(answers.get("422", "Error")):
        del answers["422"]
    wanted: tuple[int, ...] = ()
    if operation.get("parameters") or "requestBody" in operation:
        wanted += (400,)
    if "requestBody" in operation:
        wanted += WITH_BODY
    if operation.get("x-required-role") != "anyone":
        wanted += ALWAYS
        operation["security"] = [{"bearer": []}, {}]
    for status in wanted:
        answers.setdefault(str(status), {"description": MEANING[status], "content": _ERROR})


def _add_handlers(made: Document, registry: Registry) -> None:
    """Each handler that is known here gets a path of its own, with the type of its parameters."""
    template = made["paths"][PATH]["post"]
    for handler in sorted(registry.handlers, key=lambda each: each.name):
        made["paths"][PATH.replace("{handler}", handler.name)] = {"post": _handler_operation(template, handler, made)}


def _handler_operation(template: Document, handler: Handler, made: Document) -> Document:
    schema, others = json_schema(handler.signature, "#/components/schemas/")
    made["components"]["schemas"] |= others
    parameters = [each for each in template["parameters"] if each["name"] != "handler"]
    body = {"required": bool(handler.signature.required), "content": {"application/json": {"schema": schema}}}
    return {
        **msgspec.json.decode(msgspec.json.encode(template)),
        "operationId": f"run_handler_{handler.name}",
        "summary": f"Run {handler.name}",
        "parameters": parameters,
        "requestBody": body,
    }
