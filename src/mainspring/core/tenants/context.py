"""Around the handler of a tenant's execution: who the tenant is, for code that is not given the context, and whatever
the application wants to enter and leave: a schema, a connection, a language.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ...model.errors import NonRetryable
from ..declaring.context import JobContext

current_tenant: ContextVar[str | None] = ContextVar("mainspring_tenant", default=None)
"""The tenant that the code here works for; None outside of a tenant's execution."""


def in_tenant(
    call: Callable[[], Any], context: JobContext, factory: Callable[..., Any] | None, is_async: bool
) -> Callable[[], Any]:
    """The call of a handler, made inside the context of its tenant. Task and thread have contexts of their own, so what
    is set there is seen by nobody else."""

    def plain() -> Any:
        current_tenant.set(context.tenant)
        if factory is None:
            return call()
        manager = _manager(factory, context)
        if not hasattr(manager, "__enter__"):
            raise NonRetryable(
                "an async tenant_context is for handlers that are async def: give a plain one for this job"
            )
        with manager:
            return call()

    async def waiting() -> Any:
        current_tenant.set(context.tenant)
        if factory is None:
            return await call()
        manager = _manager(factory, context)
        if hasattr(manager, "__aenter__"):
            async with manager:
                return await call()
        with manager:
            return await call()

    return waiting if is_async else plain


def _manager(factory: Callable[..., Any], context: JobContext) -> Any:
    manager = factory(context if takes_context(factory) else context.tenant)
    if hasattr(manager, "__enter__") or hasattr(manager, "__aenter__"):
        return manager
    if inspect.iscoroutine(manager):
        manager.close()
    raise NonRetryable(
        f"tenant_context gave {type(manager).__name__}, which is no context manager: "
        "decorate it with contextlib.contextmanager, or with asynccontextmanager"
    )


def takes_context(factory: Callable[..., Any]) -> bool:
    """It is called with the name of the tenant, unless its parameter is called ctx or context, or is a JobContext."""
    try:
        first = next(iter(inspect.signature(factory).parameters.values()), None)
    except (TypeError, ValueError):
        return False
    if first is None:
        return False
    return first.name in ("ctx", "context") or first.annotation in (JobContext, "JobContext")
