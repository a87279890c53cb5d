"""`POST /jobs/{handler}`: run a handler with its own typed body, and wait for it.

If the job of that name has a window, the body may name another one beside the parameters: `window` with `begin` and
`end`, or `begin_date` and `end_date`. A parameter of one of these names belongs to the handler.

A caller who waits gets the first failure and can retry as they see fit: such a run has a single attempt. A caller who
does not wait (`?wait=0`, or `Prefer: respond-async`) gets the job's retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.declaring.signature import Signature
from ...core.render.entities import StartedJson
from ...core.views.job import job_of
from ...model.errors import HandlerNotFound, InvalidValue, JobNotFound
from ...model.values.payload import presentable
from ..access import GuardedRoute
from ..request import Posting, TraceParent, Wait, seconds, started
from ..responses import answers

router = APIRouter(tags=["handlers"], route_class=GuardedRoute)

PATIENCE = 30.0
PATH = "/jobs/{handler}"

WINDOW = "window"
BOUNDS = ("begin_date", "end_date")
_WINDOW_FORM = 'an object {"begin": ..., "end": ...}'

Params = Annotated[
    dict[str, Any] | None,
    Body(description="The handler's own parameters; for a job with a window, also `window` with `begin` and `end`."),
]


@router.post(
    PATH,
    operation_id="run_handler",
    status_code=204,
    responses=answers({204: (None, "It has completed."), 202: (StartedJson, "It waits or runs.")}, 404, 409, 422, 500),
)
async def run_handler(
    call: Posting,
    handler: Annotated[str, Path(max_length=100, examples=["crawl"])],
    body: Params = None,
    wait: Wait = None,
    prefer: Annotated[str | None, Header(max_length=200, description="`respond-async`: do not wait.")] = None,
    traceparent: TraceParent = None,
) -> Response:
    """Run a handler with these parameters: 204 when it has completed, 500 when it has failed, 202 with the execution
    when it has not ended within `wait` (30s if left out; 0: do not wait)."""
    patience = 0.0 if "respond-async" in (prefer or "").lower() else seconds(wait, PATIENCE)

    async def work(execution_id: str | None) -> Answer:
        try:
            view = await call.steerable(handler)
        except JobNotFound:
            raise HandlerNotFound(handler, call.application.registry.names) from None
        given = dict(body or {})
        window = take_window(given, call.engine.creation.signature(handler)) if job_of(view).spec.window else None
        made = await call.engine.manual_runs.trigger(
            handler,
            None if body is None else given,
            window=window,
            by=call.by,
            trigger="api",
            traceparent=traceparent,
            id=execution_id,
            single_try=patience > 0,
        )
        answer = await started(call, view, made, patience)
        return Answer(204, headers=answer.headers) if answer.status == 200 else answer

    with call.waiting(patience):
        return await call.once(work)


def take_window(body: dict[str, Any], signature: Signature | None) -> tuple[Any, Any] | None:
    """Take the window out of a body, unless it is a parameter of the handler."""
    own = set() if signature is None else {each.name for each in signature.parameters.fields}
    named = {name: body.pop(name) for name in (WINDOW, *BOUNDS) if name in body and name not in own}
    if WINDOW not in named:
        return _bounds(named) if named else None
    window = named.pop(WINDOW)
    if named:
        raise InvalidValue(WINDOW, presentable(window), f"either {WINDOW}, or {BOUNDS[0]} and {BOUNDS[1]}")
    if not isinstance(window, Mapping) or window.keys() != {"begin", "end"}:
        raise InvalidValue(WINDOW, presentable(window), _WINDOW_FORM)
    return _text("window.begin", window["begin"]), _text("window.end", window["end"])


def _bounds(named: Mapping[str, Any]) -> tuple[Any, Any]:
    for bound in BOUNDS:
        if bound not in named:
            raise InvalidValue(bound, None, f"an instant: {BOUNDS[0]} and {BOUNDS[1]} are given together")
    begin, end = (_text(bound, named[bound]) for bound in BOUNDS)
    return begin, end


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidValue(field, presentable(value), "an instant as text, in ISO 8601")
    return value
