"""A real Chromium, and pages in it that report everything that goes wrong on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from tests.browser.axe import RULES, severe_findings

PROGRAM = "/usr/bin/chromium"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
Theme: TypeAlias = Literal["light", "dark"]
Device: TypeAlias = Literal["desktop", "phone"]
SIZES: dict[Device, dict[str, Any]] = {
    "desktop": {"viewport": {"width": 1280, "height": 800}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}
PATIENCE = 20_000
"""Milliseconds until an expectation or an action gives up; what is expected takes a fraction of a second."""

_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", event =>
    reportViolation(`${event.violatedDirective} forbids ${event.blockedURI || event.sample}`));
"""
_TOO_WIDE = """() => {
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= room) return [];
    const sticksOut = each => each.getBoundingClientRect().right > room && !each.parentElement.closest(".scroll");
    const wide = [...document.body.querySelectorAll("*")].filter(sticksOut);
    const innermost = wide.filter(each => !wide.some(other => other !== each && each.contains(other)));
    return innermost.slice(0, 5).map(each => each.outerHTML.slice(0, 300));
}"""
"""The elements that make the page wider than the window."""
_DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Resolved when the page has been drawn, and its scripts have heard of its new size."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """While it runs, this thread counts as running an event loop: coroutines need another thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """Somebody with a browser window: cookies of their own, and a list of what went wrong on their pages."""

    def __init__(
        self, browser: Browser, address: str, theme: Theme = "light", device: Device = "desktop", **options: Any
    ) -> None:
        self.troubles: list[str] = []
        self._expected: list[str] = []
        self.address, self.device = address, device
        self.context: BrowserContext = browser.new_context(
            base_url=address, color_scheme=theme, timezone_id="Europe/Berlin", **{**SIZES[device], **options}
        )
        self.context.set_default_timeout(PATIENCE)
        self.context.expose_function("reportViolation", lambda text: self._note(f"content security policy: {text}"))
        self.context.add_init_script(_REPORT_VIOLATIONS)
        self.context.on("console", self._heard)
        self.context.on("weberror", lambda error: self._note(f"uncaught: {error.error}"))
        self.context.on("requestfailed", self._failed)
        self.page: Page = self.context.new_page()

    def open(self, path: str) -> Page:
        """Open a page of the site by its path below the prefix."""
        self.page.goto(f"{self.address}{path}")
        return self.page

    def expect_trouble(self, *parts: str) -> None:
        """Messages with one of these parts are expected from now on, such as `403` or `ERR_INTERNET_DISCONNECTED`."""
        self._expected += parts

    def check_page(self, rules: Sequence[str] = RULES) -> None:
        """Everybody can use the page as it is now, it is no wider than the window, and nothing has gone wrong on it."""
        problems = self.problems(rules)
        assert not problems, "\n".join([self.page.url, *problems])

    def problems(self, rules: Sequence[str] = RULES) -> list[str]:
        """What is wrong with the page as it is now, and what has gone wrong since the last time."""
        self.page.evaluate(_DRAWN)
        found = severe_findings(self.page, rules)
        found += [f"wider than the window: {element}" for element in self.page.evaluate(_TOO_WIDE)]
        found, self.troubles = [*found, *self.troubles], []
        return found

    def close(self) -> list[str]:
        """What has gone wrong on the pages that are open."""
        for page in self.context.pages:
            if page.evaluate("window.injected") is not None:  # which also waits for what the page has said until now
                self.troubles.append(f"{page.url} ran the text of a user as a script")
        self.context.close()
        return self.troubles

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._note(f"console: {message.text} ({message.location.get('url', '')})")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # what a page still loads or follows when it is left
            self._note(f"request failed: {request.method} {request.url}: {request.failure}")

    def _note(self, trouble: str) -> None:
        if not any(part in trouble for part in self._expected):
            self.troubles.append(trouble)
