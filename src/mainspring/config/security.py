"""The settings of the HTTP interface's security, and their rules. `config.Settings` takes them in.

>>> RULES["jwt_algorithms"]("jwt_algorithms", "RS256, ES256")
('RS256', 'ES256')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..model.errors import ConfigurationError, InvalidValue
from ..model.values.networks import network
from ..model.values.reading import choice, duration, duration_text
from ..model.values.secret import Secret
from .values import number, switch

HMAC = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Algorithms with a shared secret, and how many bytes it must have at least (RFC 7518, 3.2)."""

PUBLIC_KEY = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
PROXY_HEADERS = ("x-forwarded-for", "forwarded")
MOST_LEEWAY = 60.0
DAY = 86_400.0

_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)


class SecuritySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use the HTTP interface. `jwt_algorithms` is what tokens may be signed with; a token has no say in it."""

    sys_allow: tuple[str, ...] = ()
    api_allow: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    proxy_header: str = "x-forwarded-for"
    api_hosts: tuple[str, ...] = ()
    allow_loopback: bool = False
    api_tokens: bool = False
    jwt_algorithms: tuple[str, ...] = ()
    jwt_secret: Secret | None = None
    jwt_key_file: str | None = None
    jwt_jwks_file: str | None = None
    jwt_audience: str | None = None
    jwt_issuer: str | None = None
    jwt_leeway: float = 10.0
    jwt_role_claim: str = "role"
    failed_logins_per_minute: int = 10
    audit_retention: float | None = 400 * DAY

    @property
    def takes_jwt(self) -> bool:
        return self.jwt_secret is not None or self.jwt_key_file is not None or self.jwt_jwks_file is not None

    @property
    def authenticates(self) -> bool:
        """Whether there is any way to log in; without one only this machine itself is served."""
        return self.takes_jwt or self.api_tokens


def check_security(settings: SecuritySettings, told: Callable[[str], str]) -> None:
    """What single rules cannot see. `told` names a setting and where it came from."""
    keys = [name for name in ("jwt_secret", "jwt_key_file", "jwt_jwks_file") if getattr(settings, name) is not None]
    if len(keys) > 1:
        raise ConfigurationError(f"{' and '.join(told(name) for name in keys)}: only one can hold the key of JWTs")
    if not keys:
        _check_without_key(settings, told)
        return
    fitting = tuple(HMAC) if keys == ["jwt_secret"] else PUBLIC_KEY
    if not settings.jwt_algorithms and keys != ["jwt_secret"]:
        raise ConfigurationError(f"{told(keys[0])} needs jwt_algorithms, such as RS256, ES256 or EdDSA")
    for algorithm in settings.jwt_algorithms:
        if algorithm not in fitting:
            remedy = f"With {keys[0]} it is one of {', '.join(fitting)}"
            raise InvalidValue(told("jwt_algorithms"), algorithm, f"an algorithm for {keys[0]}", remedy)
    if settings.jwt_secret is not None:
        _check_secret(settings.jwt_secret, settings.jwt_algorithms or ("HS256",), told)


def _check_without_key(settings: SecuritySettings, told: Callable[[str], str]) -> None:
    """Somebody who asks for an audience believes that JWTs are checked."""
    for name in ("jwt_algorithms", "jwt_audience", "jwt_issuer"):
        if getattr(settings, name):
            raise ConfigurationError(f"{told(name)} needs a key: set jwt_secret, jwt_key_file or jwt_jwks_file")


def _check_secret(secret: Secret, algorithms: tuple[str, ...], told: Callable[[str], str]) -> None:
    least = max(HMAC[algorithm] for algorithm in algorithms)
    if len(secret.reveal().encode()) < least:
        remedy = "make one with: python -c 'import secrets; print(secrets.token_hex(64))'"
        raise ConfigurationError(f"{told('jwt_secret')} is too short for {algorithms[0]}: {least} bytes; {remedy}")


# --- one rule per setting -------------------------------------------------------------------------------------


def _items(field: str, value: Any) -> list[Any]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise InvalidValue(field, value, "a list, or text with commas between its items")
    stripped = [item.strip() if isinstance(item, str) else item for item in items]
    return [item for item in stripped if item != ""]


def _networks(field: str, value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(network(field, item)) for item in _items(field, value)))


def _proxies(field: str, value: Any) -> tuple[str, ...]:
    items = _items(field, value)
    networks = _networks(field, [item for item in items if item != "unix"])
    return (*networks, "unix") if "unix" in items else networks


def _host_names(field: str, value: Any) -> tuple[str, ...]:
    for item in _items(field, value):
        if not isinstance(item, str) or _HOST_NAME.fullmatch(item) is None:
            raise InvalidValue(field, item, "host names without scheme and port, such as jobs.example.com")
    return tuple(dict.fromkeys(item.lower() for item in _items(field, value)))


def _algorithms(field: str, value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(choice(field, item, (*HMAC, *PUBLIC_KEY)) for item in _items(field, value)))


def _secret(field: str, value: Any) -> Secret:
    """What is wrong with a secret is said without it."""
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{field} is not valid; allowed: text")
    return Secret(value)


def _file(field: str, value: Any) -> str:
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, str) or not value or "\0" in value:
        raise InvalidValue(field, value, "the path of a file")
    return value


def _words(field: str, value: Any) -> str:
    if isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable():
        return value
    raise InvalidValue(field, value, "printable text of 1 to 200 characters")


def _leeway(field: str, value: Any) -> float:
    seconds = duration(field, value, allow_zero=True)
    if seconds > MOST_LEEWAY:
        raise InvalidValue(field, value, f"a duration from 0s to {duration_text(MOST_LEEWAY)}")
    return seconds


def _retention(field: str, value: Any) -> float | None:
    if isinstance(value, str) and value.strip().lower() == "forever":
        return None
    try:
        seconds = duration(field, value)
    except InvalidValue as error:
        raise InvalidValue(field, error.value, f'{error.allowed}, or "forever"', error.remedy) from None
    if seconds < DAY:
        raise InvalidValue(field, value, 'at least "1d", or "forever"')
    return seconds


RULES: Mapping[str, Callable[[str, Any], Any]] = {
    "sys_allow": _networks,
    "api_allow": _networks,
    "trusted_proxies": _proxies,
    "proxy_header": lambda field, value: choice(
        field, value.strip().lower() if isinstance(value, str) else value, PROXY_HEADERS
    ),
    "api_hosts": _host_names,
    "allow_loopback": switch,
    "api_tokens": switch,
    "jwt_algorithms": _algorithms,
    "jwt_secret": _secret,
    "jwt_key_file": _file,
    "jwt_jwks_file": _file,
    "jwt_audience": _words,
    "jwt_issuer": _words,
    "jwt_leeway": _leeway,
    "jwt_role_claim": _words,
    "failed_logins_per_minute": number(1, 100_000),
    "audit_retention": _retention,
}
