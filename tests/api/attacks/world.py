"""The application under attack: tokens for every role, things of every kind to aim at, and a look at what changed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
from fastapi import FastAPI

from mainspring import JobContext, Mainspring, Secret, every
from mainspring.server.access import Role
from tests.api.access_support import SECRET
from tests.api.attacks.attack import Attack, Reply
from tests.support import DEADLINE

PASSWORD = "hunter2-in-a-parameter"
HOOK_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
AUDIENCE, ISSUER = "mainspring", "https://login.example.com"
_OWN_PAGE = re.compile(r"/(?![/\\\\])[!-\[\]-~]*").fullmatch
LEAKS = ("Traceback (most recent", 'File "/', "site-packages", "sqlite3.", "msgspec.", "pydantic", PASSWORD, SECRET)
"""What no answer to a stranger, or to a viewer, contains."""


class World:
    def __init__(self, app: Mainspring, open_app: Mainspring, tokens: dict[str, str], admin_run: str) -> None:
        self.app, self.tokens, self.admin_run = app, tokens, admin_run
        self.doors: dict[str, FastAPI] = {"guarded": app.asgi(), "loopback": open_app.asgi()}

    async def send(self, attack: Attack) -> Reply:
        """The answer, as far as it has come when its head and first part are there: it may be an endless stream."""
        headers = list(attack.headers)
        if attack.host is not None:
            headers.insert(0, ("host", attack.host))
        if attack.who != "stranger":
            headers.append(("authorization", f"Bearer {self.tokens[attack.who]}"))
        if attack.body:
            headers.append(("content-length", str(len(attack.body))))
        aimed = msgspec.structs.replace(attack, path=attack.path.replace("ADMIN-RUN", self.admin_run))
        return await _send(self.doors[attack.door], aimed, headers)

    async def findings(self, attack: Attack) -> list[str]:
        """What was answered otherwise than expected."""
        reply = await self.send(attack)
        told = f"{reply.headers} {reply.text}"
        found = [f"answered {reply.status}, expected {attack.expected}: {reply.text[:200]}"]
        found = [] if reply.status in attack.expected else found
        kept = () if reply.status < 300 and "dashboard" in attack.path else LEAKS
        found += [f"the answer contains {text!r}" for text in (*kept, *attack.never) if text in told]
        found += _unprotected(reply)
        return [f"{attack}: {each}" for each in found]

    async def state(self) -> dict[str, Any]:
        """Everything that an attack could have changed."""
        app = self.app
        return {
            "jobs": {view.name: view.tag for view in await app.jobs()},
            "executions": {run.id: run.state for run in await app.executions(limit=200)},
            "tokens": [(token.name, token.role, token.id) for token in await app.tokens.all()],
            "hooks": [msgspec.to_builtins(hook) for hook in await app.hooks.all()],
            "audit": len(await app.audits(limit=200)),
        }


@asynccontextmanager
async def world(store: str = "memory://") -> AsyncIterator[World]:
    app = Mainspring(
        store,
        api_tokens=True,
        jwt_secret=SECRET,
        jwt_audience=AUDIENCE,
        jwt_issuer=ISSUER,
        failed_logins_per_minute=100_000,
        trusted_proxies="10.0.0.1",
    )
    _declare(app)
    without_login = Mainspring("memory://")
    _declare(without_login)
    try:
        await app.open()
        await without_login.open()
        tokens = {str(role): (await app.tokens.create(f"test-{role}", role)).text.reveal() for role in Role}
        yield World(app, without_login, tokens, await _seed(app))
    finally:
        await without_login.close()
        await app.close()


def _declare(app: Mainspring) -> None:
    @app.job("greet", trigger=every(hours=1))
    async def greet(ctx: JobContext, name: str = "you") -> None: ...

    @app.job("close-the-year", trigger=every(hours=24), trigger_role="admin", window="previous_day")
    async def close_the_year(ctx: JobContext, payload: Any = None) -> None: ...

    @app.job("pay")
    async def pay(api_key: Secret = Secret(PASSWORD)) -> None: ...  # noqa: B008 - a constant

    @app.job("receive")
    async def receive(payload: Any) -> None: ...


async def _seed(app: Mainspring) -> str:
    """The id of an execution that only admins may steer."""
    await app.trigger("greet")
    run = await app.trigger("close-the-year")
    await app.hooks.set("billing", "receive", secret=HOOK_SECRET, by="test")
    await app.hooks.set("other", "receive", by="test")
    return run.id


# --- ASGI ----------------------------------------------------------------------------------------------------------


async def _send(api: FastAPI, attack: Attack, headers: list[tuple[str, str]]) -> Reply:
    path, _, query = attack.path.partition("?")
    messages: list[Any] = []
    answered = asyncio.Event()
    parts = iter([{"type": "http.request", "body": attack.body, "more_body": False}])

    async def receive() -> Any:
        if (part := next(parts, None)) is not None:
            return part
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        messages.append(message)
        if message["type"] == "http.response.body":
            answered.set()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": attack.method,
        "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": (attack.peer, 50_000),
        "server": ("127.0.0.1", 8000),
    }
    task = asyncio.ensure_future(api(scope, receive, send))
    try:
        async with asyncio.timeout(DEADLINE):
            await asyncio.wait({task, asyncio.ensure_future(answered.wait())}, return_when=asyncio.FIRST_COMPLETED)
            if not _endless(messages):
                await task
    finally:
        answered.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return _reply(messages)


def _endless(messages: list[Any]) -> bool:
    return any(b"event-stream" in value for message in messages for _, value in message.get("headers", ()))


def _reply(messages: list[Any]) -> Reply:
    head = next(message for message in messages if message["type"] == "http.response.start")
    content = b"".join(message.get("body", b"") for message in messages if message["type"] == "http.response.body")
    headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in head["headers"])
    return Reply(head["status"], headers, content.decode("utf-8", "replace"))


def _unprotected(reply: Reply) -> list[str]:
    """What every answer needs, whatever was asked."""
    found = [f"no {name}" for name in ("x-request-id", "cache-control") if reply.get(name) is None]
    found += [] if reply.get("x-content-type-options") == "nosniff" else ["no nosniff"]
    found += [
        f"the header {name}" for name in ("server", "x-powered-by", "access-control-allow-origin") if reply.get(name)
    ]
    if (reply.get("content-type") or "").startswith("text/html"):
        policy = reply.get("content-security-policy") or ""
        found += [] if "frame-ancestors 'none'" in policy and "unsafe" not in policy else ["a page without a policy"]
    found += [f"leads to {place!r}" for place in reply.all("location") if not _OWN_PAGE(place)]
    if any("\r" in value or "\n" in value or "\0" in value for _, value in reply.headers):
        found.append("a header of more than one line")
    return found
