"""What users hold shows no internals in completion, and every member has a docstring."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest

import mainspring
from mainspring import Attempt, Execution, JobContext, Mainspring
from mainspring.app.mainspring import Mainspring as Implementation

app = Mainspring("memory://")


@app.job("work")
def work(ctx: JobContext, url: str = "") -> str:
    return url


NAMESPACES = [name for name, value in vars(app).items() if type(value).__name__.startswith("App")]
HELD: dict[str, Any] = {
    "app": app,
    **{f"app.{name}": getattr(app, name) for name in NAMESPACES},
    "app.sync": app.sync,
    **{f"app.sync.{name}": getattr(app.sync, name) for name in NAMESPACES},
    "app.registrar": app.registrar,
    "handle": work,
    "handle.options()": work.options(),
    "handle.sync": work.sync,
    "ctx": JobContext,
    "ctx.execution": Execution,
    "attempt": Attempt,
}


def documented_attributes(cls: type) -> set[str]:
    """Attributes set in `__init__` with a string below them, which completion shows."""
    found: set[str] = set()
    for each in cls.__mro__[:-1]:
        if "__init__" not in vars(each) or "mainspring" not in each.__module__:
            continue
        (function,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(each.__init__))).body
        assert isinstance(function, ast.FunctionDef)
        for statement, below in zip(function.body, function.body[1:], strict=False):
            if isinstance(statement, ast.Assign) and isinstance(below, ast.Expr):
                found |= {each.attr for each in statement.targets if isinstance(each, ast.Attribute)}
    return found


@pytest.mark.parametrize("name", HELD)
def test_every_member_that_completion_shows_has_a_docstring(name: str) -> None:
    held = HELD[name]
    cls = held if isinstance(held, type) else type(held)
    attributes = documented_attributes(cls)
    shown = [each for each in dir(held) if not each.startswith("_")]
    assert shown
    plain = {
        each
        for each in shown
        if each not in attributes
        and not inspect.getdoc(getattr(cls, each, None))
        and not _is_blocking_namespace(held, each)
    }
    assert plain == set()
    assert inspect.getdoc(cls)


def _is_blocking_namespace(held: Any, name: str) -> bool:
    """Documented where the application has it."""
    return held is app.sync and name in NAMESPACES


def test_no_member_is_a_store_a_registry_or_another_internal() -> None:
    assert Mainspring is Implementation
    internals = {"registry", "emit", "clock", "resources", "logger", "engine", "parts", "store", "tracer_provider"}
    assert internals & set(dir(app)) == set()
    own = {"drain", "undrain", "kept", "cancel", "trace", "began", "here", "keep_line"}
    assert own & {name for name in dir(JobContext) if not name.startswith("_")} == set()
    rows = {"token", "rules", "params_json", "policy", "lease", "fence"}
    assert rows & {name for name in dir(Execution) if not name.startswith("_")} == set()
    assert [name for name in mainspring.__all__ if name.endswith("Row")] == []
