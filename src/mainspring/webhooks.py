"""For programs that receive webhooks, from Mainspring or any sender of Standard Webhooks 1.0.

    from mainspring import webhooks

    event = webhooks.verify(body, request.headers, "whsec_...")
    event["type"], event["data"]

`body` is what arrived, byte for byte: JSON that was parsed and written again has another signature.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from .model.errors import WebhookError
from .model.values.webhook_signatures import (
    TOLERANCE,
    HasItems,
    Style,
    new_secret,
    public_key,
    received,
    signed_headers,
)

__all__ = ["WebhookError", "new_secret", "public_key", "sign", "verify"]


def verify(
    payload: bytes | str,
    headers: HasItems | Mapping[str, str] | Iterable[tuple[str, str]],
    secret: str | bytes | Sequence[str | bytes],
    *,
    style: Style = "standard",
    tolerance: float = TOLERANCE,
    now: datetime | None = None,
) -> Any:
    """The parsed event if the signature is right and not older or newer than `tolerance` seconds; raises
    `WebhookError` with the reason otherwise.

    `secret` is `whsec_...`, `whpk_...`, or a list of them while a secret is being rotated. `style` may also be
    "github" or "stripe". `now` is for tests.

    >>> secret, body = new_secret(), b'{"type": "execution.failed", "data": {}}'
    >>> verify(body, sign(body, secret, id="msg_1"), secret)["type"]
    'execution.failed'
    """
    body = payload.encode() if isinstance(payload, str) else bytes(payload)
    secrets = [secret] if isinstance(secret, str | bytes) else list(secret or ())
    return received(body, headers, secrets, _seconds(now), style, tolerance).payload


def sign(
    payload: bytes | str,
    secret: str | bytes | Sequence[str | bytes],
    *,
    id: str,
    now: datetime | None = None,
) -> dict[str, str]:
    """The headers `webhook-id`, `webhook-timestamp` and `webhook-signature` for this body; for tests of receivers and
    for senders of your own. `id` stays the same when the message is sent again.

    >>> sign("{}", new_secret(), id="msg_1")["webhook-id"]
    'msg_1'
    """
    body = payload.encode() if isinstance(payload, str) else bytes(payload)
    secrets = [secret] if isinstance(secret, str | bytes) else list(secret or ())
    return signed_headers(id, int(_seconds(now)), body, secrets)


def _seconds(now: datetime | None) -> float:
    return time.time() if now is None else now.timestamp()
