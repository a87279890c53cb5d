"""How routes are described: which answers they can give, under which names."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from .models.answers import Error

MEANING = {
    400: "The request is not valid; the message names the field.",
    401: "Credentials are missing or not valid.",
    403: "The role or the address does not permit this.",
    404: "There is no such thing.",
    409: "The present state does not permit this; the answer names the state and the states that would.",
    412: "The job has changed since it was read.",
    413: "The body is larger than 1 MiB.",
    415: "The body is not JSON.",
    422: "The Idempotency-Key was used for another request.",
    429: "Too many failed logins from this address.",
    500: "Something went wrong here, or the job failed.",
    503: "The database cannot be reached, or this process has no room.",
}


def answers(ok: dict[int, tuple[type[BaseModel] | None, str]], *errors: int) -> dict[int | str, dict[str, Any]]:
    """`{200: (Job, "The job.")}` and the errors that this route can give beside those that every route can."""
    found: dict[int | str, dict[str, Any]] = {status: _good(model, text) for status, (model, text) in ok.items()}
    for status in errors:
        found[status] = {"model": Error, "description": MEANING[status]}
    return found


def _good(model: type[BaseModel] | None, text: str) -> dict[str, Any]:
    return {"description": text} if model is None else {"model": model, "description": text}
