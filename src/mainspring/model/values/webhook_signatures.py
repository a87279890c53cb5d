"""Signatures of webhooks: Standard Webhooks 1.0, and the styles of GitHub and Stripe for hooks that are received.

Standard Webhooks sign `id.timestamp.body`. A secret says by its prefix how: `whsec_` is a shared key for HMAC-SHA256
(signature `v1`), `whsk_` an ed25519 key (signature `v1a`) whose public half, `whpk_`, is all that a receiver needs.
Several secrets are allowed at once, so that they can be rotated: one matching signature is enough.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, get_args

import msgspec

from ..errors import ConfigurationError, InvalidValue, WebhookError, one_of

Read: TypeAlias = Callable[[bytes], Any]
"""Reads JSON; an `InvalidValue` refuses a body that was signed."""
Style: TypeAlias = Literal["standard", "github", "stripe"]
Scheme: TypeAlias = Literal["v1", "v1a"]

TOLERANCE = 300
"""Seconds by which the time of a message may differ from ours, in both directions."""
FEWEST_BYTES, MOST_BYTES, NEW_BYTES = 24, 64, 32
MOST_SIGNATURES = 20
MOST_ED25519 = 10
"""Pairs of an ed25519 signature and a key that are tried: each reads the whole body, and strangers send both."""
LONGEST_ID = 255
SHORTEST_TEXT = 16

_SHARED, _PRIVATE, _PUBLIC = "whsec_", "whsk_", "whpk_"
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)
_MESSAGE_ID = re.compile(r"[A-Za-z0-9_-]{1,200}", re.ASCII)
_REMEDY = "Create one with mainspring.webhooks.new_secret()"


class HasItems(Protocol):
    """The headers of a request as Starlette, Flask, Django or a plain dict hold them."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class Received(msgspec.Struct, frozen=True):
    """A message whose signature is right. `delivery` is the sender's id of it, the same for every repetition."""

    delivery: str
    event: str
    payload: Any


def new_secret(scheme: Scheme = "v1") -> str:
    """A new random secret: `whsec_...`, or for the scheme `v1a` the private key `whsk_...`."""
    if scheme == "v1":
        return _SHARED + _encoded(os.urandom(NEW_BYTES))
    if scheme == "v1a":
        seed = os.urandom(32)
        return _PRIVATE + _encoded(
            seed + _ed25519().Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        )
    raise InvalidValue("scheme", scheme, one_of(repr(name) for name in get_args(Scheme)))


def public_key(secret: str) -> str:
    """The public half of a `whsk_` secret, which receivers verify with."""
    if not secret.startswith(_PRIVATE):
        raise InvalidValue("secret", "********", "a private key that begins with whsk_", _REMEDY)
    return _PUBLIC + _encoded(_private(secret).public_key().public_bytes_raw())


def checked_secret(field: str, secret: object, style: Style = "standard") -> str:
    """A secret that is fit for use: an `InvalidValue` never shows it."""
    if not isinstance(secret, str):
        raise InvalidValue(field, "********", "a text", _REMEDY)
    if style != "standard":
        if len(secret) < SHORTEST_TEXT or not secret.isascii() or not secret.isprintable():
            raise InvalidValue(field, "********", f"{SHORTEST_TEXT} or more printable ASCII characters", _REMEDY)
        return secret
    if secret.startswith((_PRIVATE, _PUBLIC)):
        (_private if secret.startswith(_PRIVATE) else _public)(secret)
        return secret
    size = len(_decoded(field, secret.removeprefix(_SHARED))) if secret.startswith(_SHARED) else 0
    if not FEWEST_BYTES <= size <= MOST_BYTES:
        allowed = f"whsec_ followed by the base64 form of {FEWEST_BYTES} to {MOST_BYTES} random bytes"
        raise InvalidValue(field, "********", allowed, _REMEDY)
    return secret


# ------------------------------------------------------------------ signing


def signed_headers(id: str, seconds: int, body: bytes, secrets: Sequence[str | bytes]) -> dict[str, str]:
    """The three headers of a message, signed with every secret; the newest secret comes first."""
    if not _MESSAGE_ID.fullmatch(id):
        raise InvalidValue("id", id, "1 to 200 letters, digits, _ and -")
    if not secrets:
        raise InvalidValue("secret", [], "at least one secret", _REMEDY)
    content = _content(id, str(int(seconds)), body)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(seconds)),
        "webhook-signature": " ".join(_signature(secret, content) for secret in secrets),
    }


