"""Every safeguard that `make safeguards` removes is still where the script looks for it."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("safeguards", ROOT / "scripts" / "safeguards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


safeguards = _script()


@pytest.mark.parametrize("safeguard", safeguards.SAFEGUARDS, ids=lambda safeguard: safeguard.name)
def test_a_safeguard_stands_where_it_is_removed(safeguard: object) -> None:
    """Each text is found exactly once, and what is left of the file without it is still Python."""
    for file, text in safeguard.texts(ROOT).items():  # type: ignore[attr-defined]
        assert text != file.read_text()
        if file.suffix == ".py":
            ast.parse(text)


def test_the_judges_exist_and_are_no_unit_tests() -> None:
    for safeguard in safeguards.SAFEGUARDS:
        assert safeguard.judges
        for judge in set(safeguard.judges) - {safeguards.SIMULATION}:
            path, _, name = judge.partition("::")
            assert not path.startswith("tests/unit")
            assert name.partition("[")[0] in (ROOT / path).read_text() if name else (ROOT / path).exists()


def test_a_text_that_moved_is_reported_with_its_place() -> None:
    edit = safeguards.Edit("core/worker.py", "no such text", "")
    with pytest.raises(ValueError, match=r"core/worker\.py contains 0 times, not once"):
        edit.applied_to("something else")
    with pytest.raises(ValueError, match="contains 2 times"):
        safeguards.Edit("core/worker.py", "twice", "").applied_to("twice twice")
