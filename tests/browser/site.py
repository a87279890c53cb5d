"""The shop, served on a free port of this machine: by its own process, or below a prefix of another site."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from fastapi import FastAPI

from mainspring import Mainspring
from mainspring.app.blocking import BackgroundLoop
from mainspring.model.values.access import Role
from mainspring.server.access import UVICORN_OPTIONS
from tests.api.access_support import SECRET
from tests.browser.application import Shop
from tests.receiver import receiving
from tests.support import until

T = TypeVar("T")


class Site:
    """A running shop. Its event loop has a thread of its own, since the thread of a test belongs to Playwright."""

    def __init__(self, shop: Shop, loop: BackgroundLoop) -> None:
        self.shop, self.app, self._loop = shop, shop.app, loop
        self.address = ""
        """Where the interface is, without a slash at the end."""
        self.tokens: dict[str, str] = {}
        """A token for each role, on a site that asks for one."""

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a method of the application to its end: `site.call(site.app.pause("report"))`."""
        return self._loop.call(coroutine)

    def step(self, times: int = 1) -> None:
        """Let `import-catalogue` read so many pages, or `ledger` so many days."""
        for _ in range(times):
            self._loop.loop.call_soon_threadsafe(self.shop.steps.release)


@contextmanager
def serving(folder: Path, *, prefix: str = "", with_tokens: bool = False) -> Iterator[Site]:
    """The shop with all its data. Visitors of a site `with_tokens` have to log in, with one of them or a JWT."""
    roles = "scheduler,worker" if prefix else "scheduler,worker,api"
    login = {"api_tokens": True, "jwt_secret": SECRET} if with_tokens else {}
    shop = Shop(folder, roles=roles, **login)
    loop = BackgroundLoop(shop.app._runtime)
    try:
        site, stack = Site(shop, loop), AsyncExitStack()
        try:
            loop.call(_start(site, stack, prefix))
            yield site
        finally:
            loop.call(stack.aclose())
    finally:
        loop.close()


async def _start(site: Site, stack: AsyncExitStack, prefix: str) -> None:
    receiver = await stack.enter_async_context(receiving())
    if prefix:
        site.address = await stack.enter_async_context(_mounted(site.app, prefix))
    else:
        await stack.enter_async_context(site.app)
        server = (await site.app._runtime.engine()).http
        assert server is not None
        site.address = f"http://127.0.0.1:{server.port}"
    if site.app.settings.security.api_tokens:
        for role in Role:
            site.tokens[role] = (await site.app.tokens.create(f"test-{role}", role)).text.reveal()
    await site.shop.seed(receiver)


@asynccontextmanager
async def _mounted(app: Mainspring, prefix: str) -> AsyncIterator[str]:
    """The address of the interface inside somebody's own site."""
    host = FastAPI(lifespan=app.lifespan)
    host.mount(prefix, app.asgi())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(host, log_config=None, timeout_graceful_shutdown=1, **UVICORN_OPTIONS)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listener]))
        await until(lambda: server.started or serving.done(), "the site is served")
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}{prefix}"
        finally:
            server.should_exit = True
            await serving
