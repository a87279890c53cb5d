"""A client that believes nothing: every answer must have a status that the OpenAPI document declares for the operation,
and a body of the declared shape.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Match

from mainspring import Mainspring
from mainspring.server.responses import ErrorJson, answer_kind

LOCAL = ("127.0.0.1", 50_000)


class Client:
    def __init__(self, api: FastAPI, http: httpx.AsyncClient) -> None:
        self._api, self._http = api, http
        self._document = api.openapi()

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = await self._http.request(method, path, **options)
        self.check(method, answer)
        return answer

    async def get(self, path: str, **options: Any) -> Any:
        """The body of a good answer."""
        return await self._good("GET", path, **options)

    async def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return await self._good("POST", path, **({} if body is None else {"json": body}), **options)

    async def put(self, path: str, body: Any, **options: Any) -> Any:
        return await self._good("PUT", path, json=body, **options)

    async def refused(self, status: int, method: str, path: str, body: Any = None, **options: Any) -> dict[str, Any]:
        """The error of an answer with this status."""
        answer = await self.ask(method, path, **({} if body is None else {"json": body}), **options)
        assert answer.status_code == status, (answer.status_code, answer.text)
        error: dict[str, Any] = answer.json()["error"]
        return error

    async def _good(self, method: str, path: str, **options: Any) -> Any:
        answer = await self.ask(method, path, **options)
        assert answer.status_code < 300, (answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def check(self, method: str, answer: httpx.Response) -> None:
        assert answer.headers["x-request-id"]
        assert "Traceback" not in answer.text or answer.status_code < 300  # executions tell theirs
        if answer.status_code >= 400 and answer.url.path not in ("/readyz", "/healthz"):
            msgspec.json.decode(answer.content, type=ErrorJson)
        route = self._route(method, answer.url.path)
        if route is None:
            assert answer.status_code in (404, 405, 413, 415)
            return
        declared = self._document["paths"][route.path_format][method.lower()]["responses"]
        assert str(answer.status_code) in declared, f"{method} {route.path} does not declare {answer.status_code}"
        kind = answer_kind(route, answer.status_code)
        if kind is not None and answer.status_code < 300:
            msgspec.json.decode(answer.content, type=kind)

    def _route(self, method: str, path: str) -> APIRoute | None:
        scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
        routes = [route for route in self._api.routes if isinstance(route, APIRoute)]
        return next((route for route in routes if route.matches(scope)[0] is Match.FULL), None)


@asynccontextmanager
async def client_of(app: Mainspring, api: FastAPI | None = None) -> AsyncIterator[Client]:
    """Somebody on this machine, who needs no credentials."""
    served = app.asgi() if api is None else api
    transport = httpx.ASGITransport(served, client=LOCAL)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
        yield Client(served, http)
