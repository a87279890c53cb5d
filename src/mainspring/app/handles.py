"""What `@app.job` returns: the function, which can also be enqueued and triggered, with its parameters type-checked."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import WRAPPER_ASSIGNMENTS, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from ..core.declaring.context import JobContext
from ..core.declaring.handler import method_of
from ..core.declaring.handler_types import Executes, Performs
from ..core.declaring.registry import Registry
from ..core.views.execution import Execution
from ..model.errors import InvalidValue
from ..model.policies import Unique
from ..model.values.given import When
from ..model.values.payload import Verbatim

if TYPE_CHECKING:
    from .mainspring import Mainspring

P = ParamSpec("P")  # the parameters of an enqueue
Q = ParamSpec("Q")  # the parameters of the function itself: those of an enqueue, and the context
R = TypeVar("R")  # the result of the job
C = TypeVar("C")  # what calling the function returns: the result, or a coroutine
T = TypeVar("T")
H = TypeVar("H", bound=Performs | Executes)

FUNCTION_ATTRIBUTES = (*(set(WRAPPER_ASSIGNMENTS) - {"__annotations__"}), "__code__", "__defaults__", "__kwdefaults__")
"""With these, `inspect` sees the signature of the function, and whether it is a coroutine function."""


ELSEWHERE = {
    "delay": ".sync.enqueue(...), or await .enqueue(...) in async code",
    "apply_async": ".options(start_at=...).sync.enqueue(...), or await .options(...).enqueue(...) in async code",
}
"""What Celery's methods of a task are called here."""


class PlainOptions(TypedDict, total=False):
    """The options of an enqueue, except `unique`. All of them are optional."""

    start_at: When | None
    """When it is due: an instant, or a duration from now such as `"10m"`."""
    priority: int | None
    """Higher ones are claimed first."""
    queue: str | None
    """The queue that it waits in, instead of the job's."""
    by: str
    """Who enqueues it."""
    traceparent: str | None
    """The W3C trace context of the caller."""
    metadata: Mapping[str, Any] | None
    """Values that are stored with the execution."""
    tenant: str | None
    """The tenant that it runs for."""
    share: str | None
    """The name under which the execution takes turns in its queue, instead of the tenant."""


class EnqueueOptions(PlainOptions, total=False):
    """The options of an enqueue. All of them are optional."""

    unique: str | Unique | None
    """A key, or a `Unique`. While another execution holds the key, the enqueue returns None."""


class BoundCall(NamedTuple, Generic[R]):
    """One item for `app.enqueue_many`: a job with its parameters and options."""

    job: str
    """The name of the job."""
    params: Mapping[str, object]
    """The parameters of the execution."""
    options: Mapping[str, object]
    """The options of the enqueue."""


EnqueueItem: TypeAlias = tuple[Any, ...] | list[Any]
"""One item for `app.enqueue_many`: what `bind` returns, (handler, params), or (handler, params, options)."""


class Request(Generic[P, R, T]):
    """An enqueue with its options but without parameters: what `handle.options(...)` returns."""

    def __init__(
        self, app: Mainspring, name: str, parameters: tuple[str, ...], options: EnqueueOptions, connection: Any = None
    ) -> None:
        self.name = name
        """The name of the job."""
        self._app, self._parameters, self._options, self._connection = app, parameters, options, connection

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Enqueue one execution with these parameters; None if the unique key among the options is taken."""
        made = await self._app.enqueue(
            self.name, self._params(args, kwargs), connection=self._connection, **self._options
        )
        return cast(T, made)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> BoundCall[R]:
        """The same call, as an item for `app.enqueue_many`."""
        if self._connection is not None:
            remedy = "Write app.enqueue_many(items, connection=...)"
            raise InvalidValue("connection", type(self._connection).__name__, "nothing in a single item", remedy)
        return BoundCall(self.name, self._params(args, kwargs), {**self._options})

    @property
    def sync(self) -> SyncRequest[P, T]:
        """The same methods, blocking: `handle.options(unique="42").sync.enqueue(...)`."""
        return SyncRequest(self)

    def _params(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if not args:
            return kwargs
        if len(args) > len(self._parameters):
            taken = f"takes {len(self._parameters)} parameters but {len(args)} were given"
            raise TypeError(f"job {self.name!r} {taken}")
        params = dict(zip(self._parameters, args, strict=False))
        if twice := params.keys() & kwargs.keys():
            raise TypeError(f"job {self.name!r} got two values for parameter {min(twice)!r}")
        return params | kwargs


class SyncRequest(Generic[P, T]):
    """The blocking methods of a `Request`."""

    def __init__(self, request: Request[P, Any, T]) -> None:
        self._request = request

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Enqueue one execution with these parameters; None if the unique key among the options is taken."""
        request = self._request
        params = request._params(args, kwargs)
        made = request._app.sync.enqueue(request.name, params, connection=request._connection, **request._options)
        return cast(T, made)


