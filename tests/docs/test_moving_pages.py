"""The guides for those who come from other schedulers have the same parts, and name every import."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainspring.cli.commands.imports import import_
from tests.docs.test_pages import ROOT

INDEX = (ROOT / "docs" / "migration.md").read_text()
GUIDES = sorted((ROOT / "docs" / "moving").glob("*.md"))


@pytest.mark.req("MIG-2")
@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_has_concepts_code_differences_and_the_switch(guide: Path) -> None:
    text = guide.read_text()
    parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert parts[:3] == ["Before and after", "What behaves differently", "Switching over"]
    concepts = text[: text.index("\n## ")]
    assert "| Mainspring |" in concepts
    assert concepts.count("\n| ") >= 10
    assert "mainspring.testing import harness" in text, "the code after is tested, too"
    assert f"moving/{guide.name}" in INDEX


@pytest.mark.req("MIG-2")
def test_every_import_has_its_guide() -> None:
    guides = "".join(guide.read_text() for guide in GUIDES)
    for name in import_.commands:
        assert f"mainspring import {name}" in guides
        assert f"mainspring import {name}" in INDEX
