"""`POST /hooks/{name}`: signed deliveries of other systems trigger jobs. `/api/v1/hooks`: which hooks there are."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from ...core.commands.hooks import HookWithSecret
from ...core.commands.idempotency import Answer
from ...core.render.hooks import (
    DeliveredJson,
    HookJson,
    HookWithSecretJson,
    delivered_json,
    hook_json,
    hook_with_secret_json,
)
from ...model.errors import InvalidValue, JobNotFound
from ..access import GuardedRoute, guard_of, signature
from ..errors import respond
from ..models.hooks import HookList, HookRotate, HookSet, HooksJson
from ..models.lists import listed
from ..request import REPLAYED, Administering, AdminPosting, Viewing, json
from ..responses import answers

router = APIRouter(tags=["hooks"], route_class=GuardedRoute)

HookName = Annotated[str, Path(pattern=r"^[A-Za-z0-9_.-]{1,100}$", description="The hook's name.", examples=["github"])]
_ONE = {200: (HookWithSecretJson, "The hook as it is now, with the secret if a new one was generated.")}
_BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": {}}}}}


@router.post(
    "/hooks/{name}",
    operation_id="receive_delivery",
    status_code=202,
    dependencies=[Depends(signature)],
    openapi_extra=_BODY,
    responses=answers({202: (DeliveredJson, "The execution; repetitions of a delivery get the same one.")}, 404, 409),
)
async def receive_delivery(request: Request, name: HookName) -> Response:
    """Trigger the job of this hook. The signature is the credential: Standard Webhooks (`webhook-id`,
    `webhook-timestamp`, `webhook-signature`), GitHub (`X-Hub-Signature-256`) or Stripe (`Stripe-Signature`). The
    sender's id of the delivery makes it idempotent for four days."""
    hooks = (await request.app.state.application.engine()).hooks
    body = await request.body()
    delivery = await guard_of(request).admit_delivery(
        request, name, lambda: hooks.receive(name, body, request.headers.items())
    )
    made = await hooks.deliver(name, delivery)
    headers = {"X-Execution-Id": made.execution_id} | (REPLAYED if made.repeated else {})
    return respond(json(delivered_json(made), 202, headers))


@router.get("/api/v1/hooks", operation_id="list_hooks", responses=answers({200: (HooksJson, "Hooks without secrets.")}))
async def list_hooks(call: Viewing, wanted: Annotated[HookList, Query()]) -> Response:
    return respond(json(listed(map(hook_json, await call.engine.hooks.all()), wanted)))


@router.get("/api/v1/hooks/{name}", operation_id="get_hook", responses=answers({200: (HookJson, "The hook.")}, 404))
async def get_hook(call: Viewing, name: HookName) -> Response:
    return respond(json(hook_json(await call.engine.hooks.get(name))))


@router.put("/api/v1/hooks/{name}", operation_id="set_hook", responses=answers(_ONE, 409, 422))
async def set_hook(call: AdminPosting, name: HookName, body: HookSet) -> Response:
    """Let signed requests to `/hooks/{name}` trigger a job. An existing hook keeps its secrets unless you give
    another one; the answer to a repeated `Idempotency-Key` holds no secret."""
    made: HookWithSecret | None = None

    async def work(_: str | None) -> Answer:
        nonlocal made
        try:
            made = await call.engine.hooks.set(
                name, body.job, style=body.style, secret=body.secret, enabled=body.enabled, by=call.by
            )
        except JobNotFound as error:
            raise InvalidValue("job", error.name, "the name of a job", str(error)) from None
        return json(hook_with_secret_json(made, shown=False))

    answer = await call.once(work)
    return answer if made is None else respond(json(hook_with_secret_json(made)))


@router.post("/api/v1/hooks/{name}/rotate", operation_id="rotate_hook_secret", responses=answers(_ONE, 404, 409, 422))
async def rotate_hook_secret(call: AdminPosting, name: HookName, body: HookRotate | None = None) -> Response:
    """Add a secret to a hook; earlier ones stay valid for `overlap`. The answer to a repeated `Idempotency-Key` holds
    no secret."""
    given, made = body or HookRotate(), None

    async def work(_: str | None) -> Answer:
        nonlocal made
        made = await call.engine.hooks.rotate_secret(name, given.secret, overlap=given.overlap, by=call.by)
        return json(hook_with_secret_json(made, shown=False))

    answer = await call.once(work)
    return answer if made is None else respond(json(hook_with_secret_json(made)))


@router.delete(
    "/api/v1/hooks/{name}",
    operation_id="remove_hook",
    status_code=204,
    responses=answers({204: (None, "It is gone.")}, 404),
)
async def remove_hook(call: Administering, name: HookName) -> Response:
    await call.engine.hooks.remove(name, by=call.by)
    return respond(Answer(204))
