"""What surrounds the handler of a tenant's execution: the name of the tenant, for code without access to the
`JobContext`, and the application's own context manager, which may set a schema, a connection or a language.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ...model.errors import InvalidValue, NonRetryable
from ...model.execution import ExecutionRow
from ..declaring.context import JobContext
from ..declaring.handler import Handler
from ..rules.secret_params import hide

current_tenant: ContextVar[str | None] = ContextVar("mainspring_tenant", default=None)
"""The tenant that the running code works for; None outside of a tenant's execution."""


def handler_call(
    handler: Handler,
    context: JobContext,
    execution: ExecutionRow,
    tenant_context: Callable[[ExecutionRow], Callable[..., Any] | None],
) -> Callable[[], Any]:
    """The call of a handler with the stored parameters, inside what surrounds every handler of the application, and
    inside the context of its tenant if it has one. `PayloadMismatch` when the parameters do not fit the handler."""
    try:
        call = handler.call(context, execution.params)
    except InvalidValue as error:
        raise hide(error, execution.rules.secret) from None
    if execution.tenant is not None:
        call = in_tenant(call, context, tenant_context(execution), handler.is_async)
    return handler.around.surround(call, context, handler.is_async)


def in_tenant(
    call: Callable[[], Any], context: JobContext, factory: Callable[..., Any] | None, is_async: bool
) -> Callable[[], Any]:
    """The call of a handler inside the context of its tenant. It runs in a task or thread with a context of its own, so
    no other code sees the variable."""

    def blocking() -> Any:
        current_tenant.set(context.tenant)
        if factory is None:
            return call()
        manager = _manager(factory, context)
        if not hasattr(manager, "__enter__"):
            raise NonRetryable(
                "an async tenant_context needs a handler that is async def: give this job a plain context manager"
            )
        with manager:
            return call()

    async def awaited() -> Any:
        current_tenant.set(context.tenant)
        if factory is None:
            return await call()
        manager = _manager(factory, context)
        if hasattr(manager, "__aenter__"):
            async with manager:
                return await call()
        with manager:
            return await call()

    return awaited if is_async else blocking


def _manager(factory: Callable[..., Any], context: JobContext) -> Any:
    manager = factory(context if takes_context(factory) else context.tenant)
    if hasattr(manager, "__enter__") or hasattr(manager, "__aenter__"):
        return manager
    if inspect.iscoroutine(manager):
        manager.close()
    raise NonRetryable(
        f"tenant_context returned {type(manager).__name__}, which is not a context manager: "
        "decorate it with contextlib.contextmanager, or with asynccontextmanager"
    )


def takes_context(factory: Callable[..., Any]) -> bool:
    """Whether it takes the JobContext (a parameter named ctx or context, or of that type) instead of the tenant."""
    try:
        first = next(iter(inspect.signature(factory).parameters.values()), None)
    except (TypeError, ValueError):
        return False
    if first is None:
        return False
    return first.name in ("ctx", "context") or first.annotation in (JobContext, "JobContext")
