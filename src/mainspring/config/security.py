"""The settings of the HTTP interface's security: who may use it, and how they prove who they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from ..model.errors import ConfigurationError, InvalidValue
from ..model.values.access import Secret
from .rules import (
    DAY,
    Setting,
    each,
    file,
    host_names,
    networks,
    number,
    one_of,
    proxies,
    retention,
    seconds,
    secret,
    some_text,
    switch,
)

HMAC = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Algorithms with a shared secret, and how many bytes it must have at least (RFC 7518, 3.2)."""

PUBLIC_KEY = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MAX_LEEWAY = 60.0


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use the HTTP interface. Tokens may be signed with `jwt_algorithms` only, whatever a token says."""

    sys_allow: Annotated[
        tuple[str, ...], Setting(networks, "networks that may use `/_sys/*`; by default, this machine only")
    ] = ()
    api_allow: Annotated[
        tuple[str, ...], Setting(networks, "networks that may use the HTTP interface at all; by default, every network")
    ] = ()
    hooks_allow: Annotated[
        tuple[str, ...], Setting(networks, "networks that may send to `/hooks/*`; by default, those in `api_allow`")
    ] = ()
    trusted_proxies: Annotated[
        tuple[str, ...],
        Setting(
            proxies, "networks of proxies whose forwarding headers are believed; `unix` for a proxy on a Unix socket"
        ),
    ] = ()
    proxy_header: Annotated[
        str,
        Setting(
            one_of("x-forwarded-for", "forwarded", case=str.lower),
            "the header that these proxies write: `x-forwarded-for` or `forwarded`",
        ),
    ] = "x-forwarded-for"
    api_hosts: Annotated[
        tuple[str, ...],
        Setting(host_names, "more names of this host that requests may use if there is no authentication"),
    ] = ()
    allow_loopback: Annotated[
        bool, Setting(switch, "true: requests from this machine need no credentials, even if others do")
    ] = False
    api_tokens: Annotated[
        bool, Setting(switch, "true: the HTTP interface accepts API tokens (`mainspring token create`)")
    ] = False
    jwt_algorithms: Annotated[
        tuple[str, ...],
        Setting(
            each(one_of(*HMAC, *PUBLIC_KEY)),
            "the algorithms with which JWTs may be signed, such as `RS256`; with `jwt_secret`, the default is `HS256`",
        ),
    ] = ()
    jwt_secret: Annotated[
        Secret | None, Setting(secret, "the shared secret of JWTs, at least 32 bytes; never shown", secret=True)
    ] = None
    jwt_key_file: Annotated[str | None, Setting(file, "a PEM file with the public key of JWTs")] = None
    jwt_jwks_file: Annotated[
        str | None, Setting(file, "a JWKS file with the public keys of JWTs; read again when it changes")
    ] = None
    jwt_audience: Annotated[str | None, Setting(some_text, "the audience that JWTs must name")] = None
    jwt_issuer: Annotated[str | None, Setting(some_text, "the issuer that JWTs must name")] = None
    jwt_leeway: Annotated[
        float, Setting(seconds(0, MAX_LEEWAY), "how far the clocks of issuer and server may differ; at most 60")
    ] = 10.0
    jwt_role_claim: Annotated[str, Setting(some_text, "the claim of a JWT that names the role")] = "role"
    failed_logins_per_minute: Annotated[
        int,
        Setting(number(1, 100_000), "how many wrong credentials an address may send in a minute before it is blocked"),
    ] = 10
    audit_retention: Annotated[
        float | None,
        Setting(retention, 'how long to keep audit records; text such as `"400d"`, or `"forever"`'),
    ] = 400 * DAY

    @property
    def takes_jwt(self) -> bool:
        return self.jwt_secret is not None or self.jwt_key_file is not None or self.jwt_jwks_file is not None

    @property
    def authenticates(self) -> bool:
        """Whether there is any way to log in; without one only this machine itself is served."""
        return self.takes_jwt or self.api_tokens


def check_security(settings: SecuritySettings, described: Callable[[str], str]) -> None:
    """The rules that concern several settings. `described` names a setting and its source."""
    keys = [name for name in ("jwt_secret", "jwt_key_file", "jwt_jwks_file") if getattr(settings, name) is not None]
    if len(keys) > 1:
        raise ConfigurationError(f"{' and '.join(described(name) for name in keys)}: only one can hold the key of JWTs")
    if not keys:
        _check_without_key(settings, described)
        return
    fitting = tuple(HMAC) if keys == ["jwt_secret"] else PUBLIC_KEY
    if not settings.jwt_algorithms and keys != ["jwt_secret"]:
        raise ConfigurationError(f"{described(keys[0])} needs jwt_algorithms, such as RS256, ES256 or EdDSA")
    for algorithm in settings.jwt_algorithms:
        if algorithm not in fitting:
            remedy = f"With {keys[0]} it is one of {', '.join(fitting)}"
            raise InvalidValue(described("jwt_algorithms"), algorithm, f"an algorithm for {keys[0]}", remedy)
    if settings.jwt_secret is not None:
        _check_secret(settings.jwt_secret, settings.jwt_algorithms or ("HS256",), described)


def _check_without_key(settings: SecuritySettings, described: Callable[[str], str]) -> None:
    """Refuse settings about JWTs without a key: a user who sets an audience expects that JWTs are checked."""
    for name in ("jwt_algorithms", "jwt_audience", "jwt_issuer"):
        if getattr(settings, name):
            raise ConfigurationError(f"{described(name)} needs a key: set jwt_secret, jwt_key_file or jwt_jwks_file")


def _check_secret(secret: Secret, algorithms: tuple[str, ...], described: Callable[[str], str]) -> None:
    least = max(HMAC[algorithm] for algorithm in algorithms)
    if len(secret.reveal().encode()) < least:
        remedy = "make one with: python -c 'import secrets; print(secrets.token_hex(64))'"
        raise ConfigurationError(f"{described('jwt_secret')} is too short for {algorithms[0]}: {least} bytes; {remedy}")
