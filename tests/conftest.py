"""What every suite shares: coroutine tests, tools that may be missing, hypothesis settings."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import hypothesis
import pytest

pytest.register_assert_rewrite("mainspring.testing")  # the shipped conformance suite asserts like a test

IN_CI = os.environ.get("CI", "").lower() == "true"

hypothesis.settings.register_profile(
    "mainspring",
    deadline=None,  # two test processes on two cores: single examples are slow now and then
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    print_blob=True,
    derandomize=IN_CI,
    database=None,  # a found counterexample becomes an @example in the test, not a file on one machine
)
hypothesis.settings.load_profile("mainspring")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests, each on its own event loop; with @given, each example on its own."""
    test = pyfuncitem.obj
    given = getattr(test, "hypothesis", None)
    if given is not None and inspect.iscoroutinefunction(given.inner_test):
        given.inner_test = _blocking(given.inner_test)
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True


def pytest_runtest_logfinish() -> None:
    """When a test and its fixtures are over, another may have its databases."""
    if servers := sys.modules.get("tests.mongo_server"):
        servers.take_back()


def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = [name for mark in item.iter_markers("needs_tool") for name in mark.args]
    missing = [name for name in wanted if shutil.which(name) is None]
    if not missing:
        return
    reason = f"missing tool: {', '.join(missing)}"
    if IN_CI:
        pytest.fail(f"{reason} (CI=true: a missing tool is a failure)", pytrace=False)
    pytest.skip(reason)


def _blocking(coroutine_function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(coroutine_function)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(coroutine_function(*args, **kwargs))

    return run
