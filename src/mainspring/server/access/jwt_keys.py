"""The keys JWTs are checked with: a shared secret, a public key in a PEM file, or several in a JWKS file.

A file is read again when it changes. If it cannot be read then, that is logged and the keys known last stay in force: a
half-written file must not lock all users out. At start it is an error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from ...config.security import SecuritySettings
from ...model.errors import ConfigurationError

LOG = logging.getLogger("mainspring.access")

RECHECK_AFTER = 1.0
"""Seconds between two checks whether the file has changed."""
LEAST_RSA_BITS = 2_048
MOST_BYTES = 1_000_000

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_SAMPLE = {"RSA": "RS256", "EC": "ES256", "OKP": "EdDSA"}  # PyJWT parses all keys of one type in the same way
_PRIVATE_PARTS = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth"})


class Key(msgspec.Struct, frozen=True):
    """A key, the algorithms it may be used with, and the `kid` that names it (None: it has no name)."""

    key: Any
    algorithms: frozenset[str]
    kid: str | None = None


Keys: TypeAlias = tuple[Key, ...]
KeySource: TypeAlias = Callable[[], Keys]


def key_source(settings: SecuritySettings, monotonic: Callable[[], float]) -> KeySource:
    """A function that returns the keys, from the source that the settings name."""
    if settings.jwt_secret is not None:
        algorithms = frozenset(settings.jwt_algorithms or ("HS256",))
        fixed = (Key(settings.jwt_secret.reveal().encode(), algorithms),)
        return lambda: fixed
    if settings.jwt_key_file is not None:
        return _File("jwt_key_file", settings.jwt_key_file, _pem_keys, settings.jwt_algorithms, monotonic)
    assert settings.jwt_jwks_file is not None
    return _File("jwt_jwks_file", settings.jwt_jwks_file, _jwks_keys, settings.jwt_algorithms, monotonic)


class _File:
    def __init__(
        self,
        setting: str,
        path: str,
        parse: Callable[[bytes], Iterable[Key]],
        algorithms: Iterable[str],
        monotonic: Callable[[], float],
    ) -> None:
        self._setting, self._path, self._parse = setting, Path(path), parse
        self._algorithms, self._monotonic = frozenset(algorithms), monotonic
        self._looked = monotonic()
        self._stamp = self._now_stamp()
        self._keys = self._read()

    def __call__(self) -> Keys:
        if self._monotonic() - self._looked >= RECHECK_AFTER:
            self._looked = self._monotonic()
            self._look_again()
        return self._keys

    def _look_again(self) -> None:
        stamp = self._now_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._keys = self._read()
        except ConfigurationError as error:
            LOG.error("the keys of JWTs stay as they were: %s", error)

    def _now_stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> Keys:
        """Errors name the file and the problem, and never quote its content."""
        where = f"{self._setting}: {str(self._path)!r}"
        try:
            with self._path.open("rb") as file:
                data = file.read(MOST_BYTES)
        except OSError as error:
            raise ConfigurationError(f"{where}: {error.strerror or 'cannot be read'}") from None
        try:
            keys = tuple(self._parse(data))
        except _Unusable as error:
            raise ConfigurationError(f"{where} {error}") from None
        usable = tuple(key for key in keys if key.algorithms & self._algorithms)
        if not usable:
            wanted = ", ".join(sorted(self._algorithms))
            raise ConfigurationError(f"{where} holds no key for {wanted} (jwt_algorithms)")
        return usable


class _Unusable(Exception):
    pass


def _pem_keys(data: bytes) -> list[Key]:
    if b"PRIVATE KEY" in data:
        raise _Unusable("holds a private key; give the public key, which is enough to check with")
    try:
        key = load_pem_public_key(data)
    except Exception:  # the type of the error varies, and its message may quote the file
        raise _Unusable("holds no public key in PEM form (-----BEGIN PUBLIC KEY-----)") from None
    return [Key(key, _algorithms_of(key))]


def _jwks_keys(data: bytes) -> list[Key]:
    """Skips keys for other uses, of other kinds, and weak keys. Skips every shared secret: anyone who can read the file
    could sign with it."""
    try:
        listed = json.loads(data)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        listed = None
    if not isinstance(listed, list):
        raise _Unusable('is no JWKS file: {"keys": [...]}')
    return [key for item in listed if isinstance(item, dict) and (key := _jwk(item)) is not None]


def _jwk(item: dict[str, Any]) -> Key | None:
    operations = item.get("key_ops", ["verify"])
    if item.get("use", "sig") != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    sample, kid, named = _SAMPLE.get(str(item.get("kty"))), item.get("kid"), item.get("alg")
    if sample is None or not isinstance(kid, str | None) or not isinstance(named, str | None):
        return None
    public = {name: value for name, value in item.items() if name not in _PRIVATE_PARTS}
    try:
        key = jwt.PyJWK(public, sample).key
        algorithms = _algorithms_of(key)
    except Exception:  # one invalid key must not disable the others
        return None
    return Key(key, algorithms if named is None else algorithms & {named}, kid)


def _algorithms_of(key: Any) -> frozenset[str]:
    match key:
        case RSAPublicKey():
            if key.key_size < LEAST_RSA_BITS:
                raise _Unusable(f"holds an RSA key of {key.key_size} bits; {LEAST_RSA_BITS} is the least")
            return frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
        case EllipticCurvePublicKey():
            return frozenset({_CURVES[key.curve.name]} if key.curve.name in _CURVES else ())
        case Ed25519PublicKey() | Ed448PublicKey():
            return frozenset({"EdDSA"})
        case _:
            return frozenset()
