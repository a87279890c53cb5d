"""The harness itself: what goes wrong on a page is noticed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Route

from tests.browser.axe import severe_findings
from tests.browser.chromium import Visitor

STRICT = "default-src 'none'; script-src 'self'"
GOOD = "<!doctype html><html lang=en><title>Jobs</title><main><h1>Jobs</h1></main></html>"
BAD = {
    "console": ("<script>console.error('broken')</script>", "broken"),
    "uncaught": ("<script>throw new Error('nobody caught me')</script>", "nobody caught me"),
    "not found": ("<script src=/missing.js></script>", "404"),
    "refused": ("<script src=/gone.js></script>", "request failed: GET"),
    "policy": ("<script>window.harmless = 1</script>", "content security policy: script-src"),
    "injected": ("<script>window.injected = 1</script>", "ran the text of a user"),
}


@pytest.mark.req("DSH-2")
@pytest.mark.parametrize("trouble", BAD)
def test_trouble_on_a_page_is_noticed(browser: Browser, trouble: str) -> None:
    script, expected = BAD[trouble]
    visitor = _visitor(browser, GOOD.replace("<main>", f"<main>{script}"), STRICT if trouble == "policy" else "")
    visitor.open("/")
    assert [each for each in visitor.close() if expected in each]


def test_a_good_page_passes_below_a_strict_policy(browser: Browser) -> None:
    visitor = _visitor(browser, GOOD, STRICT)
    visitor.open("/")
    visitor.check_page()
    assert visitor.close() == []


def test_what_somebody_cannot_read_is_noticed(browser: Browser) -> None:
    unreadable = "<p style='color: #bbb; background: #fff'>pale</p><img src=data:,><input>"
    visitor = _visitor(browser, GOOD.replace("</h1>", f"</h1>{unreadable}"))
    visitor.open("/")
    found = "\n".join(severe_findings(visitor.page))
    assert [rule for rule in ("color-contrast", "image-alt", "label") if rule not in found] == []
    visitor.close()


def test_a_page_wider_than_the_window_is_noticed(browser: Browser) -> None:
    wide = GOOD.replace("</h1>", "</h1><div style='width: 2000px'>wide</div>")
    visitor = _visitor(browser, wide, device="phone")
    visitor.open("/")
    assert [each for each in visitor.problems() if "wider than the window" in each]
    visitor.close()


def _visitor(browser: Browser, body: str, policy: str = "", **options: str) -> Visitor:
    def answer(route: Route) -> None:
        path = route.request.url.removeprefix("http://harness.invalid")
        if path == "/gone.js":
            route.abort("connectionrefused")
        elif path == "/":
            headers = {"content-security-policy": policy} if policy else {}
            route.fulfill(body=body, content_type="text/html", headers=headers)
        else:
            route.fulfill(status=404)

    visitor = Visitor(browser, "http://harness.invalid", **options)  # type: ignore[arg-type]
    visitor.context.route("**/*", answer)
    return visitor
