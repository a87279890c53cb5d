"""What users hold of an endpoint of webhooks: everything but its secrets and the secret part of its address."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ...model.values.access import Secret


class WebhookView(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of webhooks. `url` shows the host only. `public_key` verifies signatures of the scheme `v1a`;
    `old_secret_until` is when the secret before the present one stops signing; `tag` changes with every write."""

    id: str
    url: str
    description: str
    events: tuple[str, ...]
    jobs: tuple[str, ...]
    queues: tuple[str, ...]
    tenants: tuple[str, ...]
    format: str
    scheme: str
    enabled: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None
    created_at: datetime
    created_by: str
    secret_created_at: datetime | None
    old_secret_until: datetime | None
    public_key: str | None
    tag: str


class NewWebhook(msgspec.Struct, frozen=True):
    """An endpoint with its new secret, which is never available again; None for formats that are not signed."""

    webhook: WebhookView
    secret: Secret | None
