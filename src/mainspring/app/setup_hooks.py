"""Setup hooks: functions that make resources in every process that runs handlers.

A connection cannot be handed from one process to another: each makes its own. The worker calls the hooks when it
starts, a child process before its first execution.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from ..model.errors import ConfigurationError, InvalidValue, MainspringError
from ..model.values.payload import presentable

F = TypeVar("F", bound=Callable[..., Any])


class SetupHooks:
    """The hooks of one application, in the order of their declaration."""

    def __init__(self) -> None:
        self._hooks: list[Callable[[], Any]] = []

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def add(self, hook: F) -> F:
        if not callable(hook) or isinstance(hook, type):
            raise InvalidValue("setup", presentable(hook), "a function without parameters", "Write @app.setup")
        if needed := [each.name for each in inspect.signature(hook).parameters.values() if each.default is each.empty]:
            remedy = f"Remove {', '.join(needed)}"
            raise InvalidValue("setup", presentable(hook), "a function without parameters", remedy)
        self._hooks.append(hook)
        return hook

    @asynccontextmanager
    async def resources(self) -> AsyncIterator[dict[str, Any]]:
        """Calls the hooks; those that yield clean up at the end, the last one first."""
        made: dict[str, Any] = {}
        cleanup = AsyncExitStack()
        try:
            for hook in self._hooks:
                try:
                    made |= _mapping(hook, await _entered(hook, cleanup))
                except MainspringError:
                    raise
                except Exception as error:
                    problem = f"{type(error).__name__}: {error}".removesuffix(": ")
                    raise ConfigurationError(f"setup: {_name(hook)} raised {problem}") from error
            yield made
        finally:
            await cleanup.aclose()  # without the error, if there is one: it is not the hook's


async def _entered(hook: Callable[[], Any], cleanup: AsyncExitStack) -> Any:
    if inspect.isasyncgenfunction(hook):
        return await cleanup.enter_async_context(asynccontextmanager(hook)())
    if inspect.isgeneratorfunction(hook):
        return cleanup.enter_context(contextmanager(hook)())
    made = hook()
    return await made if inspect.isawaitable(made) else made


def _mapping(hook: Callable[[], Any], made: Any) -> Mapping[str, Any]:
    if made is None:
        return {}
    if isinstance(made, Mapping) and all(isinstance(name, str) for name in made):
        return made
    allowed = "a mapping of names to resources, or None"
    raise InvalidValue("setup", presentable(made), allowed, f'Write return {{"db": ...}} in {_name(hook)}')


def _name(hook: Callable[[], Any]) -> str:
    return str(getattr(hook, "__qualname__", hook))