class JobHandle(Request[P, R, Execution[R]], Generic[P, R, Q, C]):
    """The job of a function. You can still call it like the function, for example in a unit test.

    ```python
    execution = await send_reminder.enqueue(shift_id="42")
    execution = await send_reminder.options(start_at="10m", unique="reminder-42").enqueue(shift_id="42")
    await app.enqueue_many([send_reminder.bind(shift_id=str(n)) for n in range(1000)])
    ```
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[Q, C]

    def __init__(self, app: Mainspring, name: str, parameters: tuple[str, ...], function: Callable[Q, C]) -> None:
        update_wrapper(self, function, FUNCTION_ATTRIBUTES)
        with suppress(NameError):  # since Python 3.14 they are evaluated here, and may name what only type checkers see
            self.__annotations__ = getattr(function, "__annotations__", {})
        super().__init__(app, name, parameters, {})

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> C:
        return self.__wrapped__(*args, **kwargs)

    if not TYPE_CHECKING:  # a type checker reports these names by itself, unless the class has a `__getattr__`

        def __getattr__(self, attribute: str) -> Any:
            if attribute in ELSEWHERE:
                raise AttributeError(f"job {self.name!r} has no method {attribute!r}; use {ELSEWHERE[attribute]}")
            kind = type(self).__name__
            raise AttributeError(f"{kind!r} object has no attribute {attribute!r}", name=attribute, obj=self)

    def __repr__(self) -> str:
        return f"<job {self.name!r} of {self.__wrapped__!r}>"

    def __reduce__(self) -> str:
        """Pickled by name, as a function is."""
        return self.__qualname__

    @overload
    def options(
        self, *, unique: str | Unique, connection: Any = None, **options: Unpack[PlainOptions]
    ) -> Request[P, R, Execution[R] | None]: ...
    @overload
    def options(
        self, *, unique: None = None, connection: Any = None, **options: Unpack[PlainOptions]
    ) -> Request[P, R, Execution[R]]: ...
    def options(self, *, connection: Any = None, **options: Any) -> Request[P, R, Any]:
        """Options of an enqueue: `unique`, `start_at`, `queue`, `priority`, `tenant`, `connection` and more.

        With `connection`, Mainspring stores the execution in your own transaction, so it exists only if you commit.
        """
        return Request(self._app, self.name, self._parameters, cast(EnqueueOptions, options), connection)

    async def trigger(self, *args: P.args, **kwargs: P.kwargs) -> Execution[R]:
        """Run the job now with these parameters. Its next scheduled time does not change."""
        return await self._app.trigger(self.name, self._params(args, kwargs))

    @property
    def sync(self) -> SyncJobHandle[P, R]:
        """The same methods, blocking: `handle.sync.enqueue(...)`."""
        return SyncJobHandle(self)


class SyncJobHandle(SyncRequest[P, Execution[R]]):
    """The blocking methods of a `JobHandle`."""

    def trigger(self, *args: P.args, **kwargs: P.kwargs) -> Execution[R]:
        """Run the job now with these parameters. Its next scheduled time does not change."""
        request = self._request
        return request._app.sync.trigger(request.name, request._params(args, kwargs))


class JobDecorator:
    """Declares the job of a function: what `app.job(...)` returns."""

    def __init__(self, app: Mainspring, registry: Registry, name: str, options: Any) -> None:
        self._app, self._registry, self._name, self._options = app, registry, name, options

    @overload
    def __call__(self, function: type[H], /) -> type[H]: ...  # type: ignore[overload-overlap]  # a class is callable
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], Coroutine[Any, Any, R]], /
    ) -> JobHandle[P, R, Concatenate[JobContext, P], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> JobHandle[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], R], /
    ) -> JobHandle[P, R, Concatenate[JobContext, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobHandle[P, R, P, R]: ...
    @overload
    def __call__(self, function: H, /) -> H: ...
    def __call__(self, function: Any, /) -> Any:
        """The handle of a function; a class, or an object with `perform` or `execute`, as it is."""
        given = function.__wrapped__ if isinstance(function, JobHandle) else function
        handler = self._registry.declare(self._name, given, **self._options)
        if isinstance(given, type) or method_of(given) is not None:
            return given
        parameters = tuple(each.name for each in handler.signature.parameters.fields)
        handle: JobHandle[..., Any, ..., Any] = JobHandle(self._app, self._name, parameters, given)
        self._registry.add_reference(handle, handler)
        return handle


def refuse_bare(name: Any) -> None:
    """Refuse `@app.job` without parentheses, which gives the function in place of the name."""
    if callable(name):
        label = getattr(name, "__name__", type(name).__name__)
        remedy = f"Write @app.job({label!r}) above {'class' if isinstance(name, type) else 'def'} {label}"
        raise InvalidValue("name", Verbatim(label), "the name of the job as text", remedy)
