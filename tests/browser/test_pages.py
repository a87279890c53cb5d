"""Every page, light on a desktop and dark on a phone: everybody can use it, and nothing goes wrong on it."""

from __future__ import annotations

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Match

from tests.browser.axe import RULES_OF_LOOKS
from tests.browser.chromium import SIZES, Visitor
from tests.browser.conftest import NewVisitor
from tests.browser.pages import NAMES, pages_of
from tests.browser.site import Site

NOT_PAGES = ("/dashboard/static/", "/dashboard/live", "/dashboard/search", "/dashboard/login", "/dashboard/{rest:path}")
PARTS = ("/preview", "/log", "/raw", "/stream")
"""What scripts ask for, and what is no HTML."""


@pytest.fixture(scope="package")
def pages(site: Site) -> dict[str, str]:
    return pages_of(site.address, "daily-report", "reindex-search")


@pytest.mark.req("DSH-1", "DSH-2")
@pytest.mark.parametrize("name", NAMES)
def test_everybody_can_use_the_page(visitor: Visitor, pages: dict[str, str], name: str) -> None:
    page = visitor.open(pages[name])
    visitor.check_page()
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(SIZES["phone"]["viewport"])
    visitor.check_page(RULES_OF_LOOKS)


@pytest.mark.req("DSH-1")
def test_a_phone_shows_a_page_as_wide_as_itself(new_visitor: NewVisitor, site: Site, pages: dict[str, str]) -> None:
    """Phones pretend to be wider for pages that do not say that they fit."""
    visitor = new_visitor(site, device="phone", theme="dark")
    page = visitor.open(pages["job"])
    assert page.evaluate("window.innerWidth") == SIZES["phone"]["viewport"]["width"]
    visitor.check_page()


@pytest.mark.req("DSH-1")
def test_every_page_is_looked_at(site: Site, pages: dict[str, str]) -> None:
    """A page that is added to the dashboard has to be added to pages.py."""
    routes = [route for route in site.app.asgi().routes if isinstance(route, APIRoute)]
    own = [route for route in routes if route.path.startswith("/dashboard") and "GET" in (route.methods or ())]
    unseen = [route.path for route in own if not any(_leads_to(path, route) for path in pages.values())]
    assert [path for path in unseen if not path.startswith(NOT_PAGES) and not path.endswith(PARTS)] == []


def _leads_to(path: str, route: APIRoute) -> bool:
    scope = {"type": "http", "method": "GET", "path": path.partition("?")[0], "root_path": "", "headers": []}
    return route.matches(scope)[0] is Match.FULL
