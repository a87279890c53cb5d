"""The JSON form of endpoints of webhooks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from ...model.values.webhook_signatures import Scheme
from ..views.webhooks import NewWebhook, WebhookView
from .entities import Instant, JsonForm, rendered

_ALL = Meta(description="Empty: all of them.")


class WebhookJson(JsonForm):
    id: str
    url: Annotated[str, Meta(description="Without path and query, which may be secrets.")]
    description: str
    events: Annotated[list[str], _ALL]
    jobs: Annotated[list[str], _ALL]
    queues: Annotated[list[str], _ALL]
    tenants: Annotated[list[str], _ALL]
    format: Literal["standard", "slack", "email"]
    scheme: Scheme
    enabled: bool
    disabled_at: Instant | None
    disabled_reason: str | None
    failing_since: Annotated[Instant | None, Meta(description="The first failure after the last success.")]
    secret_created_at: Instant | None
    old_secret_until: Annotated[
        Instant | None, Meta(description="Until then, the previous secret also signs messages.")
    ]
    public_key: Annotated[str | None, Meta(description="For receivers, with the scheme v1a.")]
    created_at: Instant
    created_by: str


class NewWebhookJson(WebhookJson):
    secret: Annotated[
        str | None,
        Meta(description="Its new secret, shown this once; null for formats that are not signed, or a repeated key."),
    ]


def webhook_json(view: WebhookView) -> dict[str, Any]:
    return rendered(WebhookJson, view)


def new_webhook_json(made: NewWebhook, *, shown: bool = True) -> dict[str, Any]:
    """The secret of the scheme `v1a` is a private key that stays here: receivers get the public key."""
    secret = made.secret.reveal() if shown and made.secret is not None and made.webhook.scheme == "v1" else None
    return rendered(NewWebhookJson, made.webhook, secret=secret)
