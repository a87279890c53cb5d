"""JWTs: what they are signed with is settled before they arrive."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mainspring.config.security import SecuritySettings
from mainspring.model.errors import ConfigurationError
from mainspring.server.access import Guard
from tests.api.access_support import (
    SECRET,
    STRANGER,
    Answer,
    ask,
    ec_key,
    ed_key,
    jwk,
    public_pem,
    rsa_key,
    settings,
    signed,
    tiny_api,
)

pytestmark = pytest.mark.req("SEC-2")

SHARED = settings(jwt_secret=SECRET, failed_logins_per_minute=1000)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


async def show(token: str, given: SecuritySettings = SHARED, path: str = "/viewer") -> Answer:
    return await ask(tiny_api(Guard(given)), path, peer=STRANGER, bearer=token)


async def refused(token: str, given: SecuritySettings = SHARED) -> str:
    """Why: the message, which repeats no part of the token."""
    answer = await show(token, given)
    assert (answer.status, answer.code) == (401, "invalid_credentials")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    for part in [token, *[part for part in token.split(".") if len(part) > 8]]:
        assert part not in json.dumps(answer.body)
    return answer.message


def key_file(folder: Path, key: Any, algorithms: str, **more: Any) -> SecuritySettings:
    path = folder / "key.pem"
    path.write_bytes(public_pem(key))
    return settings(jwt_key_file=str(path), jwt_algorithms=algorithms, failed_logins_per_minute=1000, **more)


def jwks_file(folder: Path, algorithms: str, *keys: Any) -> SecuritySettings:
    path = folder / "jwks.json"
    path.write_text(json.dumps({"keys": keys}))
    return settings(jwt_jwks_file=str(path), jwt_algorithms=algorithms, failed_logins_per_minute=1000)


def raw(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    return ".".join(
        base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (_json(header), _json(claims), signature)
    )


def _json(data: Any) -> bytes:
    return json.dumps(data).encode()


CLAIMS = {"sub": "ada", "role": "admin", "exp": int(time.time()) + 3600}


# --- right ones ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
async def test_who_and_in_which_role(role: str) -> None:
    answer = await show(signed(role=role))
    assert answer.body == {"actor": "jwt:ada", "role": role, "kind": "jwt"}


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
async def test_shared_secrets(algorithm: str) -> None:
    given = settings(jwt_secret=SECRET, jwt_algorithms=algorithm)
    assert (await show(signed(algorithm=algorithm), given)).status == 200


@pytest.mark.parametrize("algorithm", ["RS256", "PS512", "ES256", "ES384", "EdDSA"])
async def test_public_keys_in_a_pem_file(algorithm: str, tmp_path: Path) -> None:
    key = {"R": rsa_key(), "P": rsa_key(), "ES256": ec_key(), "ES384": ec_key(ec.SECP384R1), "E": ed_key()}
    signer = key.get(algorithm) or key[algorithm[0]]
    given = key_file(tmp_path, signer, algorithm)
    assert (await show(signed(signer, algorithm), given)).status == 200


async def test_a_list_of_roles_may_hold_those_of_others() -> None:
    assert (await show(signed(role=["accounting", "operator", "viewer"]))).body["role"] == "operator"


async def test_the_claim_of_the_role_has_the_configured_name() -> None:
    given = settings(jwt_secret=SECRET, jwt_role_claim="https://example.com/role")
    assert (await show(signed(**{"https://example.com/role": "viewer"}), given)).body["role"] == "viewer"
    assert "https://example.com/role" in await refused(signed(role="admin"), given)


# --- wrong ones ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["root", "ADMIN", "", None, 7, True, {"admin": 1}, [], ["root"], [["admin"]]])
async def test_an_unknown_role_is_no_role(role: Any) -> None:
    assert "names no role known here (claim role)" in await refused(signed(role=role))


@pytest.mark.parametrize("sub", [None, "", " ", "a\nb", "a\0b", "\x1b[31m", "x" * 151])
async def test_a_subject_is_needed_and_fit_for_records(sub: str | None) -> None:
    assert "sub" in await refused(signed(sub=sub))


async def test_the_end_is_needed_and_counts() -> None:
    now = int(time.time())
    assert "'exp'" in await refused(signed(exp=None))
    assert "expired" in await refused(signed(exp=now - 60))
    assert (await show(signed(exp=now - 5))).status == 200, "clocks differ by a few seconds"
    assert "expired" in await refused(signed(exp=now - 5), settings(jwt_secret=SECRET, jwt_leeway=0))
    assert "not valid yet" in await refused(signed(nbf=now + 60))


@pytest.mark.parametrize("exp", ["soon", [], {}, "Infinity", True])
async def test_an_end_of_the_wrong_shape_is_no_error_of_ours(exp: Any) -> None:
    await refused(signed(exp=exp))


async def test_an_infinite_end_is_no_error_of_ours() -> None:
    head, body = _b64({"alg": "HS256"}), _b64(b'{"sub":"ada","role":"admin","exp":1e999}')
    signature = hmac.digest(SECRET.encode(), f"{head}.{body}".encode(), hashlib.sha256)
    await refused(f"{head}.{body}.{_b64(signature)}")


def _b64(data: Any) -> str:
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else _json(data)).rstrip(b"=").decode()


async def test_another_secret() -> None:
    assert "signature" in await refused(signed("x" * 64))


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE", "", None, 7, ["HS256"]])
async def test_unsigned_tokens(alg: Any, tmp_path: Path) -> None:
    for given in (SHARED, key_file(tmp_path, rsa_key(), "RS256")):
        for signature in (b"", b"x"):
            await refused(raw({"alg": alg, "typ": "JWT"}, CLAIMS, signature), given)


async def test_a_public_key_is_never_a_shared_secret(tmp_path: Path) -> None:
    """The public key, which everybody has, used as the secret of HS256."""
    given = key_file(tmp_path, rsa_key(), "RS256")
    head, body = _b64({"alg": "HS256", "typ": "JWT"}), _b64(CLAIMS)
    for secret in (public_pem(rsa_key()), public_pem(rsa_key()).strip(), b""):
        signature = hmac.digest(secret, f"{head}.{body}".encode(), hashlib.sha256)
        assert "not in jwt_algorithms" in await refused(f"{head}.{body}.{_b64(signature)}", given)


async def test_an_algorithm_that_was_not_configured(tmp_path: Path) -> None:
    given = key_file(tmp_path, rsa_key(), "RS256")
    for algorithm in ("RS512", "PS256"):
        assert "not in jwt_algorithms" in await refused(signed(rsa_key(), algorithm), given)
    assert "not in jwt_algorithms" in await refused(signed(algorithm="HS512"))


async def test_a_key_the_token_brings_along_is_not_used(tmp_path: Path) -> None:
    given = key_file(tmp_path, rsa_key(), "RS256")
    own = rsa_key(which=1)
    for headers in ({"jwk": jwk(own, "RS256")}, {"jku": "http://evil.example/jwks"}, {"x5u": "http://evil.example"}):
        assert "signature" in await refused(signed(own, "RS256", headers), given)


async def test_extensions_that_must_be_understood_are_not() -> None:
    await refused(raw({"alg": "HS256", "crit": ["b64"], "b64": False}, CLAIMS, b"x"))
    await refused(signed(headers={"crit": ["b64"], "b64": True}))
    await refused(signed(headers={"crit": ["exp"]}))


async def test_audience_and_issuer() -> None:
    given = settings(jwt_secret=SECRET, jwt_audience="mainspring", jwt_issuer="https://id.example.com")
    right = {"aud": "mainspring", "iss": "https://id.example.com"}
    assert (await show(signed(**right), given)).status == 200
    assert (await show(signed(**right | {"aud": ["shop", "mainspring"]}), given)).status == 200
    assert "audience" in await refused(signed(**right | {"aud": "shop"}), given)
    assert "aud" in await refused(signed(iss=right["iss"]), given)
    assert "issuer" in await refused(signed(**right | {"iss": "https://evil.example"}), given)
    assert "iss" in await refused(signed(aud="mainspring"), given)


async def test_a_token_for_somebody_else_is_refused_though_no_audience_is_configured() -> None:
    assert "audience" in await refused(signed(aud="shop"))


@pytest.mark.parametrize("text", ["x", "a.b", "a.b.c", "..", "." * 50, "ey.ey.ey", "é.é.é", "x" * 20_000, "[" * 9000])
async def test_what_is_no_token_at_all(text: str) -> None:
    await refused(text)


async def test_an_endless_token_is_not_looked_at() -> None:
    assert (await show(signed(padding="x" * 5_000))).status == 200
    assert "the header must be" in await refused(signed(padding="x" * 20_000))


async def test_a_deep_header_is_no_error_of_ours() -> None:
    await refused(f"{_b64(b'[' * 7000)}.{_b64(CLAIMS)}.x")
    header = b'{"alg": "HS256", "kid": ' + b"[" * 4000 + b"]" * 4000 + b"}"
    await refused(f"{_b64(header)}.{_b64(CLAIMS)}.x")


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", "Basic YWRhOng=", "bearer  ", "Token x", "Bearer a b"])
async def test_headers_of_another_shape(value: str) -> None:
    answer = await ask(tiny_api(Guard(SHARED)), "/viewer", peer=STRANGER, headers=[("Authorization", value)])
    assert (answer.status, answer.code) == (401, "invalid_credentials")


async def test_two_credentials_are_one_too_many() -> None:
    headers = [("Authorization", f"Bearer {signed()}"), ("Authorization", "Bearer other")]
    assert (await ask(tiny_api(Guard(SHARED)), "/viewer", peer=STRANGER, headers=headers)).status == 401


async def test_the_scheme_is_written_in_any_case() -> None:
    headers = [("Authorization", f"bEARER {signed()}")]
    assert (await ask(tiny_api(Guard(SHARED)), "/viewer", peer=STRANGER, headers=headers)).status == 200


async def test_tokens_in_the_query_do_not_count() -> None:
    answer = await ask(tiny_api(Guard(SHARED)), f"/viewer?access_token={signed()}", peer=STRANGER)
    assert (answer.status, answer.code) == (401, "no_credentials")


# --- several keys -------------------------------------------------------------------------------------------------


async def test_keys_of_a_set_are_told_apart_by_kid(tmp_path: Path) -> None:
    first, second = rsa_key(), rsa_key(which=1)
    given = jwks_file(
        tmp_path,
        "RS256, ES256",
        jwk(first, "RS256", kid="a"),
        jwk(second, "RS256", kid="b"),
        jwk(ec_key(), "ES256", kid="e"),
    )
    assert (await show(signed(first, "RS256", {"kid": "a"}), given)).status == 200
    assert (await show(signed(second, "RS256", {"kid": "b"}), given)).status == 200
    assert (await show(signed(ec_key(), "ES256", {"kid": "e"}), given)).status == 200
    assert "signature" in await refused(signed(second, "RS256", {"kid": "a"}), given)
    assert "kid" in await refused(signed(first, "RS256", {"kid": "c"}), given)
    assert "kid" in await refused(signed(first, "RS256"), given), "which of the two?"
    assert (await show(signed(ec_key(), "ES256"), given)).status == 200, "only one key fits"
    assert "kid" in await refused(signed(first, "RS256", {"kid": "e"}), given), "a key of another kind"


async def test_keys_for_other_uses_are_passed_over(tmp_path: Path) -> None:
    good = jwk(rsa_key(), "RS256", kid="good")
    given = jwks_file(
        tmp_path,
        "RS256, PS256",
        good,
        jwk(rsa_key(which=1), "RS256", kid="enc", use="enc"),
        jwk(rsa_key(which=1), "RS256", kid="ops", key_ops=["encrypt"]),
        jwk(rsa_key(which=1), "RS256", kid="alg", alg="PS256"),
        jwk(rsa_key(1024), "RS256", kid="weak"),
        {"kty": "oct", "kid": "shared", "k": _b64(SECRET.encode())},
        {"kty": "RSA", "kid": "broken", "n": "?", "e": "AQAB"},
        {"kty": "unheard-of"},
        "not a key",
    )
    assert (await show(signed(rsa_key(), "RS256", {"kid": "good"}), given)).status == 200
    for kid in ("enc", "ops", "alg"):
        assert "kid" in await refused(signed(rsa_key(which=1), "RS256", {"kid": kid}), given)
    assert (await show(signed(rsa_key(which=1), "PS256", {"kid": "alg"}), given)).status == 200
    for kid in ("weak", "broken"):
        assert "kid" in await refused(signed(rsa_key(), "RS256", {"kid": kid}), given)


async def test_a_set_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old, new = jwk(rsa_key(), "RS256", kid="old"), jwk(rsa_key(which=1), "RS256", kid="new")
    given = jwks_file(tmp_path, "RS256", old)
    clock, path = Clock(), tmp_path / "jwks.json"
    api = tiny_api(Guard(given, monotonic=clock))
    with_old, with_new = signed(rsa_key(), "RS256", {"kid": "old"}), signed(rsa_key(which=1), "RS256", {"kid": "new"})

    async def statuses() -> tuple[int, int]:
        clock.time += 2
        answers = [await ask(api, "/viewer", peer=STRANGER, bearer=token) for token in (with_old, with_new)]
        return answers[0].status, answers[1].status

    assert await statuses() == (200, 401)
    replace(path, json.dumps({"keys": [old, new]}))
    assert await statuses() == (200, 200)
    replace(path, json.dumps({"keys": [new]}))
    assert await statuses() == (401, 200)
    replace(path, '{"keys": [secret-looking-rubbish')
    assert await statuses() == (401, 200), "half a file locks nobody out"
    assert "stay as they were" in caplog.text
    assert "rubbish" not in caplog.text
    path.unlink()
    assert await statuses() == (401, 200)
    replace(path, json.dumps({"keys": [old]}))
    assert await statuses() == (200, 401)


def replace(path: Path, text: str) -> None:
    """As careful programs do it: another file takes its place."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


