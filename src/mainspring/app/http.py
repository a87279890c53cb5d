"""The part of the application object that is about the HTTP interface, which needs `mainspring[server]`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..model.errors import ConfigurationError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..config.settings import Settings
    from .parts import Parts


class ServerMethods:
    settings: Settings

    if TYPE_CHECKING:

        async def __aenter__(self) -> Any: ...
        async def __aexit__(self, *error: Any) -> None: ...
        async def _ready(self) -> Parts: ...
        @property
        def _counts(self) -> Any: ...

    @asynccontextmanager
    async def lifespan(self, host: Any = None) -> AsyncIterator[None]:
        """For FastAPI and Starlette: `FastAPI(lifespan=app.lifespan)`."""
        async with self:
            yield

    def asgi(self) -> FastAPI:
        """The HTTP interface, to be mounted into an application of your own under any prefix:

        site = FastAPI(lifespan=app.lifespan)
        site.mount("/jobs-admin", app.asgi())
        """
        return self._api

    async def engine(self) -> Parts:
        """What the HTTP interface talks to, connected."""
        return await self._ready()

    @cached_property
    def _api(self) -> FastAPI:
        try:
            from ..server.api import create_api
        except ImportError as error:
            remedy = 'run: pip install "mainspring[server]"'
            raise ConfigurationError(f"the HTTP interface needs {error.name}; {remedy}") from error
        _ = self._counts  # what happens from now on is counted
        return create_api(self)  # type: ignore[arg-type]  # the whole application, of which this is a part

    def _take_port(self, parts: Parts) -> None:
        """If listening is a role of this process, before its other roles start: who cannot listen does nothing else
        either. What is imported and made for it, which takes a while, keeps no tick waiting then."""
        if "api" in self.settings.roles:
            api = self.asgi()
            from ..server.serving import HttpServer

            http = HttpServer(api, self.settings)
            http.bind()
            parts.http = http