def _signature(secret: str | bytes, content: bytes) -> str:
    if isinstance(secret, str) and secret.startswith(_PRIVATE):
        return f"v1a,{_encoded(_private(secret).sign(content))}"
    if isinstance(secret, str) and secret.startswith(_PUBLIC):
        raise InvalidValue("secret", "********", "a secret that begins with whsec_ or whsk_: whpk_ can only verify")
    return f"v1,{_encoded(_hmac(_shared(secret), content))}"


# ------------------------------------------------------------------ verifying


def received(
    body: bytes,
    headers: HasItems | Mapping[str, str] | Iterable[tuple[str, str]],
    secrets: Sequence[str | bytes],
    now: float,
    style: Style = "standard",
    tolerance: float = TOLERANCE,
    read: Read = msgspec.json.decode,
) -> Received:
    """The message if one of the secrets signed it and its time is near enough; raises `WebhookError` otherwise."""
    if style not in _STYLES:
        raise InvalidValue("style", style, one_of(repr(name) for name in _STYLES))
    if not secrets or not all(secrets):  # anybody can sign with an empty one
        raise InvalidValue("secret", "", "at least one secret, and none that is empty", _REMEDY)
    return _STYLES[style](body, _Headers(headers), secrets, now, tolerance, read)


class _Headers:
    """Headers by name, whatever their case. A name that comes twice is refused: the two sides of a proxy could read
    different ones."""

    def __init__(self, headers: HasItems | Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
        items: Any = headers.items() if hasattr(headers, "items") else headers
        self._found: dict[str, list[str]] = {}
        for name, value in items:
            self._found.setdefault(name.lower(), []).append(value)

    def needed(self, name: str) -> str:
        found = self._found.get(name.lower(), [])
        if len(found) > 1:
            raise WebhookError("header", f"the header {name} appears {len(found)} times")
        if not found or not found[0].strip():
            raise WebhookError("header", f"the header {name} is missing")
        return found[0].strip()


def _standard(
    body: bytes, headers: _Headers, secrets: Sequence[str | bytes], now: float, tolerance: float, read: Read
) -> Received:
    id, seconds = headers.needed("webhook-id"), headers.needed("webhook-timestamp")
    _check_time("webhook-timestamp", seconds, now, tolerance)
    given = headers.needed("webhook-signature").split()[:MOST_SIGNATURES]
    content = _content(id, seconds, body)
    tries = max(1, MOST_ED25519 // len(secrets))
    if not any(_signed_by(secret, content, given, tries) for secret in secrets):
        raise WebhookError("signature", "no signature in the header webhook-signature matches the secret")
    payload = _parsed(body, read)
    event = payload.get("type") if isinstance(payload, dict) else None
    return Received(_delivery_id(id), event if isinstance(event, str) else "", payload)


def _signed_by(secret: str | bytes, content: bytes, given: list[str], tries: int) -> bool:
    if isinstance(secret, str) and secret.startswith((_PRIVATE, _PUBLIC)):
        key = _private(secret).public_key() if secret.startswith(_PRIVATE) else _public(secret)
        return any(_ed25519_matches(key, content, text) for text in _of_scheme("v1a", given)[:tries])
    expected = _hmac(_shared(secret), content)
    return any(_bytes_match(expected, text) for text in _of_scheme("v1", given))


def _of_scheme(scheme: str, given: list[str]) -> list[str]:
    return [text for name, comma, text in (item.partition(",") for item in given) if comma and name == scheme]


def _github(
    body: bytes, headers: _Headers, secrets: Sequence[str | bytes], now: float, tolerance: float, read: Read
) -> Received:
    """GitHub signs the body alone: there is no time to check, and the delivery id is not part of what is signed."""
    given = headers.needed("X-Hub-Signature-256")
    if not given.startswith("sha256="):
        raise WebhookError("header", "the header X-Hub-Signature-256 does not begin with sha256=")
    _check_hex([given.removeprefix("sha256=")], secrets, body, "X-Hub-Signature-256")
    delivery, event = _delivery_id(headers.needed("X-GitHub-Delivery")), headers.needed("X-GitHub-Event")
    return Received(delivery, event, _parsed(body, read))


def _stripe(
    body: bytes, headers: _Headers, secrets: Sequence[str | bytes], now: float, tolerance: float, read: Read
) -> Received:
    fields = [item.partition("=") for item in headers.needed("Stripe-Signature").split(",")]
    seconds = [value for name, _, value in fields if name.strip() == "t"]
    given = [value.strip() for name, _, value in fields if name.strip() == "v1"][:MOST_SIGNATURES]
    if len(seconds) != 1 or not given:
        raise WebhookError("header", "the header Stripe-Signature does not hold one t= and at least one v1=")
    _check_time("Stripe-Signature t=", seconds[0], now, tolerance)
    _check_hex(given, secrets, seconds[0].encode() + b"." + body, "Stripe-Signature")
    payload = _parsed(body, read)
    id, event = (payload.get("id"), payload.get("type")) if isinstance(payload, dict) else (None, None)
    if not isinstance(id, str) or not id or not isinstance(event, str):
        raise WebhookError("body", "the body holds no event: an object with the texts id and type")
    return Received(_delivery_id(id), event, payload)


def _delivery_id(text: str) -> str:
    """GitHub does not sign it, so it can be anything that fits into a header."""
    if len(text) > LONGEST_ID or not (text.isascii() and text.isprintable()):
        raise WebhookError("header", f"the id of the delivery is not 1 to {LONGEST_ID} printable ASCII characters")
    return text


_Verifier: TypeAlias = Callable[[bytes, _Headers, Sequence[str | bytes], float, float, Read], Received]
_STYLES: dict[str, _Verifier] = {"standard": _standard, "github": _github, "stripe": _stripe}


def _check_hex(given: list[str], secrets: Sequence[str | bytes], content: bytes, header: str) -> None:
    """Hex signatures under secrets that are used as they are written."""
    expected = [_hmac(secret.encode() if isinstance(secret, str) else secret, content).hex() for secret in secrets]
    if not any(hmac.compare_digest(one.encode(), text.lower().encode()) for one in expected for text in given):
        raise WebhookError("signature", f"no signature in the header {header} matches the secret")


def _check_time(name: str, text: str, now: float, tolerance: float) -> None:
    if not _SECONDS.fullmatch(text):
        raise WebhookError("header", f"{name} is not a number of seconds since 1970")
    age = now - int(text)
    if abs(age) > tolerance:
        raise WebhookError(
            "time",
            f"{name} is {abs(age):.0f} s in the {'past' if age > 0 else 'future'}; allowed are {tolerance:g} s. "
            "Compare the clocks of sender and receiver, or the message was replayed",
        )


def _parsed(body: bytes, read: Read) -> Any:
    try:
        return read(body)
    except InvalidValue as error:
        raise WebhookError("body", f"the body is signed correctly but too large; {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise WebhookError(
            "body", "the body is signed correctly but is not JSON; send it as application/json"
        ) from None


def _content(id: str, seconds: str, body: bytes) -> bytes:
    return f"{id}.{seconds}.".encode("utf-8", "surrogatepass") + body


# ------------------------------------------------------------------ keys


def _shared(secret: str | bytes) -> bytes:
    key = secret if isinstance(secret, bytes) else _decoded("secret", secret.removeprefix(_SHARED))
    if not key:
        raise InvalidValue("secret", "", "a secret that is not empty", _REMEDY)
    return key


def _private(secret: str) -> Any:
    """A private key is its 32-byte seed, usually followed by the 32 bytes of its public key."""
    key = _decoded("secret", secret.removeprefix(_PRIVATE))
    if len(key) not in (32, 64):
        raise InvalidValue("secret", "********", "whsk_ followed by the base64 form of 32 or 64 bytes", _REMEDY)
    private = _ed25519().Ed25519PrivateKey.from_private_bytes(key[:32])
    if len(key) == 64 and private.public_key().public_bytes_raw() != key[32:]:
        raise InvalidValue("secret", "********", "a whsk_ key whose two halves belong together", _REMEDY)
    return private


def _public(secret: str) -> Any:
    key = _decoded("secret", secret.removeprefix(_PUBLIC))
    if len(key) != 32:
        raise InvalidValue("secret", "********", "whpk_ followed by the base64 form of 32 bytes")
    return _ed25519().Ed25519PublicKey.from_public_bytes(key)


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ConfigurationError(
            "signatures of the scheme v1a need the package cryptography: pip install 'mainspring[server]' or "
            "cryptography, or use a whsec_ secret"
        ) from None
    return ed25519


def _ed25519_matches(key: Any, content: bytes, text: str) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(text, validate=True), content)
    except (InvalidSignature, ValueError):
        return False
    return True


def _bytes_match(expected: bytes, text: str) -> bool:
    try:
        return hmac.compare_digest(expected, base64.b64decode(text, validate=True))
    except ValueError:
        return False


def _hmac(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, hashlib.sha256)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(field: str, text: str) -> bytes:
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValue(
            field, "********", "a secret in base64, with or without its prefix whsec_", _REMEDY
        ) from None
