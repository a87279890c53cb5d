"""Wraps every request: gives it an id, limits its body in size and time, and answers errors that nothing else caught.

Plain ASGI instead of Starlette's `BaseHTTPMiddleware`, which would buffer streams and hide a client's leaving.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core.auditing import REQUEST_ID, TRACE_CONTEXT
from ..model.values.trace_context import joined
from .access import is_admitted
from .access.token_names import hides_names, without_token_names
from .errors import http_problem, respond, unexpected
from .limits import Limits

MOST_BYTES = 1024 * 1024
SMALL_BYTES = 64 * 1024
MOST_HEADERS = 200
MOST_PARAMETERS = 500
"""In the query of a request. Frameworks take quadratic time to read them."""
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
DASHBOARD = "/dashboard/"
FORM_TYPE = "application/x-www-form-urlencoded"

_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_JSON = re.compile(r"application/([a-z0-9.-]+\+)?json", re.IGNORECASE)
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class Frame:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["headers"] = list(scope["headers"])  # a server may give any iterable
        headers = Headers(raw=scope["headers"][:MOST_HEADERS])
        request_id = request_id_of(headers.get("x-request-id"))
        token = REQUEST_ID.set(request_id)
        trace = TRACE_CONTEXT.set(joined(headers.get("traceparent"), headers.get("tracestate")))
        answer, body = _Answer(send, request_id, scope), _Body(scope, receive)
        try:
            _check(scope, headers)
            await self._app(scope, body.receive, answer)
        except HTTPException as error:
            await self._close(answer, scope, receive, respond(http_problem(error).answer))
        except Exception as error:
            await self._close(answer, scope, receive, respond(unexpected(error).answer))
        finally:
            body.release()
            TRACE_CONTEXT.reset(trace)
            REQUEST_ID.reset(token)

    async def _close(self, answer: _Answer, scope: Scope, receive: Receive, response: Any) -> None:
        """An answer that has already begun cannot be replaced: the connection is closed instead."""
        if not answer.begun:
            await response(scope, receive, answer)


def request_id_of(given: str | None) -> str:
    """The id that the caller gave, if it is safe to use in logs and records; otherwise a new one."""
    return given if given is not None and _SANE_ID.fullmatch(given) else uuid.uuid4().hex


def _check(scope: Scope, headers: Headers) -> None:
    """Check the headers of a body without reading it. Of two lengths a proxy may believe the other one, and what is a
    body for it would be the next request here: so nothing more is read from that connection."""
    if len(scope["headers"]) > MOST_HEADERS:  # each look for one of them would take long
        raise HTTPException(431)
    if "transfer-encoding" in headers and scope.get("http_version") == "1.0":  # where no proxy knows what it means
        raise HTTPException(400, "HTTP/1.0 has no Transfer-Encoding", {"Connection": "close"})
    if "content-length" in headers and "transfer-encoding" in headers:
        raise HTTPException(400, "give either Content-Length or Transfer-Encoding, not both", {"Connection": "close"})
    if scope.get("query_string", b"").count(b"&") >= MOST_PARAMETERS:
        raise HTTPException(400, f"the query has more than {MOST_PARAMETERS} parameters")
    length = headers.get("content-length", "0")
    size = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else MOST_BYTES + 1
    if size > MOST_BYTES:
        raise HTTPException(413)
    has_body = size > 0 or "transfer-encoding" in headers
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if scope["method"] in WITH_BODY and has_body and not _readable(scope, kind):
        raise HTTPException(415)


def _readable(scope: Scope, kind: str) -> bool:
    """Bodies are JSON; those of the dashboard are forms, which carry a token against other sites."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return kind.lower() == FORM_TYPE if path.startswith(DASHBOARD) else _JSON.fullmatch(kind) is not None


class StrangersBytes:
    """The memory that large bodies from clients without credentials take up in this process: the signature of a hook
    can only be verified once its body is there. Bodies of up to `SMALL_BYTES` do not count, so that there is always
    room for them."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0

    def take(self, size: int) -> None:
        if self.held + size > self.most:
            message = "too many large bodies without credentials arrive at once; try again later"
            raise HTTPException(503, message, {"Retry-After": "5"})
        self.held += size


class _Body:
    """Counts a body of unknown size while it arrives, and the seconds that are spent waiting for it."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope, self._receive = scope, receive
        limits: Limits = scope["app"].state.limits
        self._patience, self._complete = limits.body, False
        self._strangers: StrangersBytes = scope["app"].state.strangers_bytes
        self._size = self._taken = 0

    async def receive(self) -> Message:
        message = await (self._receive() if self._complete else self._part())
        if message["type"] == "http.request":
            self._count(len(message.get("body", b"")))
        return message

    def release(self) -> None:
        self._strangers.held -= self._taken

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > MOST_BYTES:
            raise HTTPException(413)
        if self._size > SMALL_BYTES and not is_admitted(self._scope):
            self._strangers.take(size)
            self._taken += size

    async def _part(self) -> Message:
        """The next part of the body. After the last one, a receiver waits for the end of the connection."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._patience):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408) from None
        self._patience -= time.monotonic() - began
        self._complete = not message.get("more_body", False)
        return message


class _Answer:
    """Adds headers to the answer, and hides names of tokens from viewers."""

    def __init__(self, send: Send, request_id: str, scope: Scope) -> None:
        self._send, self._request_id, self._scope, self.begun = send, request_id, scope, False
        self._start: Message | None = None  # held back until the body is known, whose length it gives

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._request_id
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if hides_names(self._scope) and "content-length" in headers:
                self._start = message
                return
        elif message["type"] == "http.response.body" and hides_names(self._scope):
            message = {**message, "body": without_token_names(self._scope, message.get("body", b""))}
            if self._start is not None:
                MutableHeaders(scope=self._start)["content-length"] = str(len(message["body"]))
                await self._send(self._start)
                self._start = None
        await self._send(message)
