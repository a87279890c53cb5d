"""How routes describe their answers: the status, what it means, and the schema of the body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from fastapi.routing import APIRoute
from msgspec import Meta

from ..core.render.entities import JsonForm

MEANING = {
    400: "The request is not valid; the message names the field.",
    401: "Credentials are missing or not valid.",
    403: "The role or the address does not permit this.",
    404: "It does not exist.",
    408: "The body did not arrive in time.",
    409: "The present state does not permit this; the answer names the state and the states that would.",
    412: "It has changed since it was read.",
    413: "The body is larger than 1 MiB.",
    415: "The body is not JSON.",
    422: "The Idempotency-Key was used for another request.",
    429: "Too many failed logins from this address, or too many open streams or waits.",
    500: "An internal error, or the job failed.",
    503: "The database cannot be reached, or this process is at its limit.",
}
_REFERENCE = "#/components/schemas/{name}"


class ErrorBodyJson(JsonForm):
    code: Annotated[str, Meta(description="For programs.")]
    message: Annotated[str, Meta(description="For people.")]
    request_id: str | None = None
    details: dict[str, Any] | list[Any] | None = None


class ErrorJson(JsonForm):
    error: Annotated[
        ErrorBodyJson, Meta(examples=[{"code": "not_found", "message": "no job named 'x'", "request_id": "4f6a"}])
    ]


class AnswerSchema(dict[str, Any]):
    """The schema of an answer as routes declare it; `kind` is the type that it was generated from."""

    def __init__(self, kind: Any) -> None:
        (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
        super().__init__(_without_suffix(schema))
        self.kind = kind


def answers(ok: dict[int, tuple[Any, str]], *errors: int) -> dict[int | str, dict[str, Any]]:
    """`{200: (JobJson, "The job.")}`, and the errors of this route beside those that every route can have."""
    found: dict[int | str, dict[str, Any]] = {status: _described(kind, text) for status, (kind, text) in ok.items()}
    return found | {status: _described(ErrorJson, MEANING[status]) for status in errors}


def _described(kind: Any, text: str) -> dict[str, Any]:
    if kind is None:
        return {"description": text}
    return {"description": text, "content": {"application/json": {"schema": AnswerSchema(kind)}}}


def answer_kind(route: APIRoute, status: int) -> Any:
    """The type that this route declares for the body of its answers with this status; None without one."""
    content = route.responses.get(status, {}).get("content", {})
    schema = content.get("application/json", {}).get("schema")
    return schema.kind if isinstance(schema, AnswerSchema) else None


def answer_schemas(routes: Iterable[APIRoute]) -> dict[str, Any]:
    """The schemas of all answers that these routes declare, by name."""
    kinds = [answer_kind(route, status) for route in routes for status in route.responses if isinstance(status, int)]
    declared = [kind for kind in dict.fromkeys(kinds) if kind is not None]
    _, components = msgspec.json.schema_components([*declared, ErrorJson], ref_template=_REFERENCE)
    return {name.removesuffix("Json"): _without_suffix(schema) for name, schema in components.items()}


def _without_suffix(schema: Any) -> Any:
    """The classes of answers end in `Json`; their schemas are called by the entity alone."""
    if isinstance(schema, list):
        return [_without_suffix(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _without_suffix(value) for name, value in schema.items()}
    named = {name: plain[name].removesuffix("Json") for name in ("$ref", "title") if isinstance(plain.get(name), str)}
    return plain | named
