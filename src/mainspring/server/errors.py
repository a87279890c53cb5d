"""The common form of every error: `{"error": {"code", "message", "details", "request_id"}}`, and which status it has.

Codes are for programs and stay; messages are for people and may change. No answer ever holds a stack trace.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from ..core.auditing import REQUEST_ID
from ..core.commands.bulk import BulkInterrupted
from ..core.commands.idempotency import Answer, KeyReused, StillAtWork
from ..core.commands.steering import JobChanged
from ..core.declaring.job_specs import field_meant
from ..core.locks import LockTaken
from ..core.render.masking import FIELD
from ..core.webhooks.commands import WebhookChanged
from ..model.errors import (
    AlreadyRunning,
    CommandRefused,
    InvalidValue,
    LockUnavailable,
    MainspringError,
    NotFound,
    StoreError,
    shown,
)
from ..model.values.web_address import NOT_SHOWN
from .access import Refused
from .models.fields import known_fields, without_tag

logger = logging.getLogger("mainspring.server")

CODES = {
    400: "invalid_request",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
    415: "unsupported_media_type",
    431: "too_many_headers",
    503: "unavailable",
}
MESSAGES = {
    404: "nothing was found at this path",
    405: "this path does not support this method",
    408: "the body did not arrive in time",
    413: "the body is larger than 1 MiB",
    415: "the body must be JSON, with Content-Type: application/json",
    431: "the request has more than 200 headers",
}
MOST_DETAILS = 20
MOST_VALUE = 80
_NOTHING = object()
SECRET_FIELDS = frozenset({FIELD, "secret", "url", "params"})
_BROKE_OFF = "the database failed halfway; details say how far the command got and where to continue"
_UNAVAILABLE = "the database cannot be reached or is not ready; try again later"


class Problem(msgspec.Struct, frozen=True):
    status: int
    code: str
    message: str
    details: Any = None
    headers: dict[str, str] = {}

    @property
    def answer(self) -> Answer:
        fields = {"code": self.code, "message": self.message, "request_id": REQUEST_ID.get()}
        if self.details is not None:
            fields["details"] = self.details
        return Answer(self.status, msgspec.json.encode({"error": fields}).decode(), dict(self.headers))


def respond(answer: Answer) -> Response:
    """The HTTP response. One without a body has no content type."""
    kind = "application/json" if answer.body else None
    return Response(answer.body or None, answer.status, answer.headers, media_type=kind)


def problem_of(error: MainspringError) -> Problem:
    """The status, code and message with which an error of the engine is answered."""
    match error:
        case Refused():
            return Problem(error.status, error.code, error.message, headers=error.headers)
        case AlreadyRunning():
            details = {**_states(error), "execution_id": error.execution.id, "holder": error.holder}
            return Problem(409, "already_running", str(error), details)
        case CommandRefused():
            return Problem(409, "command_refused", str(error), _states(error))
        case JobChanged():
            return Problem(412, "job_changed", str(error), {"if_match": error.seen, "etag": error.tag})
        case WebhookChanged():
            return Problem(412, "webhook_changed", str(error), {"if_match": error.seen, "etag": error.tag})
        case KeyReused():
            return Problem(422, "idempotency_key_reused", str(error))
        case StillAtWork():
            return Problem(409, "request_in_progress", str(error), headers={"Retry-After": "1"})
        case LockTaken():
            return Problem(409, "lock_taken", str(error))
        case NotFound():
            return Problem(404, "not_found", str(error), {"suggestion": error.suggestion} if error.suggestion else None)
        case InvalidValue():
            return Problem(
                400, "invalid_value", str(error), [_detail(error.field, error.allowed, error.value, error.remedy)]
            )
        case BulkInterrupted():
            return Problem(503, "unavailable", _BROKE_OFF, _so_far(error), headers={"Retry-After": "1"})
        case StoreError() | LockUnavailable():
            return Problem(503, "unavailable", _UNAVAILABLE, headers={"Retry-After": "1"})
        case _:
            return Problem(500, "internal_error", "an unexpected error occurred; see the log of the server")


def _so_far(error: BulkInterrupted) -> dict[str, Any]:
    """How far a bulk command came. The store's error goes to the log only. The first of `left` may have been done."""
    result = error.result
    return {"done": result.done, "refused": result.refused, "left": list(error.rest)}


def _states(error: CommandRefused) -> dict[str, Any]:
    return {"command": error.command, "current_state": str(error.state), "allowed_states": list(error.allowed)}


def http_problem(error: HTTPException) -> Problem:
    code, message = CODES.get(error.status_code, "error"), MESSAGES.get(error.status_code, str(error.detail))
    return Problem(error.status_code, code, message, headers=dict(error.headers or {}))


