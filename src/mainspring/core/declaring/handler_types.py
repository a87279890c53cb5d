"""What can be a handler, for type checkers: functions, and objects or classes with `perform` or `execute`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Protocol, TypeAlias

from ...model.values.given import Several

if TYPE_CHECKING:
    from .context import JobContext
    from .handler import Handler


class Performs(Protocol):
    """An object with `perform(data)` or `perform(data, execution)`."""

    @property
    def perform(self) -> Callable[[Any], Any] | Callable[[Any, Any], Any]: ...


class Executes(Protocol):
    """An object with `execute(ctx)`, which may have parameters of the payload beside the context."""

    @property
    def execute(self) -> Callable[Concatenate[JobContext, ...], Any]: ...


class NamedPerforms(Performs, Protocol):
    """An object with `perform` that brings the name of its job."""

    @property
    def name(self) -> str: ...


class NamedExecutes(Executes, Protocol):
    """An object with `execute` that brings the name of its job."""

    @property
    def name(self) -> str: ...


class ClassNamedPerforms(Performs, Protocol):
    """The same with `name: ClassVar[str]`, which type checkers keep apart from an attribute of objects."""

    name: ClassVar[str]


class ClassNamedExecutes(Executes, Protocol):
    """The same with `name: ClassVar[str]`."""

    name: ClassVar[str]


HandlerObject: TypeAlias = Performs | Executes | type[Performs] | type[Executes]
NamedHandler: TypeAlias = (
    NamedPerforms
    | NamedExecutes
    | ClassNamedPerforms
    | ClassNamedExecutes
    | type[NamedPerforms]
    | type[NamedExecutes]
    | type[ClassNamedPerforms]
    | type[ClassNamedExecutes]
)
"""What `app.register` takes: an object, or a class that is constructed without arguments."""

HandlerCode: TypeAlias = Callable[..., Any] | HandlerObject
"""Whatever can be registered: a function, an object or a class."""

AnyHandler: TypeAlias = "str | HandlerCode | Handler"
"""A handler by its name, or by what was registered."""

TenantNames: TypeAlias = Iterable[str] | Awaitable[Iterable[str]] | AsyncIterator[str]
TenantProvider: TypeAlias = "Several[str] | Callable[[], TenantNames] | Callable[[JobContext], TenantNames]"
"""Names, or a plain or async function that returns or yields them and may take the context of the parent."""

TenantContext: TypeAlias = "Callable[[str], Any] | Callable[[JobContext], Any]"
"""Makes the context manager around the handler of a tenant, from the name of the tenant or from the context."""
