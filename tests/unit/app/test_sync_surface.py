"""The blocking facade and the async application have the same methods, parameters and docstrings."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring

SCRIPT = Path(__file__).parents[3] / "scripts" / "generate_sync.py"
NOT_BLOCKING = {"lifespan"}
"""For asynchronous frameworks only."""


def async_methods(target: object) -> dict[str, Any]:
    """The public methods that are coroutines or asynchronous context managers."""
    found = {name: getattr(type(target), name, None) for name in dir(target) if not name.startswith("_")}
    return {name: each for name, each in found.items() if is_async(each) and name not in NOT_BLOCKING}


def is_async(method: Any) -> bool:
    function = inspect.unwrap(method) if callable(method) else None
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def pairs() -> list[tuple[str, object, object]]:
    app = Mainspring("memory://")
    names = [name for name in vars(app) if type(vars(app)[name]).__name__.startswith("App")]
    assert len(names) >= 8
    return [("app", app, app.sync), *((name, getattr(app, name), getattr(app.sync, name)) for name in names)]


@pytest.mark.parametrize(("name", "target", "blocking"), pairs(), ids=[name for name, _, _ in pairs()])
def test_every_async_method_is_there_blocking_with_the_same_parameters(
    name: str, target: object, blocking: object
) -> None:
    methods = async_methods(target)
    assert methods
    public = {each for each in dir(blocking) if not each.startswith("_")} - set(vars(blocking))
    assert public == set(methods)
    for method, wanted in methods.items():
        found = getattr(type(blocking), method)
        assert not inspect.iscoroutinefunction(found)
        ours, theirs = inspect.signature(found), inspect.signature(wanted)
        assert list(ours.parameters.values()) == list(theirs.parameters.values()), method
        assert found.__doc__, method


def test_the_generated_file_is_current() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "sync_methods.py is current"), done.stderr


@pytest.mark.parametrize(("name", "target", "blocking"), pairs(), ids=[name for name, _, _ in pairs()])
def test_generated_methods_have_the_docstring_of_the_async_one(name: str, target: object, blocking: object) -> None:
    for method, wanted in async_methods(target).items():
        found = getattr(type(blocking), method)
        if found.__module__.endswith("sync_methods"):
            assert inspect.getdoc(found) == inspect.getdoc(wanted), method