def validation_problem(errors: Sequence[Any], route: object = None) -> Problem:
    """A request that does not fit its model. The details name each wrong field, its value, and what is allowed."""
    details = [_unfit(each, route) for each in errors[:MOST_DETAILS]]
    first = details[0] if details else {"field": "body", "message": "it cannot be read"}
    what = f"{shown(_given(errors[0], route))} is not valid; " if "value" in first else ""
    remedy = f". {first['remedy']}" if "remedy" in first else ""
    return Problem(400, "invalid_request", f"{first['field']}: {what}{first['message']}{remedy}", details)


def _unfit(error: Mapping[str, Any], route: object) -> dict[str, Any]:
    place, value = _place(without_tag(route, error["loc"])), _given(error, route)
    if error["type"] == "extra_forbidden" and (known := known_fields(route, error["loc"])):
        guess = field_meant(str(error["loc"][-1]), known)
        remedy = f"Did you mean {guess!r}?" if guess else ""
        return _detail(place, f"there is no such field; allowed: {', '.join(known)}", value, remedy)
    said = error.get("ctx", {}).get("error", error["msg"]) if error["type"] == "json_invalid" else error["msg"]
    return _detail(place, said.removeprefix("Value error, "), value)


def _detail(field: str, message: str, value: Any, remedy: str = "") -> dict[str, Any]:
    """The field, the allowed values, the given value and the remedy. The value is repeated as written if it is short
    and plain."""
    detail: dict[str, Any] = {"field": field, "message": message}
    if value is not _NOTHING:
        detail["value"] = _plain(value)
    return detail | ({"remedy": remedy} if remedy else {})


def _given(error: Mapping[str, Any], route: object) -> Any:
    """The value of the wrong field; none for a missing field or a body that cannot be parsed. Secrets, and what may
    contain some, are never repeated: addresses, parameters, and where a request has parameters also unknown fields,
    which may be parameters in the wrong place."""
    location = without_tag(route, error["loc"])
    if SECRET_FIELDS.intersection(map(str, location)):
        return NOT_SHOWN
    if error["type"] in ("missing", "json_invalid"):
        return _NOTHING
    value = error.get("input", _NOTHING)
    known = known_fields(route, ("body", "")) if location and location[0] == "body" else []
    if "params" not in known or len(location) > 2:
        return value
    if len(location) == 2:
        return NOT_SHOWN if error["type"] == "extra_forbidden" else value
    if not isinstance(value, Mapping):
        return NOT_SHOWN
    names = set(known) - SECRET_FIELDS
    return {name: each if name in names else NOT_SHOWN for name, each in value.items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**53):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    text = value if isinstance(value, str) and len(value) <= MOST_VALUE else shown(value)
    return text.encode("utf-8", "replace").decode()


def _place(location: Sequence[Any]) -> str:
    """`("body", "params", 0)` as `params.0`."""
    if len(location) == 2 and location[0] == "body" and isinstance(location[1], int):
        return "body"  # broken JSON: the number is the position of the error
    inner = [str(part) for part in location[1:]] or [str(part) for part in location]
    return ".".join(inner)[:200].encode("utf-8", "replace").decode()


def unexpected(error: BaseException) -> Problem:
    """The answer to an unexpected error. Its message may contain anything, so it goes to the log only."""
    if isinstance(error, MainspringError):
        problem = problem_of(error)
    elif isinstance(error, OSError | TimeoutError):
        problem = Problem(503, "unavailable", _UNAVAILABLE, headers={"Retry-After": "1"})
    else:
        problem = problem_of(MainspringError())
    logger.error("request failed: %s: %s", type(error).__name__, error, exc_info=error)
    return problem


def _methods_at(request: Request) -> str:
    """All methods that this path takes. Starlette names only those of the first matching route. A path that has routes
    of its own, as `/bulk/jobs` has, is not taken for one with an id, as `/bulk/{id}`."""
    found = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    own = [route for route in found if "{" not in getattr(route, "path", "{")]
    return ", ".join(sorted({method for route in own or found for method in getattr(route, "methods", None) or ()}))


def install(api: FastAPI) -> None:
    """Answer every error in the common form, whether a route raised it or the routing did."""

    @api.exception_handler(MainspringError)
    async def of_engine(request: Request, error: MainspringError) -> Response:
        problem = problem_of(error)
        return respond((unexpected(error) if problem.status >= 500 else problem).answer)

    @api.exception_handler(HTTPException)
    async def of_http(request: Request, error: HTTPException) -> Response:
        problem = http_problem(error)
        if problem.status == 405:
            problem = msgspec.structs.replace(problem, headers={"Allow": _methods_at(request)})
        return respond(problem.answer)

    @api.exception_handler(RequestValidationError)
    async def of_request(request: Request, error: RequestValidationError) -> Response:
        return respond(validation_problem(error.errors(), request.scope.get("route")).answer)
