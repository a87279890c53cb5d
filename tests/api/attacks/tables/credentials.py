"""Credentials that prove nothing: forged, foreign, outdated or misplaced. None of them may open any door."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any

from tests.api.access_support import SECRET, ec_key, public_pem, rsa_key, signed
from tests.api.attacks.attack import Attack, attack
from tests.api.attacks.world import AUDIENCE, ISSUER

DOORS = ("GET /api/v1/tokens", "POST /api/v1/jobs/greet/trigger")


def jwt(**claims: Any) -> str:
    return signed(**{"aud": AUDIENCE, "iss": ISSUER, **claims})


def raw(header: dict[str, Any] | bytes, claims: dict[str, Any] | bytes | None = None, key: bytes = b"") -> str:
    """A JWT that no library would make."""
    usual = {"sub": "mallory", "role": "admin", "aud": AUDIENCE, "iss": ISSUER, "exp": int(time.time()) + 3600}
    parts = [_json(header), _json(usual if claims is None else claims)]
    text = ".".join(map(_b64, parts))
    return f"{text}.{_b64(hmac.digest(key, text.encode(), 'sha256') if key else b'')}"


def _json(data: dict[str, Any] | bytes) -> bytes:
    return data if isinstance(data, bytes) else json.dumps(data).encode()


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bearers() -> dict[str, str]:
    """Each as the whole value of the Authorization header."""
    now, key, good = int(time.time()), SECRET.encode(), jwt()
    token = "mainspring_" + "0" * 16 + "_" + "0" * 64
    forged = {
        "alg none": raw({"alg": "none", "typ": "JWT"}),
        "alg none in mixed case": raw({"alg": "nOnE"}),
        "alg none with a signature": raw({"alg": "none"}, key=key),
        "no alg": raw({"typ": "JWT"}, key=key),
        "alg that is not allowed": signed(SECRET, "HS512", aud=AUDIENCE, iss=ISSUER),
        "RS256 for a shared secret": signed(rsa_key(), "RS256", aud=AUDIENCE, iss=ISSUER),
        "ES256 for a shared secret": signed(ec_key(), "ES256", aud=AUDIENCE, iss=ISSUER),
        "alg twice in the header": raw(b'{"alg":"none","alg":"HS256"}', key=b"guess"),
        "a public key as the secret": raw({"alg": "HS256"}, key=public_pem(rsa_key())),
        "an empty secret": raw({"alg": "HS256"}, key=b"\0"),
        "another secret": signed("x" * 64, aud=AUDIENCE, iss=ISSUER),
        "kid that leaves the folder": raw({"alg": "HS256", "kid": "../../../../dev/null"}, key=b"\0"),
        "kid with SQL": raw({"alg": "HS256", "kid": "x' UNION SELECT 'guess' --"}, key=b"guess"),
        "kid that is a list": raw({"alg": "HS256", "kid": ["a"]}, key=b"guess"),
        "jwk brought along": raw({"alg": "HS256", "jwk": {"kty": "oct", "k": _b64(b"guess")}}, key=b"guess"),
        "jku of the attacker": raw({"alg": "HS256", "jku": "https://evil.example/jwks"}, key=b"guess"),
        "x5u of the attacker": raw({"alg": "HS256", "x5u": "https://evil.example/x5u"}, key=b"guess"),
        "x5c brought along": raw({"alg": "HS256", "x5c": [_b64(b"guess")]}, key=b"guess"),
        "crit extensions": raw({"alg": "HS256", "crit": ["exp"]}, key=key),
        "b64 false": raw({"alg": "HS256", "b64": False, "crit": ["b64"]}, key=key),
        "a zip header on a wrong signature": raw({"alg": "HS256", "zip": "DEF"}, key=b"guess"),
        "another audience": jwt(aud="shop"),
        "no audience": jwt(aud=None),
        "an audience that contains ours": jwt(aud=f"{AUDIENCE}.evil.example"),
        "another issuer": jwt(iss="https://evil.example"),
        "no issuer": jwt(iss=None),
        "an issuer that begins like ours": jwt(iss=f"{ISSUER}.evil.example"),
        "expired": jwt(exp=now - 3600),
        "no exp": jwt(exp=None),
        "exp of true": jwt(exp=True),
        "not valid yet": jwt(nbf=now + 3600),
        "issued in the future": jwt(iat=now + 3600),
        "no sub": jwt(sub=None),
        "sub of a number": raw({"alg": "HS256"}, _claims(sub=7), key),
        "sub with a line break": jwt(sub="ada\nroot logged in"),
        "sub of an escape sequence": jwt(sub="\x1b[2Jada"),
        "sub of bidi controls": jwt(sub="\u202eada"),
        "no role": jwt(role=None),
        "role of null": raw({"alg": "HS256"}, _claims(role=None), key),
        "role in capitals": jwt(role="ADMIN"),
        "role with a space": jwt(role="admin "),
        "role of look-alikes": jwt(role="\u0430dmin"),
        "role in fullwidth": jwt(role="\uff41dmin"),
        "role in a nested list": jwt(role=[["admin"]]),
        "role in an object": jwt(role={"admin": True}),
        "role of true": jwt(role=True),
        "role list of strangers": jwt(role=["root", "superuser"]),
        "role among several in one text": jwt(role="viewer,admin"),
        "roles instead of role": jwt(role=None, roles=["admin"]),
        "claims that are a list": raw({"alg": "HS256"}, b'["admin"]', key),
        "claims with NaN": raw({"alg": "HS256"}, b'{"sub":"a","role":"admin","exp":NaN}', key),
        "claims with an infinite end": raw({"alg": "HS256"}, b'{"sub":"a","role":"admin","exp":1e999}', key),
        "a deep header": raw(b"[" * 5000 + b"]" * 5000),
        "truncated": good[:-1],
        "without a signature": good.rpartition(".")[0] + ".",
        "two parts": good.rpartition(".")[0],
        "five parts, as an encrypted JWT": "a.b.c.d.e",
        "another's signature": f"{jwt(sub='ada').rpartition('.')[0]}.{jwt(sub='eve').rpartition('.')[2]}",
        "padding in the signature": good + "==",
        "a line break in the middle": good[:20] + " " + good[20:],
        "oversized": "a" * 17_000,
        "an unknown API token": token,
        "an API token with SQL": "mainspring_' OR 1=1 --_" + "0" * 64,
        "an API token of dots": "mainspring_" + "." * 16 + "_" + "." * 64,
        "an API token without its secret": "mainspring_" + "0" * 16,
        "an API token of another alphabet": "mainspring_" + "0" * 16 + "_" + "\u00e9" * 64,
        "an empty bearer": "",
        "the word null": "null",
        "the word undefined": "undefined",
    }
    return {kind: f"Bearer {text}" for kind, text in forged.items()} | {
        "Basic": "Basic " + base64.b64encode(b"admin:admin").decode(),
        "Digest": 'Digest username="admin"',
        "Negotiate": "Negotiate TlRMTVNTUAAB",
        "no scheme": good,
        "scheme twice": f"Bearer Bearer {good}",
        "two credentials in one header": f"Bearer {good}, Bearer {good}",
        "scheme joined to the token": f"Bearer{good}",
        "scheme and token with a tab": f"Bearer\t{good}",
    }


def _claims(**changed: Any) -> dict[str, Any]:
    return {"sub": "m", "role": "admin", "aud": AUDIENCE, "iss": ISSUER, "exp": int(time.time()) + 3600} | changed


def _misplaced() -> dict[str, dict[str, Any]]:
    """A right credential at a place that does not count."""
    good = jwt()
    return {
        "token in the query": {"query": f"?access_token={good}"},
        "authorization in the query": {"query": f"?authorization=Bearer%20{good}"},
        "token in a cookie": {"headers": (("cookie", f"access_token={good}"),)},
        "session cookie at the API": {"headers": (("cookie", f"mainspring_session={good}"),)},
        "X-Authorization": {"headers": (("x-authorization", f"Bearer {good}"),)},
        "Proxy-Authorization": {"headers": (("proxy-authorization", f"Bearer {good}"),)},
        "X-API-Key": {"headers": (("x-api-key", good),)},
        "X-Forwarded-User": {"headers": (("x-forwarded-user", "admin"),)},
        "X-Remote-User": {"headers": (("x-remote-user", "admin"), ("remote-user", "admin"))},
        "two headers, the right one first": {"headers": _two(f"Bearer {good}", "Bearer x")},
        "two headers, the right one last": {"headers": _two("Bearer x", f"Bearer {good}")},
        "the same header twice": {"headers": _two(f"Bearer {good}", f"Bearer {good}")},
    }


def _two(first: str, second: str) -> tuple[tuple[str, str], ...]:
    return ("authorization", first), ("authorization", second)


def attacks() -> list[Attack]:
    """Every credential at every door."""
    made = []
    for door in DOORS:
        for kind, value in _bearers().items():
            made.append(attack(kind, door, 401, headers=(("authorization", _latin(value)),)))
        for kind, given in _misplaced().items():
            made.append(attack(kind, door + given.get("query", ""), 401, headers=given.get("headers", ())))
    return made


def _latin(value: str) -> str:
    """Header values are bytes; texts beyond Latin-1 go as their UTF-8."""
    return value.encode().decode("latin-1")
