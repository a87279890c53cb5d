"""What surrounds every handler of an application: functions that yield once, declared with `@app.around`.

A plain generator surrounds plain functions, in the thread or child process that runs them. An async generator surrounds
handlers that are `async def`, on their event loop. Code that serves both kinds is declared once for each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from ...model.errors import InvalidValue
from ...model.values.payload import presentable
from .context import JobContext

F = TypeVar("F", bound=Callable[..., Any])


class Around:
    """The surroundings of one application, in the order of their declaration: the first is the outermost."""

    def __init__(self) -> None:
        self._plain: list[Callable[..., Any]] = []
        self._async: list[Callable[..., Any]] = []

    def add(self, hook: F) -> F:
        if inspect.isgeneratorfunction(hook):
            self._plain.append(contextmanager(hook))
        elif inspect.isasyncgenfunction(hook):
            self._async.append(asynccontextmanager(hook))
        else:
            remedy = "Write @app.around above a function with one yield, where the handler runs"
            raise InvalidValue("around", presentable(hook), "a generator function, plain or async", remedy)
        _refuse_other_parameters(hook)
        return hook

    def surround(self, call: Callable[[], Any], context: JobContext, is_async: bool) -> Callable[[], Any]:
        """The call with everything around it that is meant for its kind."""
        if is_async:
            return self._surround_async(call, context) if self._async else call
        return self._surround_plain(call, context) if self._plain else call

    def _surround_plain(self, call: Callable[[], Any], context: JobContext) -> Callable[[], Any]:
        def surrounded() -> Any:
            __tracebackhide__ = True
            with ExitStack() as stack:
                for hook in self._plain:
                    stack.enter_context(hook(context))
                return call()

        return surrounded

    def _surround_async(self, call: Callable[[], Any], context: JobContext) -> Callable[[], Any]:
        async def surrounded() -> Any:
            __tracebackhide__ = True
            async with AsyncExitStack() as stack:
                for hook in self._async:
                    await stack.enter_async_context(hook(context))
                return await call()

        return surrounded


def _refuse_other_parameters(hook: Callable[..., Any]) -> None:
    try:
        inspect.signature(hook).bind(None)
    except TypeError:
        remedy = f"Write def {getattr(hook, '__name__', 'hook')}(ctx: JobContext)"
        raise InvalidValue("around", presentable(hook), "a function of one parameter, the context", remedy) from None
