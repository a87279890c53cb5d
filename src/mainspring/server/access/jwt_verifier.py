"""Verifies JWTs: signature, expiry, audience, issuer and role.

The settings decide which algorithms are accepted; the token's own header never does. That rules out `alg: none` and
public keys used as shared secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jwt

from ...config.security import SecuritySettings
from ...model.errors import InvalidValue
from ...model.values.access import Role
from ...model.values.reading import words
from .jwt_keys import Key, key_source
from .principals import Principal, Unproven

MOST_NAME = 150

_SAID = {
    jwt.ExpiredSignatureError: "the JWT has expired (exp)",
    jwt.ImmatureSignatureError: "the JWT is not valid yet (nbf, iat)",
    jwt.InvalidAudienceError: "the JWT is for another audience (aud; jwt_audience)",
    jwt.InvalidIssuerError: "the JWT is from another issuer (iss; jwt_issuer)",
    jwt.InvalidSignatureError: "the JWT's signature is wrong",
}


class JwtVerifier:
    def __init__(self, settings: SecuritySettings, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._algorithms = frozenset(settings.jwt_algorithms or ("HS256",))
        self._keys = key_source(settings, monotonic)

    def verify(self, text: str) -> Principal:
        key, algorithm = self._key(text)
        claims = self._claims(text, key, algorithm)
        return Principal(_name(claims), self._role(claims), "jwt")

    def _key(self, text: str) -> tuple[Key, str]:
        """The key that must have signed the token, if its algorithm is one of those allowed."""
        try:
            header = jwt.get_unverified_header(text)
        except Exception:  # any error of the parser means that this is not a JWT
            raise Unproven("the credentials are neither a JWT nor an API token") from None
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise Unproven("the JWT is signed with an algorithm that is not in jwt_algorithms")
        if "crit" in header:  # older releases of PyJWT ignore it
            raise Unproven("the JWT demands extensions that are not known here (crit)")
        fitting = [key for key in self._keys() if algorithm in key.algorithms]
        named = [key for key in fitting if key.kid == kid] if kid is not None else fitting
        if kid is not None and not named:  # a key without a `kid` may be used for any
            named = [key for key in fitting if key.kid is None]
        if len(named) != 1:
            raise Unproven("the JWT names no key that is known here (kid)")
        return named[0], algorithm

    def _claims(self, text: str, key: Key, algorithm: str) -> dict[str, Any]:
        settings = self._settings
        try:
            return jwt.decode(
                text,
                key.key,
                algorithms=[algorithm],
                audience=settings.jwt_audience,
                issuer=settings.jwt_issuer,
                leeway=settings.jwt_leeway,
                options={"require": ["exp", "sub"], "verify_sub": True},
            )
        except jwt.MissingRequiredClaimError as error:
            raise Unproven(f"the JWT has no claim {error.claim!r}, which is needed") from None
        except tuple(_SAID) as error:
            raise Unproven(next(said for kind, said in _SAID.items() if isinstance(error, kind))) from None
        except Exception:  # claims may have any value, such as an infinite `exp`
            raise Unproven("the JWT cannot be read") from None

    def _role(self, claims: dict[str, Any]) -> Role:
        """The claim is a role or a list, which may include roles of other services. The highest known role counts."""
        claim = claims.get(self._settings.jwt_role_claim)
        given = claim if isinstance(claim, list) else [claim]
        known = [Role(item) for item in given if isinstance(item, str) and item in list(Role)]
        if not known:
            raise Unproven(f"the JWT names no role known here (claim {self._settings.jwt_role_claim})")
        return max(known, key=lambda role: role.rank)


def _name(claims: dict[str, Any]) -> str:
    try:
        name = words("sub", claims["sub"], MOST_NAME)
    except InvalidValue:
        name = ""
    if not name.isprintable() or not name.strip():
        raise Unproven(f"the JWT's subject is no printable text of 1 to {MOST_NAME} characters (sub)")
    return name
