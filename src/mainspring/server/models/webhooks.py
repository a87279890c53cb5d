"""Requests that create and change endpoints of webhooks, and lists of them and of their deliveries."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from ...core.render.webhooks import WebhookJson
from ...core.webhooks.events import EVENTS
from ...model.execution import State
from ...model.values.webhook_signatures import Scheme
from .fields import NO_NUL, PAGE, Cursor, Duration, Limit, Name, Offset, QueryFields, Reason, Short, Strict
from .hooks import SecretText
from .lists import ShortList, ShortListJson

MOST_FILTERS = 100
_EVENT: dict[str, Any] = {"enum": list(EVENTS)}

Url = Annotated[
    str,
    Field(
        min_length=1, max_length=1_000, description="Where to send: https://..., or mailto:... for the format email."
    ),
]
Events = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=100, json_schema_extra=_EVENT)]],
    Field(max_length=len(EVENTS), description="Only these events."),
]
Names = Annotated[list[Name], Field(max_length=MOST_FILTERS)]
Tenants = Annotated[list[Short], Field(max_length=MOST_FILTERS)]


class WebhookFields(Strict):
    """What an endpoint wants. What is left out restricts nothing."""

    description: Annotated[str | None, Field(max_length=500, pattern=NO_NUL)] = None
    events: Events | None = None
    jobs: Names | None = None
    queues: Names | None = None
    tenants: Tenants | None = None


class WebhookCreate(WebhookFields):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.com/hook", "events": ["execution.failed"]}]}
    )

    url: Url
    id: Annotated[Name | None, Field(description="Generated when it is left out.")] = None
    format: Annotated[
        Literal["standard", "slack", "email"],
        Field(description="Standard Webhooks; a line of text for a chat; an e-mail, where `smtp_url` is set."),
    ] = "standard"
    scheme: Annotated[Scheme, Field(description="HMAC-SHA256 with a shared secret, or ed25519.")] = "v1"
    secret: SecretText | None = None
    enabled: bool = True


class WebhookUpdate(WebhookFields):
    """Only the named fields change; `null` sets one back to what it is when it is left out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"events": ["execution.failed"], "jobs": None}]})

    url: Url = ""


class WebhookDisable(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the receiver moves"}]})

    reason: Annotated[Reason, Field(max_length=500)] | None = None


class WebhookRotate(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"overlap": "24h"}]})

    secret: SecretText | None = None
    overlap: Annotated[Duration, Field(description="How long messages are signed with the old secret, too.")] = "24h"


class WebhookList(ShortList):
    enabled: bool | None = None
    format: Literal["standard", "slack", "email"] | None = None
    sort: Literal["id", "-id", "created_at", "-created_at"] = "id"


class WebhooksJson(ShortListJson):
    items: list[WebhookJson]


class DeliveryList(QueryFields):
    status: Annotated[list[State] | None, Field(max_length=8)] = None
    sort: Literal["-created_at", "created_at"] = "-created_at"
    limit: Limit = PAGE
    offset: Offset = 0
    cursor: Cursor | None = None
