"""What users hold of an endpoint of webhooks: everything but its secrets and the secret part of its address."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ...model.values.access import Secret


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that receives events."""

    id: str
    """Its id."""
    url: str
    """Its address; only the host is shown."""
    description: str
    """What its creator wrote about it."""
    events: tuple[str, ...]
    """The events that it receives; empty for all."""
    jobs: tuple[str, ...]
    """The jobs whose events it receives; empty for all."""
    queues: tuple[str, ...]
    """The queues whose events it receives; empty for all."""
    tenants: tuple[str, ...]
    """The tenants whose events it receives; empty for all."""
    format: str
    """The form of the body."""
    scheme: str
    """How deliveries are signed: `v1` with a shared secret, `v1a` with a key pair."""
    enabled: bool
    """Whether events are delivered to it."""
    disabled_at: datetime | None
    """When it was disabled."""
    disabled_reason: str | None
    """Why it was disabled."""
    failing_since: datetime | None
    """Since when every delivery has failed; None if the last one succeeded."""
    created_at: datetime
    """When it was created."""
    created_by: str
    """Who created it."""
    secret_created_at: datetime | None
    """When its current secret was created."""
    old_secret_until: datetime | None
    """Until when messages are also signed with the previous secret."""
    public_key: str | None
    """Verifies signatures of the scheme `v1a`."""
    tag: str
    """Changes with every write; `app.webhooks.update` may compare it."""


class NewWebhook(msgspec.Struct, frozen=True):
    """An endpoint with its new secret, which is never available again; None for formats that are not signed."""

    webhook: WebhookView
    """The endpoint."""
    secret: Secret | None
    """Its secret; None for formats that are not signed."""
