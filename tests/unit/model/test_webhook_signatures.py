"""Signatures of webhooks: the vectors of the Standard Webhooks libraries, the published library as a counterpart, and
the styles of GitHub and Stripe with the examples of their own documentation."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from mainspring import InvalidValue, webhooks
from mainspring.model.errors import ConfigurationError
from mainspring.model.values import webhook_signatures
from mainspring.model.values.webhook_signatures import checked_secret, received, signed_headers
from mainspring.webhooks import WebhookError, new_secret, public_key, sign, verify

pytestmark = pytest.mark.req("WHK-1")

ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
BODY = '{"test": 2432232314}'
SECRET = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WRONG = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def signature(secret: str = SECRET, at: datetime = NOW) -> dict[str, str]:
    """Made from first principles, not by the code under test."""
    seconds = str(int(at.timestamp()))
    digest = hmac.new(base64.b64decode(secret), f"{ID}.{seconds}.{BODY}".encode(), hashlib.sha256).digest()
    return {
        "webhook-id": ID,
        "webhook-timestamp": seconds,
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


def test_the_reference_vector_of_signing() -> None:
    headers = sign(BODY, f"whsec_{SECRET}", id=ID, now=datetime.fromtimestamp(1614265330, UTC))
    assert headers == {
        "webhook-id": ID,
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_the_reference_vectors_of_verifying() -> None:
    good = signature()
    assert verify(BODY, good, SECRET, now=NOW) == {"test": 2432232314}
    assert verify(BODY.encode(), good, f"whsec_{SECRET}", now=NOW) == {"test": 2432232314}
    assert verify(BODY, {name.title(): value for name, value in good.items()}, SECRET, now=NOW)["test"]
    several = f"{WRONG} {WRONG.replace('v1', 'v2')} {good['webhook-signature']} {WRONG}"
    assert verify(BODY, good | {"webhook-signature": several}, SECRET, now=NOW)["test"]
    for unpadded, padding in (("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "="), (f"{SECRET}Br", "==")):
        headers = signature(unpadded + padding)
        assert verify(BODY, headers, unpadded, now=NOW)["test"] == 2432232314
        assert verify(BODY, headers, f"whsec_{unpadded}", now=NOW)["test"] == 2432232314


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"webhook-id": None}, "webhook-id is missing"),
        ({"webhook-timestamp": None}, "webhook-timestamp is missing"),
        ({"webhook-signature": None}, "webhook-signature is missing"),
        ({"webhook-id": " "}, "webhook-id is missing"),
        ({"webhook-timestamp": "hello"}, "not a number of seconds"),
        ({"webhook-timestamp": "1e9"}, "not a number of seconds"),
        ({"webhook-timestamp": "٤٢"}, "not a number of seconds"),
        ({"webhook-timestamp": "9" * 40}, "not a number of seconds"),
        ({"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA="}, "no signature"),
        ({"webhook-signature": "v1"}, "no signature"),
        ({"webhook-signature": "v1,***"}, "no signature"),
        ({"webhook-signature": "v1,é"}, "no signature"),
        ({"webhook-signature": "v1a," + "A" * 86 + "=="}, "no signature"),
        ({"webhook-id": "msg_other"}, "no signature"),
    ],
)
def test_what_is_refused(change: dict[str, str | None], reason: str) -> None:
    headers = {name: value for name, value in (signature() | change).items() if value is not None}
    with pytest.raises(WebhookError, match=reason):
        verify(BODY, headers, SECRET, now=NOW)


def test_a_body_may_have_any_number_of_values() -> None:
    """A receiver takes what Mainspring sends: the result of an execution may be a list of thousands of numbers."""
    body = b'{"type": "execution.completed", "data": {"result": [' + b",".join([b"0"] * 16_000) + b"]}}"
    assert len(verify(body, sign(body, SECRET, id="m"), SECRET)["data"]["result"]) == 16_000


def test_times_beyond_the_tolerance_are_refused_in_both_directions() -> None:
    for seconds, word in ((301, "past"), (-301, "future")):
        with pytest.raises(WebhookError, match=word):
            verify(BODY, signature(at=NOW - timedelta(seconds=seconds)), SECRET, now=NOW)
        assert verify(BODY, signature(at=NOW - timedelta(seconds=seconds)), SECRET, now=NOW, tolerance=302)
    for seconds in (300, -300):
        assert verify(BODY, signature(at=NOW - timedelta(seconds=seconds)), SECRET, now=NOW)


def test_a_body_that_was_changed_or_is_not_json_is_refused() -> None:
    with pytest.raises(WebhookError, match="no signature"):
        verify(BODY + " ", signature(), SECRET, now=NOW)
    for body in (b"not json", b"\xff", b"[" * 100_000):
        with pytest.raises(WebhookError, match="not JSON"):
            verify(body, sign(body, SECRET, id="m"), SECRET)


def test_a_header_that_comes_twice_is_refused() -> None:
    with pytest.raises(WebhookError, match="webhook-id appears 2 times"):
        verify(BODY, [*signature().items(), ("Webhook-Id", "msg_other")], SECRET, now=NOW)


def test_secrets_in_rotation() -> None:
    old, new = new_secret(), new_secret()
    both = sign(BODY, [new, old], id="m")
    assert both["webhook-signature"].count("v1,") == 2
    for secret in (old, new, [new_secret(), old]):
        assert verify(BODY, both, secret)
    with pytest.raises(WebhookError, match="no signature"):
        verify(BODY, both, new_secret())


def test_the_published_library_verifies_what_we_sign_and_the_reverse() -> None:
    secret, now = new_secret(), datetime.now(UTC)
    theirs = Webhook(secret)
    for body in (BODY, '{"type": "execution.failed", "data": {"name": "Ürümqi \\u0000 \U0001f570"}}', "{}"):
        assert theirs.verify(body, sign(body, [new_secret(), secret], id="msg_1")) == verify(
            body,
            {
                "webhook-id": "msg_1",
                "webhook-timestamp": str(int(now.timestamp())),
                "webhook-signature": theirs.sign("msg_1", now, body),
            },
            secret,
        )
        with pytest.raises(WebhookVerificationError):
            theirs.verify(body + " ", sign(body, secret, id="msg_1"))


def test_ed25519() -> None:
    secret = new_secret("v1a")
    public = public_key(secret)
    assert secret.startswith("whsk_")
    assert public.startswith("whpk_")
    headers = sign(BODY, [new_secret(), secret], id="m")
    assert [item.partition(",")[0] for item in headers["webhook-signature"].split()] == ["v1", "v1a"]
    for key in (public, secret, [new_secret(), public]):
        assert verify(BODY, headers, key)["test"] == 2432232314
    for headers_ in (headers | {"webhook-id": "n"}, headers | {"webhook-signature": "v1a,AAAA"}):
        with pytest.raises(WebhookError, match="no signature"):
            verify(BODY, headers_, public)
    with pytest.raises(InvalidValue, match="can only verify"):
        sign(BODY, public, id="m")
    with pytest.raises(InvalidValue, match="whsk_"):
        public_key(new_secret())


def test_a_stranger_cannot_have_ed25519_computed_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair of a signature and a key reads the whole body once more."""
    tried: list[str] = []
    monkeypatch.setattr(webhook_signatures, "_ed25519_matches", lambda key, content, text: tried.append(text))
    headers = signature() | {"webhook-signature": " ".join(f"v1a,{number}" for number in range(500))}
    for keys in (1, 2, 5, 15):
        tried.clear()
        with pytest.raises(WebhookError, match="no signature"):
            verify(BODY, headers, [public_key(new_secret("v1a")) for _ in range(keys)], now=NOW)
        assert keys <= len(tried) <= max(keys, webhook_signatures.MOST_ED25519)


