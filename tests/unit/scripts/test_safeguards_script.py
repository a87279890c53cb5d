"""Every safeguard that `make safeguards` removes is still where the script looks for it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts import safeguards

ROOT = Path(__file__).resolve().parents[3]
CONFORMANCE = ROOT / "src/mainspring/testing/conformance"


@pytest.mark.parametrize("safeguard", safeguards.SAFEGUARDS, ids=lambda safeguard: safeguard.name)
def test_a_safeguard_stands_where_it_is_removed(safeguard: safeguards.Safeguard) -> None:
    """Each text is found exactly once, and what is left of the file without it is still Python."""
    for file, text in safeguard.texts(ROOT).items():
        assert text != file.read_text()
        if file.suffix == ".py":
            ast.parse(text)


def test_the_judges_exist_and_are_no_unit_tests() -> None:
    for safeguard in safeguards.SAFEGUARDS:
        assert safeguard.judges
        judges = {judge for each in safeguard.judges for judge in each.split()} - {safeguards.SIMULATION}
        for judge in judges:
            path, _, name = judge.partition("::")
            assert not path.startswith("tests/unit")
            suite = "tests/conformance" in path  # its tests are shipped with the package
            text = (
                "".join(file.read_text() for file in CONFORMANCE.rglob("*.py")) if suite else (ROOT / path).read_text()
            )
            assert name.rpartition("::")[2].partition("[")[0] in text


def test_a_text_that_moved_is_reported_with_its_place() -> None:
    edit = safeguards.Edit("core/engine/worker.py", "no such text", "")
    with pytest.raises(ValueError, match=r"core/engine/worker\.py contains 0 times, not once"):
        edit.applied_to("something else")
    with pytest.raises(ValueError, match="contains 2 times"):
        safeguards.Edit("core/engine/worker.py", "twice", "").applied_to("twice twice")
