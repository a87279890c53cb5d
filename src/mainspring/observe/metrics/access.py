"""Who may read `/metrics` on `metrics_port`: the rules of the HTTP interface, without importing it.

The address must be served (`sys_allow`, `api_allow`). Where authentication is set, credentials decide besides; without
it, neither a proxy that is not listed nor a web page in somebody's browser may read on another's behalf.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import msgspec

from ...config.security import SecuritySettings
from ...core.access.addresses import Networks, client_of, parse_address, passed_on
from ...core.access.local_requests import foreign_page

RequestHeaders: TypeAlias = Sequence[tuple[str, str]]


class Refusal(msgspec.Struct, frozen=True):
    status: int
    message: str
    headers: dict[str, str] = {}


LogIn: TypeAlias = Callable[[str | None, str, RequestHeaders], Awaitable[Refusal | None]]
"""Judges the credentials of a request, given by its peer, method and headers."""


class MetricsAccess:
    """`log_in` is needed where the settings demand authentication."""

    def __init__(self, settings: SecuritySettings, log_in: LogIn | None = None) -> None:
        assert log_in is not None or not settings.authenticates, "credentials must be checked"
        self._settings, self._log_in = settings, log_in
        self._proxies = Networks(settings.trusted_proxies)
        self._sys, self._all = Networks(settings.sys_allow), Networks(settings.api_allow)

    def knows(self, peer: str | None) -> bool:
        """Whether the address of the socket is one that is served, or that of a listed proxy."""
        address = parse_address(peer)
        local = not self._sys and address is not None and address.is_loopback
        return local or address in self._sys or address in self._proxies

    def health_refusal(self, peer: str | None, headers: RequestHeaders) -> Refusal | None:
        """Probes are served as on the HTTP interface: without credentials, at the addresses of `api_allow`."""
        client = client_of(peer, headers, self._proxies, self._settings.proxy_header)
        refused = self._all and client.address not in self._all
        return Refusal(403, "this address is not in api_allow") if refused else None

    async def refusal(self, peer: str | None, method: str, headers: RequestHeaders) -> Refusal | None:
        """Why the request is refused; None if it is served."""
        client = client_of(peer, headers, self._proxies, self._settings.proxy_header)
        if client.address not in self._sys and not (not self._sys and client.direct):
            return Refusal(403, "this address is not in sys_allow")
        if self._all and client.address not in self._all:
            return Refusal(403, "this address is not in api_allow")
        if self._log_in is not None:
            return await self._log_in(peer, method, headers)
        if passed_on(headers) and parse_address(peer) not in self._proxies:
            return Refusal(403, "without authentication, requests through a proxy that is not listed are refused")
        foreign = foreign_page(method, headers, self._settings.api_hosts, addresses=not client.direct)
        return None if foreign is None else Refusal(403, foreign[1])
