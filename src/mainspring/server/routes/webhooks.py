"""`/api/v1/webhooks`: where events are sent, and what became of each delivery."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from ...core.commands.idempotency import Answer
from ...core.render.entities import ExecutionJson, execution_json
from ...core.render.webhooks import NewWebhookJson, WebhookJson, new_webhook_json, webhook_json
from ...core.views.webhooks import NewWebhook, WebhookView
from ...core.webhooks.hand_over import SYSTEM_JOB
from ..access import GuardedRoute
from ..errors import respond
from ..models.commands import Empty
from ..models.executions import ExecutionPageJson, JobExecutionList, execution_page
from ..models.lists import listed
from ..models.webhooks import (
    DeliveryList,
    WebhookCreate,
    WebhookDisable,
    WebhookList,
    WebhookRotate,
    WebhooksJson,
    WebhookUpdate,
)
from ..request import (
    AdminChanging,
    AdminCommanding,
    AdminPosting,
    Call,
    ListResponse,
    Viewing,
    Wait,
    ended,
    json,
    seconds,
)
from ..responses import answers
from ..tool_marks import REVERSIBLE

router = APIRouter(prefix="/api/v1/webhooks", tags=["webhooks"], route_class=GuardedRoute)

WebhookId = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9_.-]{1,100}$", description="The endpoint's id.", examples=["wh-3f9a1c0b7d2e"])
]
_NOW = answers({200: (WebhookJson, "The endpoint as it is now.")}, 404, 409, 412, 422)


@router.get("", operation_id="list_webhooks", responses=answers({200: (WebhooksJson, "Endpoints without secrets.")}))
async def list_webhooks(call: Viewing, wanted: Annotated[WebhookList, Query()]) -> Response:
    return respond(json(listed(map(webhook_json, await call.engine.webhooks.all()), wanted)))


@router.post(
    "",
    operation_id="create_webhook",
    status_code=201,
    responses=answers({201: (NewWebhookJson, "The endpoint, and the only time its secret is shown.")}, 409, 422),
)
async def create_webhook(call: AdminPosting, body: WebhookCreate) -> Response:
    """Create an endpoint: events are sent to its address. All processes follow within about two seconds. The answer to
    a repeated `Idempotency-Key` holds no secret."""

    async def make() -> NewWebhook:
        return await call.engine.webhooks.create(**body.model_dump(exclude_unset=True), by=call.by)

    return await _with_secret(call, make, 201)


@router.get(
    "/{id}", operation_id="get_webhook", responses=answers({200: (WebhookJson, "The endpoint, without secrets.")}, 404)
)
async def get_webhook(call: Viewing, id: WebhookId) -> Response:
    return respond(_shown(await call.engine.webhooks.get(id)))


@router.put("/{id}", operation_id="update_webhook", responses=_NOW)
async def update_webhook(call: AdminCommanding, id: WebhookId, body: WebhookUpdate) -> Response:
    """Change the given fields of an endpoint and leave the rest. Waiting deliveries go to the new address."""
    changes = body.model_dump(exclude_unset=True)
    return await _steer(call, lambda: call.engine.webhooks.update(id, changes, by=call.by, seen=call.seen))


@router.delete(
    "/{id}",
    operation_id="remove_webhook",
    status_code=204,
    responses=answers({204: (None, "It is gone.")}, 404, 412),
)
async def remove_webhook(call: AdminChanging, id: WebhookId) -> Response:
    """Remove an endpoint. Its waiting deliveries are cancelled; the history of its deliveries stays."""
    await call.engine.webhooks.remove(id, by=call.by, seen=call.seen)
    return respond(Answer(204))


@router.post("/{id}/enable", operation_id="enable_webhook", openapi_extra=REVERSIBLE, responses=_NOW)
async def enable_webhook(call: AdminCommanding, id: WebhookId, body: Empty | None = None) -> Response:
    """Enable an endpoint again. A bulk retry of its deliveries sends those that were cancelled while it was
    disabled."""
    return await _steer(call, lambda: call.engine.webhooks.enable(id, by=call.by, seen=call.seen))


@router.post("/{id}/disable", operation_id="disable_webhook", openapi_extra=REVERSIBLE, responses=_NOW)
async def disable_webhook(call: AdminCommanding, id: WebhookId, body: WebhookDisable | None = None) -> Response:
    """Disable an endpoint: nothing more is sent to it, and waiting deliveries are cancelled."""
    reason = None if body is None else body.reason
    return await _steer(call, lambda: call.engine.webhooks.disable(id, reason=reason, by=call.by, seen=call.seen))


@router.post(
    "/{id}/rotate",
    operation_id="rotate_webhook_secret",
    responses=answers({200: (NewWebhookJson, "The endpoint with its new secret.")}, 404, 409, 412, 422),
)
async def rotate_webhook_secret(call: AdminCommanding, id: WebhookId, body: WebhookRotate | None = None) -> Response:
    """Give an endpoint a new secret. Until `overlap` is over, messages are signed with both. The answer to a repeated
    `Idempotency-Key` holds no secret."""
    given = body or WebhookRotate()

    async def make() -> NewWebhook:
        return await call.engine.webhooks.rotate_secret(
            id, overlap=given.overlap, secret=given.secret, by=call.by, seen=call.seen
        )

    return await _with_secret(call, make, 200)


@router.post(
    "/{id}/test",
    operation_id="test_webhook",
    status_code=202,
    responses=answers(
        {200: (ExecutionJson, "The delivery has ended within `wait`."), 202: (ExecutionJson, "It waits or runs.")},
        404,
        409,
        422,
    ),
)
async def send_test(call: AdminPosting, id: WebhookId, body: Empty | None = None, wait: Wait = None) -> Response:
    """Send one message of the type `webhook.test` now, even if the endpoint is disabled."""
    patience = seconds(wait)

    async def work(_: str | None) -> Answer:
        execution = await ended(call, await call.engine.webhooks.test(id, by=call.by), patience)
        status = 200 if execution.state.final else 202
        return json(execution_json(execution), status, {"X-Execution-Id": execution.id})

    with call.waiting(patience):
        return await call.once(work)


@router.get(
    "/{id}/deliveries",
    operation_id="list_deliveries",
    responses=answers({200: (ExecutionPageJson, "One page of deliveries.")}, 404),
)
async def list_deliveries(call: Viewing, id: WebhookId, wanted: Annotated[DeliveryList, Query()]) -> Response:
    """The deliveries of an endpoint, newest first, including those not sent yet. A delivery is an execution of the
    job `mainspring.webhooks`, whose tenant is the endpoint: retry or cancel it like any other execution."""
    await call.engine.webhooks.get(id)
    executions = JobExecutionList.model_validate({"tenant": id, **wanted.model_dump(mode="json", exclude_unset=True)})
    return ListResponse(await execution_page(call.engine.queries, executions, SYSTEM_JOB))


def _shown(view: WebhookView) -> Answer:
    return json(webhook_json(view), headers=_tag(view))


def _tag(view: WebhookView) -> dict[str, str]:
    return {"ETag": f'"{view.tag}"'}


async def _steer(call: Call, command: Callable[[], Awaitable[WebhookView]]) -> Response:
    async def work(_: str | None) -> Answer:
        return _shown(await command())

    return await call.once(work)


async def _with_secret(call: Call, make: Callable[[], Awaitable[NewWebhook]], status: int) -> Response:
    """What is kept under an `Idempotency-Key` holds no secret."""
    made: NewWebhook | None = None

    def answer(new: NewWebhook, shown: bool) -> Answer:
        headers: dict[str, Any] = _tag(new.webhook)
        if status == 201:
            headers["Location"] = f"/api/v1/webhooks/{new.webhook.id}"
        return json(new_webhook_json(new, shown=shown), status, headers)

    async def work(_: str | None) -> Answer:
        nonlocal made
        made = await make()
        return answer(made, shown=False)

    kept = await call.once(work)
    return kept if made is None else respond(answer(made, shown=True))