# --- keys that cannot be used -------------------------------------------------------------------------------------


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    given = settings(jwt_key_file=str(tmp_path / "none.pem"), jwt_algorithms="RS256")
    with pytest.raises(ConfigurationError, match=r"jwt_key_file: '.*none\.pem': No such file"):
        Guard(given)


@pytest.mark.parametrize("setting", ["jwt_key_file", "jwt_jwks_file"])
@pytest.mark.parametrize("content", [b"", b"rubbish", b"\xff\xfe", b"[]", b'{"keys": 7}', b'{"keys": []}', b"[" * 9000])
def test_a_file_without_keys_is_named_but_not_quoted(setting: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"{setting}: '.*keys'") as raised:
        Guard(settings(**{setting: str(path)}, jwt_algorithms="RS256"))
    assert "rubbish" not in str(raised.value)


def test_a_private_key_is_not_what_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(rsa_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(ConfigurationError, match="private key; give the public key"):
        Guard(settings(jwt_key_file=str(path), jwt_algorithms="RS256"))


def test_weak_and_unfit_keys(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="1024 bits; 2048 is the least"):
        Guard(key_file(tmp_path, rsa_key(1024), "RS256"))
    with pytest.raises(ConfigurationError, match="no key for ES256"):
        Guard(key_file(tmp_path, rsa_key(), "ES256"))
    with pytest.raises(ConfigurationError, match="no key for ES256"):
        Guard(key_file(tmp_path, ec_key(ec.SECP384R1), "ES256"))


def test_the_private_half_in_a_set_is_not_needed(tmp_path: Path) -> None:
    private = jwt.get_algorithm_by_name("RS256").to_jwk(rsa_key(), as_dict=True)
    del private["key_ops"]
    assert "d" in private
    Guard(jwks_file(tmp_path, "RS256", private))
