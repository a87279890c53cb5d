"""Handlers: the code registered under a name, in the form in which the engine calls it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from ...model.errors import InvalidValue
from ...model.policies import Isolation
from ...model.values.payload import Verbatim, presentable
from ..rules.secret_params import hide
from .around import Around
from .context import JobContext, RunningExecution
from .options import inherited_options
from .parameters import is_async
from .signature import Signature, Style

_INHERITED = inherited_options(by="code")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Handler:
    """Code under a name: a function, or a method of one object that serves all executions."""

    name: str
    target: Callable[..., Any]
    signature: Signature
    where: str
    given: Any
    """The function, class or object that was registered."""
    instance: Any = None
    isolation: Literal["async", "thread", "process"] = "thread"
    """Where the executions of its own job run; "async": on the event loop."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """The options of its own declaration that its further jobs inherit."""
    around: Around = field(default_factory=Around)
    """What surrounds every handler of its application."""

    @property
    def is_async(self) -> bool:
        return self.signature.is_async

    @property
    def wants_context(self) -> bool:
        return self.signature.wants_context

    @property
    def cls(self) -> type | None:
        """The class of a handler that is an object."""
        return None if self.instance is None else type(self.instance)

    @property
    def place(self) -> str:
        """Where its code is: `module.function` or `module.Class`. The module of a script is named by its file."""
        code = self.target if self.cls is None else self.cls
        module, name = getattr(code, "__module__", None), getattr(code, "__qualname__", type(code).__qualname__)
        if module == "__main__":
            module = _stem(getattr(sys.modules["__main__"], "__file__", None) or module)
        return f"{module}.{name}"

    def call(self, context: JobContext, params: str) -> Callable[[], Any]:
        """The call with the stored payload as typed arguments. `PayloadMismatch` when it does not fit."""
        try:
            arguments = self.signature.bind(params)
        except InvalidValue as error:
            raise hide(error, self.signature.secret) from None
        parameters = self.signature.parameters
        if parameters.context is not None:
            arguments[parameters.context] = RunningExecution(context) if parameters.record else context
        return partial(self.target, **arguments)


@cache
def _stem(file: str) -> str:
    return Path(file).stem


def make_handler(
    name: str,
    given: Any,
    where: str,
    options: dict[str, Any] | None = None,
    default_isolation: Isolation = "thread",
    around: Around | None = None,
) -> Handler:
    """The handler for a function, an object with `perform` or `execute`, or a class of such objects."""
    found = method_of(given)
    instance = None
    if found is not None:
        instance = _constructed(given) if isinstance(given, type) else given
        target, style = getattr(instance, found), found
    elif callable(given) and not isinstance(given, type):
        target, style = given, "function"
        instance = None if _is_function(given) else given
    else:
        remedy = "A class needs a method perform(data, execution) or execute(ctx)" if isinstance(given, type) else ""
        raise InvalidValue(
            f"handler {name!r}", presentable(given), "a function, or an object with perform or execute", remedy
        )
    _refuse_unusable(name, target)
    signature, chosen = Signature(name, target, style), (options or {}).get("isolation")
    return Handler(
        name=name,
        target=target,
        signature=signature,
        isolation=chosen or ("async" if signature.is_async else default_isolation),
        where=where,
        given=given,
        instance=instance,
        defaults={key: value for key, value in (options or {}).items() if key in _INHERITED and value is not None},
        around=around or Around(),
    )


def documentation(handler: Handler) -> str:
    """The first line of the docstring of the function, or of the class or its method."""
    if handler.instance is None:
        function = handler.target.func if isinstance(handler.target, partial) else handler.target
        return first_line(function)
    cls = type(handler.instance)
    generated = f"{cls.__name__}("  # @dataclass writes it into a class without a docstring
    line = first_line(cls)
    return first_line(handler.target) if not line or line.startswith(generated) else line


def first_line(documented: Any) -> str:
    """The first line of its docstring; empty without one."""
    text = getattr(documented, "__doc__", None)
    return inspect.cleandoc(text).partition("\n")[0].strip() if isinstance(text, str) else ""


def method_of(given: Any) -> Style | None:
    styles: tuple[Style, ...] = ("perform", "execute")
    return next((style for style in styles if callable(getattr(given, style, None))), None)


def _constructed(cls: type) -> Any:
    """The object that serves a class which was registered without one."""
    try:
        needed = [item.name for item in inspect.signature(cls).parameters.values() if _must_be_given(item)]
    except (TypeError, ValueError):
        needed = []
    if needed:
        remedy = f"Register an object instead: {cls.__name__}({', '.join(f'{name}=...' for name in needed)})"
        raise InvalidValue(
            f"class {cls.__name__}", Verbatim(f"{cls.__name__}()"), "a constructor without arguments", remedy
        )
    return cls()


def _must_be_given(item: inspect.Parameter) -> bool:
    return item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)


def _refuse_unusable(name: str, target: Any) -> None:
    """Refuse what could only fail at run time: generators, and plain wrappers around coroutine functions."""
    function = target.func if isinstance(target, partial) else target
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidValue(f"handler {name!r}", presentable(target), "a function that returns", "Remove the yield")
    if inspect.iscoroutinefunction(inspect.unwrap(function)) and not is_async(target):
        remedy = "The decorator around it is a plain function: make its wrapper async def and await the call"
        raise InvalidValue(
            f"handler {name!r}",
            presentable(target),
            "a function that is async all the way through, or not at all",
            remedy,
        )


def _is_function(given: Any) -> bool:
    return inspect.isroutine(given) or isinstance(given, partial)
