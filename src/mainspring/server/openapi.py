"""The OpenAPI document: what FastAPI generates, with the required role, every possible answer, and a path for each
handler with the type of its parameters."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from ..config.security import SecuritySettings
from ..core.declaring.job_specs import JobDefaults
from ..core.declaring.registry import Handler, Registry
from ..core.declaring.signature import json_schema
from .access import access_extra
from .responses import MEANING, answer_schemas
from .routes.run_handler import BOUNDS, PATH, WINDOW

ALWAYS = (401, 403, 429, 500, 503)
WITH_BODY = (408, 413, 415)
_ERROR = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_UNUSED = ("HTTPValidationError", "ValidationError")
_REQUEST_ID = {
    "name": "X-Request-Id",
    "in": "header",
    "required": False,
    "description": "An id of your choice for this request. An invalid one is replaced; the response has the id in use.",
    "schema": {"type": "string"},
}
_ANSWERED_ID = {
    "description": "The id of this request, also in logs and in the audit.",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$"},
}
_SCHEMAS = "#/components/schemas/"
_WINDOW: dict[str, Any] = {
    WINDOW: {"$ref": f"{_SCHEMAS}TriggerWindow"},
    **{name: {"type": "string", "description": f"Give either both of these or `{WINDOW}`."} for name in BOUNDS},
}

Document = dict[str, Any]
MOST_KNOWN = 8
_KNOWN: dict[tuple[Any, ...], bytes] = {}


def document(api: FastAPI, registry: Registry) -> Document:
    made = _found(api)
    security = _security(api.state.application.settings.security)
    for route in _api_routes(api):
        for method in (route.methods or ()) if route.include_in_schema else ():
            operation = made["paths"][route.path_format][method.lower()]
            operation |= access_extra(route)
            _complete(operation, security)
    components = made["components"]
    for name in _UNUSED:
        components["schemas"].pop(name, None)
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API token or a JWT."}
    }
    components["parameters"] = {"RequestId": _REQUEST_ID}
    components["headers"] = {"RequestId": _ANSWERED_ID}
    _add_handlers(made, registry, api.state.application.settings.job_defaults)
    return made


class Described:
    """The document as text. One thread makes it, however many ask at once: it takes longer than the event loop may be
    held. It is made again when handlers have been added."""

    def __init__(self, api: FastAPI, registry: Registry) -> None:
        self._api, self._registry = api, registry
        self._thread = ThreadPoolExecutor(1, "mainspring-openapi")
        self._made: tuple[tuple[int, str], bytes] | None = None

    async def text(self, prefix: str = "") -> bytes:
        """`prefix` is the path that the interface is mounted at."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._text, prefix)

    def _text(self, prefix: str) -> bytes:
        key = self._registry.revision, prefix
        if self._made is None or self._made[0] != key:
            made = document(self._api, self._registry) | ({"servers": [{"url": prefix}]} if prefix else {})
            self._made = key, msgspec.json.encode(made)
        return self._made[1]


def _found(api: FastAPI) -> Document:
    """What FastAPI generates from the routes. That takes half a second, so it is cached for each set of routes, as text
    because the caller changes the document."""
    routes = tuple((route.path, str(route.methods), route.endpoint) for route in _api_routes(api))
    if routes not in _KNOWN:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        found = get_openapi(
            title=api.title, version=api.version, description=api.description, routes=api.routes, tags=api.openapi_tags
        )
        schemas = found["components"]["schemas"]
        found["components"]["schemas"] = answer_schemas(_api_routes(api)) | schemas
        _say_all_keys(found)
        _KNOWN[routes] = msgspec.json.encode(found)
    made: Document = msgspec.json.decode(_KNOWN[routes])
    return made


def _api_routes(api: FastAPI) -> list[APIRoute]:
    return [route for route in api.routes if isinstance(route, APIRoute)]


def _say_all_keys(schema: Any) -> None:
    """A constraint on keys is generated as `patternProperties`, which allows other keys too. All keys must match, so it
    becomes `propertyNames`."""
    if isinstance(schema, dict):
        patterns = schema.get("patternProperties", {})
        if len(patterns) == 1 and "additionalProperties" not in schema:
            ((pattern, values),) = schema.pop("patternProperties").items()
            schema["propertyNames"] = {**schema.get("propertyNames", {}), "pattern": pattern}
            schema["additionalProperties"] = values
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _say_all_keys(inner)


def _security(settings: SecuritySettings) -> list[Document]:
    """Credentials are optional where local clients are admitted without them."""
    bearer: list[Document] = [{"bearer": []}]
    return bearer if settings.authenticates and not settings.allow_loopback else [*bearer, {}]


def _complete(operation: Document, security: list[Document]) -> None:
    """Add the responses that every route can give, and remove the validation response that FastAPI adds."""
    answers = operation["responses"]
    if _UNUSED[0] in str(answers.get("422")):
        del answers["422"]
    wanted: tuple[int, ...] = ()
    if operation.get("parameters") or "requestBody" in operation:
        wanted += (400,)
    if "requestBody" in operation:
        wanted += WITH_BODY
    if operation.get("x-required-role") != "anyone":
        wanted += ALWAYS
        operation["security"] = [] if operation.get("x-required-role") == "signature" else security
    for status in wanted:
        answers.setdefault(str(status), {"description": MEANING[status], "content": _ERROR})
    for answer in answers.values():
        answer.setdefault("headers", {})["X-Request-Id"] = {"$ref": "#/components/headers/RequestId"}
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/RequestId"})


def _without_null(schema: Document) -> Document:
    """Parameters are text and cannot be null: one with a default is simply optional."""
    choices: list[Document] = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) != 1:
        return schema
    return {name: value for name, value in schema.items() if name != "anyOf"} | choices[0]


def _add_handlers(made: Document, registry: Registry, defaults: JobDefaults) -> None:
    """Each handler that is known here gets a path of its own, with the type of its parameters and, if its job has a
    window, the fields that name another one."""
    template = made["paths"][PATH]["post"]
    for handler in sorted(registry.handlers, key=lambda each: each.name):
        window = registry.has_window(handler.name, defaults)
        operation = _handler_operation(template, handler, made, window)
        made["paths"][PATH.replace("{handler}", handler.name)] = {"post": operation}


def _with_window(schema: Document, others: Document) -> Document:
    """The handler's own parameters take precedence."""
    payload = others.get(schema.get("$ref", "").removeprefix(_SCHEMAS), schema)
    return {**payload, "properties": {**_WINDOW, **payload.get("properties", {})}}


def _handler_operation(template: Document, handler: Handler, made: Document, window: bool) -> Document:
    schema, others = json_schema(handler.signature, _SCHEMAS)
    made["components"]["schemas"] |= others
    schema = _with_window(schema, others) if window else schema
    parameters = [each for each in template["parameters"] if each.get("name") != "handler"]
    required = bool(handler.signature.required)
    accepted = schema if required else {"anyOf": [schema, {"type": "null"}]}  # null is the same as no body
    body = {"required": required, "content": {"application/json": {"schema": accepted}}}
    return {
        **msgspec.json.decode(msgspec.json.encode(template)),
        "operationId": f"run_handler_{handler.name}",
        "summary": f"Run {handler.name}",
        "parameters": parameters,
        "requestBody": body,
    }
