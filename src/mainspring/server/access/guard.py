"""The guard of one application: checks every request before its route, and returns its principal or refuses it.

In this order: the address, then the credentials, then the role. Without any authentication configured only requests
that come straight from this machine are served, as admin; with it, every client needs credentials.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.requests import HTTPConnection

from ...config.security import SecuritySettings
from ...core.access.addresses import Client, Headers, Networks, client_of, parse_address
from ...model.errors import ConfigurationError, MainspringError, WebhookError
from ...model.time.instants import Micros
from ...model.values.access import Role
from .browsers import session_of
from .failures import FailedLogins, FailureSource, KnownCredentials
from .jwt_verifier import JwtVerifier
from .loopback import check_browser
from .principals import (
    LOOPBACK,
    ROLE_LIMIT,
    Principal,
    Refused,
    Unproven,
    check_role,
    forbidden,
    limited,
    unauthenticated,
)
from .token_names import note_principal
from .tokens import HasTokenSource, TokenSource, TokenVerifier

T = TypeVar("T")

LOG = logging.getLogger("mainspring.access")

MOST_CHARACTERS = 16_384
"""The longest credential, in characters; longer ones are refused without being read."""


class Guard:
    """`tokens` is the application object, which knows the API tokens and the failed logins of all processes."""

    def __init__(
        self,
        settings: SecuritySettings,
        tokens: TokenSource | HasTokenSource | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], Micros] = lambda: time.time_ns() // 1000,
    ) -> None:
        if isinstance(tokens, HasTokenSource):
            tokens = tokens.token_source
        self._settings = settings
        self._proxies = Networks(settings.trusted_proxies)
        self._sys, self._all = Networks(settings.sys_allow), Networks(settings.api_allow)
        shared = tokens if isinstance(tokens, FailureSource) else None
        self._hooks = Networks(settings.hooks_allow or settings.api_allow)
        self._failures = FailedLogins(settings.failed_logins_per_minute, monotonic, shared)
        self._known = KnownCredentials(monotonic)
        self._jwt = JwtVerifier(settings, monotonic) if settings.takes_jwt else None
        if settings.api_tokens and tokens is None:
            raise ConfigurationError(
                "api_tokens needs the application that knows them: Guard(app.settings.security, app)"
            )
        self._tokens = TokenVerifier(tokens, monotonic, now) if tokens is not None and settings.api_tokens else None

    # --- addresses ----------------------------------------------------------------------------------------
    def client(self, connection: HTTPConnection) -> Client:
        """Where the request comes from."""
        peer = connection.client.host if connection.client is not None and connection.client.host else None
        return client_of(peer, connection.headers.items(), self._proxies, self._settings.proxy_header)

    def is_https(self, connection: HTTPConnection) -> bool:
        """Whether the browser came by https: to this process, or to a trusted proxy before it."""
        if connection.url.scheme == "https":
            return True
        peer = parse_address(connection.client.host) if connection.client is not None else None
        is_proxy = peer in self._proxies if connection.client is not None else self._proxies.unix
        said = connection.headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
        return said == "https" and is_proxy

    def check_sys_address(self, connection: HTTPConnection) -> None:
        """An empty list means: this machine only."""
        client = self.client(connection)
        if client.address in self._sys or (not self._sys and client.direct):
            return
        raise forbidden("address_not_allowed", "this address is not in sys_allow, the list of addresses allowed here")

    def check_hook_address(self, connection: HTTPConnection) -> None:
        if self._hooks and self.client(connection).address not in self._hooks:
            raise forbidden(
                "address_not_allowed", "this address is not in hooks_allow, the list of addresses allowed here"
            )

    def check_address(self, connection: HTTPConnection) -> None:
        """For routes that ask for no credentials: only the address counts."""
        self._check_address(self.client(connection))

    def _check_address(self, client: Client) -> None:
        if self._all and client.address not in self._all:
            raise forbidden(
                "address_not_allowed", "this address is not in api_allow, the list of addresses allowed here"
            )

    # --- credentials --------------------------------------------------------------------------------------
    @property
    def authenticates(self) -> bool:
        """Whether users log in with a credential."""
        return self._settings.authenticates

    async def log_in(self, connection: HTTPConnection, credential: str) -> Principal:
        """The principal of a credential that was typed into the login page. Failures count as failed logins."""
        client = self.client(connection)
        self._check_address(client)
        return await self._principal(connection, client, [f"Bearer {credential}"])

    async def admit(self, connection: HTTPConnection, needed: Role, *, cookies: bool = False) -> Principal:
        """The principal of this request, if it has the role. With `cookies`, the credential may be in the cookie that
        the login page set."""
        client = self.client(connection)
        self._check_address(client)
        principal = await self._principal(connection, client, self._given(connection, cookies))
        principal = limited(principal, connection.headers.get(ROLE_LIMIT))
        note_principal(connection.scope, principal)
        check_role(principal, needed)
        return principal

    async def refusal(self, peer: str | None, method: str, headers: Headers) -> Refused | None:
        """Why a request is refused that this process reads by other means than ASGI; None if a viewer may send it."""
        scope = {
            "type": "http",
            "method": method,
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
            "client": None if peer is None else (peer, 0),
        }
        try:
            await self.admit(HTTPConnection(scope), Role.VIEWER)
        except Refused as refused:
            return refused
        return None

    async def admit_delivery(self, connection: HTTPConnection, hook: str, verify: Callable[[], Awaitable[T]]) -> T:
        """What `verify` returns, if the signature is right. Wrong signatures count like failed logins, but for each
        hook alone: a sender with an old secret must not shut out others that share its address."""
        key = f"{self.client(connection).key} for hook {hook}"
        self._failures.check(key)
        try:
            delivery = await verify()
        except WebhookError as error:
            if error.reason == "body":
                raise Refused(400, "invalid_request", str(error)) from None
            if error.reason in ("signature", "time"):
                self._failures.add(key)
                LOG.warning("refused delivery from %s: %s", key, error)
                await self._failures.share(key)
            raise Refused(401, "invalid_signature", str(error), {"WWW-Authenticate": "Webhook-Signature"}) from None
        self._failures.check(key)
        return delivery

    async def still_admits(self, connection: HTTPConnection, needed: Role, *, cookies: bool = False) -> bool:
        """Whether the principal would still be admitted: a token may be revoked or expire during a long answer.

        It is no login, so nothing is counted. A store that does not answer leaves things as they are.
        """
        given = self._given(connection, cookies)
        if not given:
            return True
        try:
            return (await self._proven(given)).role.covers(needed)
        except Unproven:
            return False
        except (MainspringError, OSError):
            return True

    def _given(self, connection: HTTPConnection, cookies: bool) -> list[str]:
        """The values of the Authorization header, or the credential of the cookie in the same form. Browsers send
        cookies to all ports of a machine: where nobody logs in, the cookie is that of another application."""
        given = connection.headers.getlist("authorization")
        if given or not cookies or not self.authenticates:
            return given
        credential = session_of(connection)
        return [] if credential is None else [f"Bearer {credential}"]

    async def _principal(self, connection: HTTPConnection, client: Client, given: list[str]) -> Principal:
        if not given:
            return self._without_credentials(connection, client)
        known = (client.key, given[0]) in self._known
        if not known:
            self._failures.check(client.key)
        try:
            principal = await self._proven(given)
        except Unproven as error:
            self._known.discard(client.key, given[0])
            self._failures.add(client.key)
            LOG.warning("failed login from %s: %s", client.key, error)
            await self._failures.share(client.key)
            raise unauthenticated("invalid_credentials", str(error)) from None
        # Of guesses made at the same time all have passed the first check, so check again before admitting one.
        if not known:
            self._failures.check(client.key)
        self._known.add(client.key, given[0])
        return principal

    async def _proven(self, given: list[str]) -> Principal:
        scheme, _, text = given[0].strip().partition(" ")
        text = text.strip()
        if len(given) > 1 or scheme.lower() != "bearer" or not text or len(text) > MOST_CHARACTERS:
            raise Unproven("the header must be: Authorization: Bearer <JWT or API token>")
        if text.startswith("mainspring_"):
            if self._tokens is None:
                raise Unproven("API tokens are not accepted here (api_tokens)")
            return await self._tokens.verify(text)
        if self._jwt is None:
            raise Unproven("JWTs are not accepted here (no key for them is configured)")
        return self._jwt.verify(text)

    def _without_credentials(self, connection: HTTPConnection, client: Client) -> Principal:
        """The principal of a local client, if the settings admit those without credentials; otherwise an error."""
        if self._settings.authenticates and not (self._settings.allow_loopback and client.direct):
            raise unauthenticated("no_credentials", "credentials are needed: Authorization: Bearer ...")
        if not client.direct:
            remedy = "set api_tokens=true or a key for JWTs"
            raise forbidden(
                "loopback_only", f"without authentication, only requests from this machine are served; {remedy}"
            )
        check_browser(connection.scope.get("method", "GET"), connection.headers.items(), self._settings.api_hosts)
        return LOOPBACK
