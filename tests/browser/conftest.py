"""A Chromium for each test process, a window of its own for each test, and the shop in three settings.

Everything that goes wrong on a page fails the test: messages on the console, errors of scripts, requests that fail, and
violations of the content security policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser import axe
from tests.browser.chromium import PATIENCE, Visitor, chromium
from tests.browser.site import Site, serving
from tests.conftest import IN_CI

NewVisitor = Callable[..., Visitor]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker(pytest.mark.needs_tool("chromium"))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Of the package: other suites run coroutines in this thread, which is impossible while Playwright uses it."""
    try:
        axe.source()
    except RuntimeError as error:
        if IN_CI:
            pytest.fail(f"{error} (CI=true: a missing tool is a failure)", pytrace=False)
        pytest.skip(str(error))
    expect.set_options(timeout=PATIENCE)
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The shop, without authentication. All tests of a process share it: each changes things of its own."""
    with serving(tmp_path_factory.mktemp("shop")) as site:
        yield site


@pytest.fixture(scope="package")
def guarded_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The shop, with a token for each role."""
    with serving(tmp_path_factory.mktemp("guarded-shop"), with_tokens=True) as site:
        yield site


@pytest.fixture(scope="package")
def mounted_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The shop, inside another site."""
    with serving(tmp_path_factory.mktemp("mounted-shop"), prefix="/jobs-admin") as site:
        yield site


@pytest.fixture
def new_visitor(browser: Browser) -> Iterator[NewVisitor]:
    """`new_visitor(site, theme="dark", device="phone")`. When the test ends, nothing may have gone wrong on a page."""
    visitors: list[Visitor] = []

    def visit(site: Site, **options: Any) -> Visitor:
        visitors.append(Visitor(browser, site.address, **options))
        return visitors[-1]

    yield visit
    troubles = [trouble for visitor in visitors for trouble in visitor.close()]
    assert troubles == []


@pytest.fixture
def visitor(new_visitor: NewVisitor, site: Site) -> Visitor:
    """Somebody who looks at the shop on a desktop, in the light theme."""
    return new_visitor(site)
