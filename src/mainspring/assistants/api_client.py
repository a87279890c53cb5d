"""Calls the HTTP interface: of an application in this process, through no port at all, or of a server elsewhere.

Both are the same requests, judged by the same guard. An assistant without a token is a viewer wherever it asks: also
where this machine needs no login, and where the guard would otherwise refuse to answer without one.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from httpx2 import (
    ASGITransport,
    AsyncClient,
    NetworkError,
    RemoteProtocolError,
    Request,
    Response,
    Timeout,
    TransportError,
)

from ..app.mainspring import Mainspring
from ..model.errors import ConfigurationError
from ..model.values.access import Role, Secret
from ..server.access import Guard
from ..version import VERSION
from .operations import IDEMPOTENCY_KEY, Operation
from .tools import KEY

ORIGIN = "mcp-"
"""Request ids begin with this, and so audit records show which changes came from an assistant."""
WITHOUT_TOKEN = Role.VIEWER
TIMEOUT = Timeout(10.0, read=330.0)  # the interface waits up to five minutes for an execution


def headers_of(token: Secret | None) -> dict[str, str]:
    rights = {"X-Role-Limit": str(WITHOUT_TOKEN)} if token is None else {"Authorization": f"Bearer {token.reveal()}"}
    return {"User-Agent": f"mainspring-mcp/{VERSION}", "Accept": "application/json", **rights}


def client_of_application(app: Mainspring, token: Secret | None) -> AsyncClient:
    """Whoever runs this has the database in hand, so tokens are always taken, and addresses do not matter."""
    api = app.asgi()
    security = app.settings.security
    open_to_tokens = msgspec.structs.replace(
        security, api_tokens=True, allow_loopback=True, api_allow=(), sys_allow=(), trusted_proxies=()
    )
    api.state.guard = Guard(open_to_tokens, api.state.application)
    transport = ASGITransport(api, raise_app_exceptions=False)
    return AsyncClient(transport=transport, base_url="http://localhost", headers=headers_of(token), timeout=TIMEOUT)


def client_of_server(url: str, token: Secret | None) -> AsyncClient:
    return AsyncClient(base_url=url, headers=headers_of(token), timeout=TIMEOUT)


class ApiError(Exception):
    """The interface refused a request, or did not answer."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(error.get("message", ""))
        self.status, self.error = status, dict(error)


class Api:
    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def document(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._start("/openapi.json")
        return found

    async def role(self) -> Role:
        return Role((await self._start("/api/v1/me"))["role"])

    async def call(self, operation: Operation, arguments: Mapping[str, Any]) -> Any:
        """The answer's data. An answer that was lost on its way is asked for again, under the same key: nothing is done
        twice."""
        request, may_repeat = self._request(operation, arguments), operation.reads or operation.keyed
        try:
            return _data(await self._sent(request, may_repeat))
        except TransportError as error:
            message = f"the server did not answer: {_reason(error)}"
            raise ApiError(503, {"code": "unreachable", "message": message}) from None

    async def _sent(self, request: Request, may_repeat: bool) -> Response:
        try:
            return await self._http.send(request)
        except (NetworkError, RemoteProtocolError):
            if not may_repeat:
                raise
            return await self._http.send(request)

    def _request(self, operation: Operation, given: Mapping[str, Any]) -> Request:
        places: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": dict(operation.fixed)}
        listed = {argument.name: argument for argument in operation.arguments}
        for name, value in given.items():
            if name in listed:
                places[listed[name].place][listed[name].key] = value
            elif name != KEY:
                places["body"][name] = value
        path = operation.path.format_map({key: _segment(value) for key, value in places["path"].items()})
        query = {key: value for key, value in places["query"].items() if value is not None}
        body = places["body"] if places["body"] or operation.has_body else None
        headers = {"X-Request-Id": f"{ORIGIN}{uuid.uuid4().hex}"}
        if operation.keyed:
            headers[IDEMPOTENCY_KEY] = str(given.get(KEY) or f"{ORIGIN}{uuid.uuid4().hex}")
        return self._http.build_request(operation.method, path, params=query, json=body, headers=headers)

    async def _start(self, path: str) -> Any:
        """An answer without which there is nothing to serve."""
        try:
            return _data(await self._http.get(path))
        except TransportError as error:
            remedy = "start one with `mainspring run MODULE:APP --roles api`, or check the address"
            where = str(self._http.base_url).rstrip("/")
            raise ConfigurationError(f"no server answers at {where} ({_reason(error)}); {remedy}") from None
        except ApiError as error:
            remedy = "; give a token in MAINSPRING_API_TOKEN or with --token-file" if error.status == 401 else ""
            raise ConfigurationError(f"the HTTP interface refused the assistant: {error}{remedy}") from None


def _data(answer: Response) -> Any:
    """What the answer holds. One without a body says that the command was done."""
    try:
        data = answer.json() if answer.content else {"done": True}
    except ValueError:
        data = None
    if answer.is_success and data is not None:
        return data
    error = data.get("error") if isinstance(data, dict) else None
    unknown = {"code": "unexpected_answer", "message": f"HTTP {answer.status_code}, which is not from Mainspring"}
    raise ApiError(answer.status_code, error if isinstance(error, dict) else unknown)


def _reason(error: TransportError) -> str:
    return str(error) or type(error).__name__


def _segment(value: Any) -> str:
    """One part of a path. Clients take `.` and `..` out of paths, and would call another operation.

    >>> _segment("a/b"), _segment("..")
    ('a%2Fb', '%2E%2E')
    """
    text = str(value)
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")
