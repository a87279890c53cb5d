"""`/dashboard/webhooks`: where events are sent, what became of each delivery, and the forms that change both."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query
from markupsafe import Markup
from starlette.responses import Response

from ....core.bulk.commands import BulkRequest
from ....core.render.webhooks import new_webhook_json
from ....core.views.execution import Execution
from ....core.views.webhooks import NewWebhook
from ....core.webhooks.events import EVENTS, TEST
from ....core.webhooks.hand_over import SYSTEM_JOB
from ....model.execution import ExecutionRow, State
from ...access import Role, needs
from .. import format
from ..forms import Form
from ..job_runs import strip
from ..visit import Administering, Operating, PageRoute, Viewing, Visit

router = APIRouter(prefix="/dashboard/webhooks", route_class=PageRoute, include_in_schema=False)

STRIP = 15
"""How many deliveries the list shows for each endpoint."""
PAGE = 25
MOST_SENT_AGAIN = 1_000
SUBSCRIBED = tuple(event for event in EVENTS if event != TEST)
"""The events to choose from: tests are always sent."""
_NAMES = re.compile(r"[\s,]+")


class Delivery(msgspec.Struct, frozen=True):
    """One line of the list of deliveries. `status` and `body` are the last answer of the receiver."""

    execution: Execution
    event: str
    status: int | None
    took: float | None
    body: str


@router.get("")
async def webhooks_page(visit: Viewing) -> Response:
    endpoints = await visit.engine.webhooks.all()
    executions = visit.engine.queries.executions
    recent = await asyncio.gather(
        *(executions(SYSTEM_JOB, tenant=each.id, limit=STRIP, system=True) for each in endpoints)
    )
    return visit.page(
        "webhooks/list.html",
        webhooks=endpoints,
        strips={each.id: _strip(visit, rows) for each, rows in zip(endpoints, recent, strict=True)},
        events=SUBSCRIBED,
        meanings=EVENTS,
    )


@router.post("")
async def create_webhook(sent: Administering) -> Response:
    """The answer is a page with the secret, which is shown this once: neither an address nor a cookie ever has it."""
    visit, form = sent.visit, sent.form
    made = await visit.engine.webhooks.create(
        form.get("url") or "",
        id=form.get("id"),
        format=form.get("format") or "standard",
        scheme=form.get("scheme") or "v1",
        by=visit.by,
        **_fields(form),
    )
    return _new_secret(visit, made, "created")


@router.get("/{id}")
async def webhook_page(
    visit: Viewing,
    id: str,
    status: Annotated[Literal["", "completed", "failed", "cancelled", "pending", "running"], Query()] = "",
    cursor: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    view = await visit.engine.webhooks.get(id)
    lists = visit.engine.queries.execution_lists
    wanted = await lists.filter({"job": SYSTEM_JOB, "tenant": view.id, "status": status or None}, system=True)
    found = await lists.page(wanted, limit=PAGE, cursor=cursor)
    return visit.page(
        "webhooks/one.html",
        webhook=view,
        deliveries=[_delivery(row) for row in found.rows],
        next_cursor=found.next,
        chosen=status,
        cursor=cursor,
        states=[each.value for each in State if each in _SHOWN_STATES],
        events=SUBSCRIBED,
        meanings=EVENTS,
    )


@router.post("/{id}/edit")
async def edit_webhook(sent: Administering, id: str) -> Response:
    """The address is not shown, so an empty field leaves it as it is."""
    visit, form = sent.visit, sent.form
    changes = _fields(form) | ({} if form.get("url") is None else {"url": form.get("url")})
    await visit.engine.webhooks.update(id, changes, by=visit.by, seen=form.get("tag"))
    return visit.done(f"Webhook {id} was changed. All processes follow within about 2 s.", visit.url("webhooks", id))


@router.post("/{id}/enable")
async def enable_webhook(sent: Administering, id: str) -> Response:
    visit = sent.visit
    await visit.engine.webhooks.enable(id, by=visit.by)
    words = f"Webhook {id} is enabled. “Send undelivered again” sends the messages that were cancelled meanwhile."
    return visit.done(words, visit.url("webhooks", id))


@router.post("/{id}/disable")
async def disable_webhook(sent: Administering, id: str) -> Response:
    visit = sent.visit
    await visit.engine.webhooks.disable(id, reason=sent.form.get("reason"), by=visit.by)
    words = f"Webhook {id} is disabled, and its waiting deliveries are cancelled."
    return visit.done(words, visit.url("webhooks", id), undo=visit.url("webhooks", id, "enable"))


@router.post("/{id}/rotate")
async def rotate_secret(sent: Administering, id: str) -> Response:
    visit, form = sent.visit, sent.form
    made = await visit.engine.webhooks.rotate_secret(id, overlap=form.get("overlap") or "24h", by=visit.by)
    return _new_secret(visit, made, "rotated")


@router.post("/{id}/test")
async def send_test(sent: Administering, id: str) -> Response:
    visit = sent.visit
    await visit.engine.webhooks.test(id, by=visit.by)
    return visit.done(f"A test message to {id} is on its way: see its deliveries.", visit.url("webhooks", id))


@router.post("/{id}/delete")
async def remove_webhook(sent: Administering, id: str) -> Response:
    visit = sent.visit
    await visit.engine.webhooks.remove(id, by=visit.by)
    words = f"Webhook {id} is deleted, and its waiting deliveries are cancelled. Its history stays."
    return visit.done(words, visit.url("webhooks"))


# --- what never arrived


@router.get("/{id}/replay", dependencies=[Depends(needs(Role.OPERATOR, cookies=True))])
async def replay_page(visit: Viewing, id: str, since: Annotated[str, Query(max_length=40)] = "7d") -> Response:
    """How many messages would be sent again. Nothing is sent before the form of this page is."""
    view = await visit.engine.webhooks.get(id)
    found = await visit.engine.webhooks.undelivered(id, since or None, None, MOST_SENT_AGAIN)
    return visit.page(
        "webhooks/replay.html",
        webhook=view,
        since=since,
        count=len(found),
        most=MOST_SENT_AGAIN,
        deliveries=[_delivery(row) for row in found[:PAGE]],
    )


@router.post("/{id}/replay")
async def replay(sent: Operating, id: str) -> Response:
    """Retries these deliveries as one bulk action, which has a page of its own."""
    visit = sent.visit
    found = await visit.engine.webhooks.undelivered(id, sent.form.get("since"), None, MOST_SENT_AGAIN)
    if not found:
        return visit.failed("There are no undelivered messages.", visit.url("webhooks", id))
    begun = await visit.engine.bulk_actions.start(
        BulkRequest("retry", "executions", ids=[row.id for row in found]),
        note=f"undelivered messages of webhook {id}",
        by=visit.by,
        role=visit.principal.role,
    )
    words = f"{format.plural(len(found), 'message')} to {id} are sent again."
    return visit.done(words, visit.url("bulk", begun.id))


_SHOWN_STATES = (State.PENDING, State.RUNNING, State.COMPLETED, State.FAILED, State.CANCELLED)


def _new_secret(visit: Visit, made: NewWebhook, how: str) -> Response:
    shown = new_webhook_json(made)
    return visit.page("webhooks/secret.html", webhook=made.webhook, secret=shown["secret"], how=how)


# --- forms


def _fields(form: Form) -> dict[str, Any]:
    """What an endpoint wants. Names are divided by spaces or commas; tenants, which may have both, by lines."""
    return {
        "description": form.get("description"),
        "events": form.all("events") or None,
        "jobs": _names(form.get("jobs")),
        "queues": _names(form.get("queues")),
        "tenants": [line.strip() for line in (form.get("tenants") or "").splitlines() if line.strip()] or None,
    }


def _names(text: str | None) -> list[str] | None:
    return [name for name in _NAMES.split(text or "") if name] or None


# --- deliveries


class _Message(msgspec.Struct, frozen=True):
    event: str = ""


def _delivery(row: ExecutionRow) -> Delivery:
    execution = Execution(row)
    answer = execution.metadata.get("response")
    answer = answer if isinstance(answer, dict) else {}
    return Delivery(
        execution, _event(row), answer.get("status"), answer.get("duration_ms"), str(answer.get("body", ""))
    )


def _event(row: ExecutionRow) -> str:
    return msgspec.json.decode(row.params, type=_Message).event


def _strip(visit: Visit, rows: list[ExecutionRow]) -> Markup:
    """The last deliveries to one endpoint. One that waits after a failed attempt is shown as failed."""
    shown = [_cell(row) for row in rows]
    return strip(visit, shown, f"the last {format.plural(len(shown), 'delivery', 'deliveries')}", len(shown))


def _cell(row: ExecutionRow) -> tuple[str, State, str]:
    title = f"{_event(row)} {row.state.value}"
    if row.state is State.PENDING and row.attempts:
        return row.id, State.FAILED, f"{title}, its last attempt failed"
    return row.id, row.state, title
