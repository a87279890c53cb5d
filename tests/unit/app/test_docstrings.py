"""The examples in docstrings do what they say, in every file that has some."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import mainspring

PACKAGE = Path(mainspring.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    outcome = doctest.testmod(import_module(name.removesuffix(".__init__")))
    assert (outcome.failed, outcome.attempted > 0) == (0, True)