@pytest.mark.parametrize("id", ["m" * 256, "a\0b", "a\nb", "m\xe9", "\x1b[2J", "m\u202e"])
def test_an_id_that_no_sender_would_choose_is_refused(id: str) -> None:
    digest = hmac.new(base64.b64decode(SECRET), f"{id}.{int(NOW.timestamp())}.{BODY}".encode(), hashlib.sha256).digest()
    signed = {"webhook-id": id, "webhook-signature": "v1," + base64.b64encode(digest).decode()}
    with pytest.raises(WebhookError, match="id of the delivery") as refused:
        received(BODY.encode(), signature() | signed, [SECRET], NOW.timestamp())
    assert refused.value.reason == "header"
    digest = hmac.new(b"It's a Secret to Everybody", b"{}", hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Delivery": id, "X-GitHub-Event": "push"}
    with pytest.raises(WebhookError, match="id of the delivery"):
        received(b"{}", headers, ["It's a Secret to Everybody"], NOW.timestamp(), "github")
    body = json.dumps({"id": id, "type": "a"}).encode()
    digest = hmac.new(b"s" * 20, f"{int(NOW.timestamp())}.".encode() + body, hashlib.sha256).hexdigest()
    stripe = {"Stripe-Signature": f"t={int(NOW.timestamp())},v1={digest}"}
    with pytest.raises(WebhookError, match="id of the delivery"):
        received(body, stripe, ["s" * 20], NOW.timestamp(), "stripe")


def test_ed25519_vector_of_rfc_8032() -> None:
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    known = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    for key in (seed, seed + known):
        assert public_key(f"whsk_{base64.b64encode(key).decode()}") == f"whpk_{base64.b64encode(known).decode()}"
    with pytest.raises(InvalidValue, match="belong together"):
        public_key(f"whsk_{base64.b64encode(seed + seed).decode()}")


def test_ed25519_without_the_package_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'mainspring\[server\]'"):
        new_secret("v1a")


@pytest.mark.parametrize(
    "secret",
    [None, "", "whsec_", "whsec_AAAA", "whsec_***", SECRET, "whsec_" + "A" * 200, "whsk_AAAA", "whpk_AAAA", "é" * 40],
)
def test_unfit_secrets_are_refused_without_being_shown(secret: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        checked_secret("secret", secret)
    assert "allowed" in str(caught.value)
    assert not secret or len(secret) < 7 or secret not in str(caught.value)


def test_secrets_that_fit() -> None:
    for secret in (new_secret(), new_secret("v1a"), f"whsec_{SECRET}", public_key(new_secret("v1a"))):
        assert checked_secret("secret", secret) == secret
    assert checked_secret("secret", "a text of 16 signs", "github")
    with pytest.raises(InvalidValue, match="16 or more"):
        checked_secret("secret", "short", "stripe")


def test_mistakes_of_the_caller_are_no_webhook_errors() -> None:
    for secret in ("", b"", "whsec_", "whsec_***", []):
        with pytest.raises(InvalidValue, match="secret"):
            verify(BODY, signature(), secret, now=NOW)
    with pytest.raises(InvalidValue, match="style"):
        verify(BODY, signature(), SECRET, style="paypal")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="scheme"):
        webhooks.new_secret("v2")  # type: ignore[arg-type]
    for id in ("", "a.b", "a b", "ü", "a" * 201):
        with pytest.raises(InvalidValue, match="id"):
            signed_headers(id, 0, b"{}", [SECRET])


@pytest.mark.req("WHK-2")
def test_github_style() -> None:
    """The pair of body and signature stands in GitHub's page on validating deliveries."""
    secret = "It's a Secret to Everybody"
    known = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    headers = {"X-Hub-Signature-256": f"sha256={known}", "X-GitHub-Delivery": "72d3162e", "X-GitHub-Event": "push"}
    with pytest.raises(WebhookError, match="not JSON"):  # the signature is right, the example's body is plain text
        received(b"Hello, World!", headers, [secret], 0.0, "github")
    body = b'{"ref": "refs/heads/main"}'
    headers["X-Hub-Signature-256"] = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    found = received(body, headers, ["another secret text", secret], 0.0, "github")
    assert (found.delivery, found.event, found.payload) == ("72d3162e", "push", {"ref": "refs/heads/main"})
    for change, reason in (
        ({"X-Hub-Signature-256": "sha1=" + "0" * 40}, "does not begin with sha256="),
        ({"X-Hub-Signature-256": "sha256=" + "0" * 64}, "no signature"),
        ({"X-Hub-Signature-256": "sha256=ü"}, "no signature"),
        ({"X-GitHub-Delivery": ""}, "X-GitHub-Delivery is missing"),
    ):
        with pytest.raises(WebhookError, match=reason):
            verify(body, headers | change, secret, style="github")


@pytest.mark.req("WHK-2", "SEC-4")
@pytest.mark.parametrize("style", ["standard", "github", "stripe"])
def test_a_secret_that_is_missing_verifies_nothing(style: Any) -> None:
    """As when a variable of the environment is not set: anybody can sign with an empty secret."""
    body = b'{"id": "evt_1", "type": "t"}'
    forged = hmac.new(b"", body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={forged}", "X-GitHub-Delivery": "1", "X-GitHub-Event": "push"}
    for secret in ("", b"", None, [], ["a secret of 16 letters", ""]):
        with pytest.raises(InvalidValue, match="none that is empty"):
            verify(body, headers, secret, style=style)  # type: ignore[arg-type]


@pytest.mark.req("WHK-2")
def test_stripe_style() -> None:
    secret, body = "whsec_test_of_a_stripe_secret", '{"id": "evt_1", "type": "invoice.paid", "data": {}}'
    at = int(NOW.timestamp())
    v1 = hmac.new(secret.encode(), f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"Stripe-Signature": f"t={at},v1={'0' * 64},v1={v1},v0={'1' * 64}"}
    found = received(body.encode(), headers, [secret], NOW.timestamp(), "stripe")
    assert (found.delivery, found.event) == ("evt_1", "invoice.paid")
    for header, now, reason in (
        (f"t={at},v0={v1}", NOW, "one t= and at least one v1="),
        (f"v1={v1}", NOW, "one t= and at least one v1="),
        (f"t={at},t={at},v1={v1}", NOW, "one t= and at least one v1="),
        (f"t={at + 1},v1={v1}", NOW, "no signature"),
        (f"t={at},v1={v1}", NOW + timedelta(seconds=301), "in the past"),
        (f"t={at},v1={v1}", NOW - timedelta(seconds=301), "in the future"),
        ("nonsense", NOW, "one t="),
    ):
        with pytest.raises(WebhookError, match=reason):
            verify(body, {"stripe-signature": header}, secret, style="stripe", now=now)
    anonymous = hmac.new(secret.encode(), f"{at}.{{}}".encode(), hashlib.sha256).hexdigest()
    with pytest.raises(WebhookError, match="holds no event"):
        verify("{}", {"Stripe-Signature": f"t={at},v1={anonymous}"}, secret, style="stripe", now=NOW)
