"""docs/api.md names every route of the interface, with the role that it really needs."""

from __future__ import annotations

import re

import pytest

from mainspring import Mainspring
from tests.docs.test_pages import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text()
ROW = re.compile(r"^\| ((?:GET|POST|PUT|DELETE)\b[^|]*)\|[^|]*\|([^|]*)\|$", re.MULTILINE)


def told() -> dict[tuple[str, str], set[str]]:
    """Routes and the roles beside them. `/pause`, `/resume` after a longer path stand for that path with other ends."""
    found: dict[tuple[str, str], set[str]] = {}
    for cell, roles in ROW.findall(PAGE):
        methods: list[str] = []
        first = ""
        for word in re.findall(r"GET|POST|PUT|DELETE|`[^`]+`", cell):
            if not word.startswith("`"):
                methods = [word] if first else [*methods, word]
                continue
            path = word.strip("`")
            if first and path.count("/") == 1 and first.count("/") > 2:
                path = first.rpartition("/")[0] + path
            first = first or path
            for method in methods:
                found.setdefault((method, path), set()).update(role.strip() for role in roles.split(","))
    return found


@pytest.mark.req("OPS-6")
def test_the_page_names_every_route_and_its_role() -> None:
    document = Mainspring("memory://").asgi().openapi()
    routes = {
        (method.upper(), path): operation["x-required-role"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    page = told()
    assert set(page) == set(routes)
    assert [route for route, role in routes.items() if role not in page[route]] == []
