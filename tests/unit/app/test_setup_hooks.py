"""Setup hooks make resources once in each process that runs handlers, and clean up at its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from mainspring import JobContext, Mainspring
from mainspring.app.setup_hooks import SetupHooks
from mainspring.model.errors import ConfigurationError, InvalidValue

pytestmark = pytest.mark.req("EXE-9")


async def test_hooks_of_every_kind_add_to_the_resources() -> None:
    order: list[str] = []
    app = Mainspring("memory://", resources={"mail": "given", "db": "replaced"})

    @app.setup
    def plain() -> dict[str, str]:
        order.append("plain")
        return {"plain": "p"}

    @app.setup
    async def coroutine() -> None:
        order.append("coroutine")

    @app.setup
    def generator() -> Iterator[dict[str, str]]:
        yield {"db": "made"}
        order.append("generator ends")

    @app.setup
    async def async_generator() -> AsyncIterator[dict[str, str]]:
        yield {"http": "h"}
        order.append("async generator ends")

    found: list[dict[str, Any]] = []

    @app.job("look")
    def look(ctx: JobContext) -> None:
        found.append(dict(ctx.resources))

    async with app:
        for _ in range(2):
            execution = await look.enqueue()
            assert execution is not None
            await app.wait(execution, 10)
        app.provide("late", "l")
        async with app.track("inline") as ctx:
            assert (ctx.resources.http, ctx.resources.late) == ("h", "l")
        assert order == ["plain", "coroutine"]
    assert found == [{"mail": "given", "db": "made", "plain": "p", "http": "h"}] * 2
    assert order == ["plain", "coroutine", "async generator ends", "generator ends"]
    assert app._runtime.resources["db"] == "replaced"


async def test_a_process_that_runs_no_handlers_calls_no_hook() -> None:
    app = Mainspring("memory://", roles=["scheduler"])
    app.job("work")(lambda: None)
    app.setup(lambda: pytest.fail("called"))
    async with app:
        await app.enqueue("work")


async def test_a_hook_that_fails_keeps_the_worker_from_starting() -> None:
    app = Mainspring("memory://")
    app.job("work")(lambda: None)
    closed: list[str] = []

    @app.setup
    def first() -> Iterator[None]:
        yield
        closed.append("first")

    @app.setup
    def broken() -> None:
        raise OSError("no route to host")

    with pytest.raises(ConfigurationError, match=r"setup: .*broken raised OSError: no route to host"):
        await app.start()
    assert (closed, await app.workers()) == (["first"], [])
    await app.close()


async def test_what_is_no_hook_is_refused() -> None:
    app = Mainspring("memory://")
    for wrong, words in (("connect", "a function without parameters"), (lambda db: {}, "Remove db")):
        with pytest.raises(InvalidValue, match=words):
            app.setup(wrong)  # type: ignore[type-var]
    hooks = SetupHooks()
    hooks.add(lambda: ["db"])
    with pytest.raises(InvalidValue, match="a mapping of names to resources, or None"):
        async with hooks.resources():
            pass


async def test_a_child_process_enters_the_same_resources() -> None:
    app = Mainspring("memory://", resources={"mail": "given"})
    app.setup(lambda: {"db": "made"})
    async with app._runtime.handler_resources() as resources:
        assert dict(resources) == {"mail": "given", "db": "made"}
