"""Deliveries to incoming hooks that their sender did not sign, or not now, or not so."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.webhooks import new_secret, sign
from tests.api.attacks.attack import Attack, attack
from tests.api.attacks.world import HOOK_SECRET

BODY = json.dumps({"type": "invoice.paid", "data": {"amount": 12}}).encode()
JSON = ("content-type", "application/json")
DOOR = "POST /hooks/billing"


def _signed(secret: str = HOOK_SECRET, age: float = 0, body: bytes = BODY) -> dict[str, str]:
    now = datetime.now(UTC) - timedelta(seconds=age)
    return {name.lower(): value for name, value in sign(body, secret, id="msg_1", now=now).items()}


def _github(secret: str = HOOK_SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), BODY, hashlib.sha256).hexdigest()
    return {"x-hub-signature-256": f"sha256={digest}", "x-github-delivery": "1"}


def _heads() -> dict[str, dict[str, str]]:
    good = _signed()
    signature = good["webhook-signature"]
    return {
        "no signature at all": {},
        "only an id and a time": {name: good[name] for name in ("webhook-id", "webhook-timestamp")},
        "an empty signature": good | {"webhook-signature": ""},
        "a signature of rubbish": good | {"webhook-signature": "v1,rubbish"},
        "a signature of another version": good | {"webhook-signature": signature.replace("v1,", "v0,")},
        "a signature without its version": good | {"webhook-signature": signature.partition(",")[2]},
        "a truncated signature": good | {"webhook-signature": signature[:-4]},
        "the secret of another": _signed(new_secret()),
        "a time an hour ago": _signed(age=3600),
        "a time in an hour": _signed(age=-3600),
        "a newer time on an old signature": _signed(age=3600) | {"webhook-timestamp": good["webhook-timestamp"]},
        "a time of text": good | {"webhook-timestamp": "now"},
        "a time beyond all bounds": good | {"webhook-timestamp": "9" * 400},
        "a time that is no number": good | {"webhook-timestamp": "nan"},
        "another id under the signature": good | {"webhook-id": "msg_2"},
        "no id": {name: value for name, value in good.items() if name != "webhook-id"},
        "an id with a dot": good | {"webhook-id": "msg_1.0"},
        "an id of 10 KB": good | {"webhook-id": "m" * 10_000},
        "the style of GitHub": _github(),
        "the style of Stripe": {"stripe-signature": "t=1,v1=" + "0" * 64},
        "a thousand signatures": good | {"webhook-signature": " ".join(["v1," + "A" * 43 + "="] * 200)},
        "a bearer instead": {"authorization": "Bearer x"},
    }


def attacks() -> list[Attack]:
    made = [_attack(kind, heads) for kind, heads in _heads().items()]
    good = tuple(_signed().items())
    more: dict[str, dict[str, Any]] = {
        "an altered body": {"body": BODY.replace(b"12", b"99")},
        "a longer body": {"body": BODY + b" "},
        "no body": {"body": b""},
    }
    for kind, given in more.items():
        made.append(attack(kind, DOOR, 400, 401, headers=(JSON, *good), **given))
    made.append(attack("the delivery of another hook", "POST /hooks/other", 401, headers=(JSON, *good), body=BODY))
    twice = (JSON, *good, ("webhook-signature", "v1,rubbish"), ("webhook-id", "msg_9"))
    made.append(attack("two ids and two signatures", DOOR, 400, 401, headers=twice, body=BODY))
    made.append(attack("a body of ten megabytes", DOOR, 413, headers=(JSON, *good), body=b" " * 10_000_000))
    made.append(attack("a body of another type", DOOR, 415, headers=(("content-type", "text/plain"), *good), body=BODY))
    guess: dict[str, Any] = {"body": BODY, "headers": (JSON,), "never": NAMES}
    made += [attack("names of hooks", f"POST /hooks/{name}", 401, 404, **guess) for name in ("bill", "billin", "no")]
    methods = ("GET", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT")
    return made + [attack(f"{method} of a hook", f"{method} /hooks/billing", 405, headers=good) for method in methods]


def _attack(kind: str, heads: dict[str, str]) -> Attack:
    return attack(kind, DOOR, 400, 401, body=BODY, headers=(JSON, *heads.items()), never=(HOOK_SECRET,))


NAMES = ("billing", "other")
"""What a stranger must not learn by asking for hooks that are not there."""
