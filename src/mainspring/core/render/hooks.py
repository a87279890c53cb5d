"""The JSON form of incoming hooks."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from ...model.execution import State
from ...model.values.webhook_signatures import Style
from ..commands.hooks import Delivered, HookView, HookWithSecret
from .entities import Instant, JsonForm, rendered


class HookSecretJson(JsonForm):
    created_at: Instant
    expires_at: Annotated[Instant | None, Meta(description="Set once the secret was replaced by a newer one.")]


class HookJson(JsonForm, rename={"by": "updated_by"}):
    name: str
    job: str
    style: Style
    enabled: bool
    path: Annotated[str, Meta(description="Where the sender posts to.")]
    secrets: Annotated[list[HookSecretJson], Meta(description="Those that are accepted, newest first, without text.")]
    created_at: Instant
    updated_at: Instant
    by: str


class HookWithSecretJson(HookJson, rename={"by": "updated_by"}):
    secret: Annotated[
        str | None,
        Meta(description="A secret that was generated now, shown this once; null if none was, or for a repeated key."),
    ]


class DeliveredJson(JsonForm):
    execution_id: str
    status: State


def hook_json(view: HookView) -> dict[str, Any]:
    return rendered(HookJson, view, secrets=_secrets(view))


def hook_with_secret_json(made: HookWithSecret, *, shown: bool = True) -> dict[str, Any]:
    secret = made.secret.reveal() if shown and made.secret is not None else None
    return rendered(HookWithSecretJson, made.hook, secrets=_secrets(made.hook), secret=secret)


def delivered_json(made: Delivered) -> dict[str, Any]:
    return rendered(DeliveredJson, made)


def _secrets(view: HookView) -> list[dict[str, Any]]:
    return [rendered(HookSecretJson, each) for each in view.secrets]
