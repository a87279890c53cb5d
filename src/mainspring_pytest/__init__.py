"""The pytest plugin: the application under test as a fixture.

A package of its own, because pytest imports every plugin at start: nothing of Mainspring is imported until a test asks
for one of these fixtures.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mainspring import Mainspring
    from mainspring.testing import BlockingKit, FakeClock, Kit

MARKER = "mainspring(start=..., raise_errors=..., resources=..., patience=..., seed=...): options of mainspring_kit"
NO_APP = (
    "mainspring_app: there is no application to test. Name it in your pytest settings, such as "
    "mainspring_app = shop.jobs:app, or define a fixture mainspring_app in conftest.py that returns it"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("mainspring_app", "The application that mainspring_kit tests, as MODULE:APP.", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def mainspring_app(pytestconfig: pytest.Config) -> Mainspring:
    """The application under test: of the setting `mainspring_app`, unless you define this fixture yourself."""
    target = pytestconfig.getini("mainspring_app")
    if not target:
        pytest.fail(NO_APP, pytrace=False)
    from mainspring import MainspringError
    from mainspring.cli.load import load_app

    try:
        return load_app(target)
    except MainspringError as error:
        pytest.fail(f"mainspring_app: {error}", pytrace=False)


@pytest.fixture
def mainspring_clock(request: pytest.FixtureRequest) -> FakeClock:
    """The clock of the test; it begins at the `start` of the marker."""
    from mainspring.testing import FakeClock

    start = _options(request).get("start")
    return FakeClock() if start is None else FakeClock(start)


@pytest.fixture
def mainspring_kit(
    request: pytest.FixtureRequest, mainspring_app: Mainspring, mainspring_clock: FakeClock
) -> Iterator[Kit | BlockingKit]:
    """The application's jobs under the control of this test: a `Kit` in an async test, else a `BlockingKit`."""
    from mainspring.testing import harness

    options = {name: value for name, value in _options(request).items() if name != "start"}
    try:
        manager = harness(mainspring_app, clock=mainspring_clock, **options)
    except TypeError as error:
        pytest.fail(f"marker mainspring: {error}; it is {MARKER}", pytrace=False)
    if inspect.iscoroutinefunction(request.function):
        kit = manager.enter_async()
        yield kit
        manager.exit_async()
    else:
        with manager as blocking:
            yield blocking


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Of the nearest marker first: one on the test adds to one on its class or module."""
    merged: dict[str, Any] = {}
    for mark in request.node.iter_markers("mainspring"):
        merged = {**mark.kwargs, **merged}
    return merged
