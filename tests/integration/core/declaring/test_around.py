"""`@app.around`: code before and after every handler, whatever its kind."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from mainspring import InvalidValue, JobContext, Mainspring
from mainspring.testing import harness


def test_every_kind_of_handler_is_surrounded_where_it_runs() -> None:
    app, seen = Mainspring("memory://"), list[object]()

    @contextmanager
    def tenant_context(tenant: str) -> Iterator[None]:
        seen.append(f"tenant {tenant}")
        yield

    @app.around
    def outer(ctx: JobContext) -> Iterator[None]:
        seen.append(f"outer {ctx.job} {threading.get_ident()}")
        try:
            yield
        except ValueError as error:
            seen.append(f"error {error}")
            raise

    @app.around
    def inner(ctx: JobContext) -> Iterator[None]:
        seen.append("inner")
        yield
        seen.append("inner left")

    @app.around
    async def awaited(ctx: JobContext) -> AsyncIterator[None]:
        seen.append("awaited")
        yield
        seen.append("awaited left")

    def tenants() -> list[str]:
        seen.append("listed")
        return ["acme"]

    @app.job("plain", tenants=tenants, tenant_context=tenant_context)
    def plain() -> None:
        seen.append(f"handler {threading.get_ident()}")

    @app.job("failing", max_attempts=1)
    def failing() -> None:
        raise ValueError("no")

    @app.job("coroutine")
    async def coroutine() -> None:
        seen.append("coroutine")

    with harness(app, raise_errors=False) as kit:
        app.sync.trigger("plain")
        kit.run_until_idle()
        listing, *rest = [seen[:4], *seen[4:]]
        assert [str(each).partition(" plain")[0] for each in listing] == ["outer", "inner", "listed", "inner left"]
        thread = str(rest[0]).rpartition(" ")[2]
        assert rest == [f"outer plain {thread}", "inner", "tenant acme", f"handler {thread}", "inner left"]
        seen.clear()
        failing.sync.enqueue()
        coroutine.sync.enqueue()
        kit.run_until_idle()
        assert seen[1:] == ["inner", "error no", "awaited", "coroutine", "awaited left"]


def test_what_cannot_surround_a_handler_is_refused() -> None:
    app = Mainspring("memory://")
    with pytest.raises(InvalidValue, match=r"around: .* Write @app.around above a function with one yield"):
        app.around(lambda ctx: None)

    def without_context() -> Iterator[None]:
        yield

    with pytest.raises(InvalidValue, match=r"Write def without_context\(ctx: JobContext\)"):
        app.around(without_context)
