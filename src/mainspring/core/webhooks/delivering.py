"""Delivering: the handler of the system job. One call is one attempt to deliver one event to one endpoint.

The endpoint is read for each attempt, so that a new address or secret counts at once. What happens to an endpoint, not
to a delivery, is written only when it changes: the first failure after a success, the first success after a failure,
and the end of its patience.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from ...model.errors import FailedAttempt, NonRetryable
from ...model.events import WebhookDisabled
from ...model.execution import ExecutionRow, State
from ...model.store.entries import EntryWrite
from ...model.store.messages import ExecutionQuery
from ...model.time.instants import SECOND, Micros, seconds_to_micros
from ...model.values.ids import Chance
from ...model.values.webhook_signatures import signed_headers
from ..auditing import audit_record
from ..cancelling import cancel_all
from ..declaring.context import JobContext
from ..declaring.handler import Handler, make_handler
from ..loops import Emit
from ..ports import HttpAnswer, Sender, Store
from .answers import excerpt, judge, without_address
from .endpoints import KIND, Endpoint, endpoint_of, entry_of, masked_url
from .events import TEST
from .hand_over import DEADLINE, SYSTEM_JOB, EventHandOver
from .templates import email_parts, slack_body

PAGE = 500
ACTOR = "webhooks"


class Mailer(Protocol):
    """Sends e-mails."""

    async def send(self, to: str, subject: str, text: str, deadline: float) -> None:
        """Raises `OSError` if the mail was not accepted."""
        ...


class Deliverer:
    """`mailer` is None unless the setting `smtp_url` names a server."""

    def __init__(
        self, store: Store, hand_over: EventHandOver, sender: Sender, mailer: Mailer | None, chance: Chance, emit: Emit
    ) -> None:
        self._store, self._hand_over, self._chance, self._emit = store, hand_over, chance, emit
        self._sender, self._mailer = sender, mailer

    def handler(self) -> Handler:
        return make_handler(SYSTEM_JOB, self._deliver, "mainspring")

    async def _deliver(self, ctx: JobContext, id: str, event: str, body: str) -> dict[str, Any]:
        endpoint = await self._endpoint(ctx.tenant or "")
        if not endpoint.enabled and event != TEST:
            if endpoint.gave_up:  # the process that disabled it may have died before it handed that over
                await self._hand_over.disabled(endpoint)
            raise NonRetryable(f"webhook {endpoint.id} is disabled: {endpoint.disabled_reason or 'by an operator'}")
        now = await self._store.now()
        try:
            answer = without_address(await self._send(endpoint, id, body, now), endpoint.url)
        except OSError as error:
            await self._failed(endpoint, event)
            address, shown = endpoint.url.removeprefix("mailto:"), masked_url(endpoint.url)
            text = str(error).replace(address, "the address")  # mail servers repeat whom they refuse
            raise FailedAttempt(f"{text or type(error).__name__} ({shown})") from None
        took = round(answer.seconds * 1000, 1)
        text = excerpt(answer)
        ctx.metadata["response"] = {"status": answer.status, "duration_ms": took, "body": text}
        ctx.logger.info("answered %d after %.0f ms%s", answer.status, took, f": {text}" if text else "")
        verdict = judge(answer, now + seconds_to_micros(answer.seconds))
        if verdict.kind == "delivered":
            await self._worked(endpoint)
            return {"status": answer.status, "duration_ms": took}
        if verdict.kind == "gone":
            await self.disable(endpoint.id, "the receiver answered 410 Gone")
            raise NonRetryable(verdict.error)
        await self._failed(endpoint, event)
        raise FailedAttempt(verdict.error, verdict.delay)

    async def _send(self, endpoint: Endpoint, id: str, body: str, now: Micros) -> HttpAnswer:
        headers = {"content-type": "application/json"}
        if endpoint.format == "email":
            return await self._mail(endpoint, body, now)
        if endpoint.format == "slack":
            return await self._sender.post(endpoint.url, headers, slack_body(body), DEADLINE)
        sent = body.encode()
        headers |= signed_headers(id, now // SECOND, sent, endpoint.signing_secrets(now))
        return await self._sender.post(endpoint.url, headers, sent, DEADLINE)

    async def _mail(self, endpoint: Endpoint, body: str, now: Micros) -> HttpAnswer:
        if self._mailer is None:
            raise NonRetryable("no server for e-mails: set smtp_url, such as smtp://mail.example.com:587")
        subject, text = email_parts(body)
        await self._mailer.send(endpoint.url.removeprefix("mailto:"), subject, text, DEADLINE)
        return HttpAnswer(250, {}, b"", (await self._store.now() - now) / SECOND)

    # --- the endpoint's own state -------------------------------------------------------------------------
    async def _endpoint(self, id: str) -> Endpoint:
        found = [endpoint_of(entry) for entry in await self._store.entries(KIND, "", [id])]
        if not found:
            raise NonRetryable(f"webhook {id!r} was removed")
        if found[0] is None:
            raise FailedAttempt(f"this release cannot read webhook {id!r}")
        return found[0]

    async def _worked(self, endpoint: Endpoint) -> None:
        if endpoint.failing_since is not None:
            await self._write(endpoint, msgspec.structs.replace(endpoint, failing_since=None))

    async def _failed(self, endpoint: Endpoint, event: str) -> None:
        """A test that fails says nothing about the endpoint's other messages."""
        if event == TEST:
            return
        now = await self._store.now()
        if endpoint.failing_since is None:
            await self._write(endpoint, msgspec.structs.replace(endpoint, failing_since=now))
        elif endpoint.gives_up(now):
            await self.disable(endpoint.id, "every delivery has failed for 5 days")

    async def disable(self, id: str, reason: str) -> None:
        """Disable an endpoint because of its receiver, with an event about it. What waits for it is cancelled: a bulk
        retry sends it once the endpoint is enabled again."""
        while True:
            endpoint = await self._endpoint(id)
            if not endpoint.enabled:
                return
            now = await self._store.now()
            fields = {"enabled": False, "disabled": now, "disabled_reason": reason, "gave_up": True}
            disabled = msgspec.structs.replace(endpoint, **fields)
            if await self._write(endpoint, disabled, reason, now):
                break
        self._emit(WebhookDisabled(id, masked_url(endpoint.url), reason))
        await self._hand_over.disabled(disabled)
        await cancel_waiting(self._store, id, f"webhook {id} was disabled: {reason}", self._emit)

    async def _write(
        self, seen: Endpoint, changed: Endpoint, reason: str | None = None, now: Micros | None = None
    ) -> bool:
        """Gives way to any other write of the endpoint. Only a change that operators care about is audited."""
        audit = None
        if now is not None:
            after = msgspec.json.encode({"enabled": False, "reason": reason}).decode()
            audit = audit_record(self._chance, "disable_webhook", f"webhook:{seen.id}", ACTOR, now, after=after)
        write = EntryWrite(entry=entry_of(changed), seen_version=seen.version, audit=audit)
        return (await self._store.write_entries([write]))[0]


async def cancel_waiting(store: Store, endpoint: str, reason: str, emit: Emit) -> None:
    """Cancel the deliveries that wait for this endpoint. Those that run end by themselves."""
    waiting = frozenset({State.PENDING})
    before: str | None = None
    while page := await _waiting(store, endpoint, waiting, before):
        await cancel_all(store, page, reason, emit)
        before = page[-1].id


async def _waiting(store: Store, endpoint: str, states: frozenset[State], before: str | None) -> list[ExecutionRow]:
    query = ExecutionQuery(job=SYSTEM_JOB, tenant=endpoint, states=states, limit=PAGE, before=before)
    return await store.find(query)
