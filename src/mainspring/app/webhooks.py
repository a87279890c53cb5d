"""The namespace `app.webhooks`: endpoints that receive events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypedDict, Unpack

from ..core.views.execution import Execution
from ..core.views.webhooks import NewWebhook, WebhookView
from ..core.webhooks.events import EventName
from ..model.execution import Status
from ..model.values.given import Duration, Several, When
from ..model.values.reading import whole
from .runtime import Runtime


class WebhookFields(TypedDict, total=False):
    """What an endpoint receives. `events` are names such as `execution.failed`. `jobs`, `queues` and `tenants` restrict
    it to the events of these. A field that you leave out restricts nothing."""

    description: str | None
    events: Several[EventName] | None
    jobs: Several[str] | None
    queues: Several[str] | None
    tenants: Several[str] | None


class WebhookChanges(WebhookFields, total=False):
    """What an update can change."""

    url: str


class AppWebhooks:
    """Endpoints of webhooks: the addresses to which Mainspring sends events."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def all(self) -> list[WebhookView]:
        """Every endpoint, by id, without its secret. Of its address, only the host is shown."""
        return await (await self._runtime.engine()).webhooks.all()

    async def get(self, id: str) -> WebhookView:
        """One endpoint; `EndpointNotFound` if there is none of this id."""
        return await (await self._runtime.engine()).webhooks.get(id)

    async def create(
        self,
        url: str,
        *,
        id: str | None = None,
        format: Literal["standard", "slack", "email"] = "standard",
        scheme: Literal["v1", "v1a"] = "v1",
        secret: str | None = None,
        enabled: bool = True,
        by: str = "system",
        **fields: Unpack[WebhookFields],
    ) -> NewWebhook:
        """Create an endpoint: `app.webhooks.create("https://example.com/hook", events=["execution.failed"])`. Only
        the return value shows its secret. All processes use the endpoint within about two seconds."""
        webhooks = (await self._runtime.engine()).webhooks
        return await webhooks.create(
            url, id=id, format=format, scheme=scheme, secret=secret, enabled=enabled, by=by, **fields
        )

    async def update(
        self, id: str, *, seen: str | None = None, by: str = "system", **changes: Unpack[WebhookChanges]
    ) -> WebhookView:
        """Change the given fields and keep the others. With `seen`, the `tag` of the endpoint that you read, the call
        raises `WebhookChanged` if the endpoint has changed since."""
        given: dict[str, Any] = {**changes}
        return await (await self._runtime.engine()).webhooks.update(id, given, by=by, seen=seen)

    async def enable(self, id: str, *, seen: str | None = None, by: str = "system") -> WebhookView:
        """Send to an endpoint again. To send what was cancelled meanwhile, retry its `undelivered` deliveries."""
        return await (await self._runtime.engine()).webhooks.enable(id, by=by, seen=seen)

    async def disable(
        self, id: str, *, reason: str | None = None, seen: str | None = None, by: str = "system"
    ) -> WebhookView:
        """Send nothing more to an endpoint, and cancel its waiting deliveries."""
        return await (await self._runtime.engine()).webhooks.disable(id, reason=reason, by=by, seen=seen)

    async def rotate_secret(
        self,
        id: str,
        *,
        overlap: Duration = "24h",
        secret: str | None = None,
        seen: str | None = None,
        by: str = "system",
    ) -> NewWebhook:
        """Give an endpoint a new secret. For the time `overlap`, messages are also signed with the old one."""
        webhooks = (await self._runtime.engine()).webhooks
        return await webhooks.rotate_secret(id, overlap=overlap, secret=secret, by=by, seen=seen)

    async def test(self, id: str, *, by: str = "system") -> Execution:
        """Send a message of the type `webhook.test` now. Returns the delivery; `app.wait` waits until it has ended."""
        return Execution(await (await self._runtime.engine()).webhooks.test(id, by=by))

    async def deliveries(
        self, id: str, *, status: Status | Iterable[Status] | None = None, limit: int = 50, offset: int = 0
    ) -> list[Execution]:
        """The past and waiting deliveries of an endpoint, newest first. Each delivery is an execution of the job
        `mainspring.webhooks`, with the endpoint as its tenant."""
        found = await (await self._runtime.engine()).webhooks.deliveries(id, status, limit, offset)
        return [Execution(row) for row in found]

    async def undelivered(
        self, id: str, *, since: When | None = None, until: When | None = None, limit: int = 1_000
    ) -> list[Execution]:
        """For each message that never reached the endpoint and is not tried any more, its newest delivery, which failed
        for good or was cancelled. `app.bulk.executions("retry", [...])` sends these messages again under the same
        `webhook-id`."""
        most = whole("limit", limit, 1, 1_000)
        found = await (await self._runtime.engine()).webhooks.undelivered(id, since, until, most)
        return [Execution(row) for row in found]

    async def remove(self, id: str, *, seen: str | None = None, by: str = "system") -> None:
        """Remove an endpoint, and cancel its waiting deliveries. The history of its deliveries stays."""
        await (await self._runtime.engine()).webhooks.remove(id, by=by, seen=seen)
