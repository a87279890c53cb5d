"""`Mainspring(jobs=[...])`: modules that hold declarations are imported; a failing one is named."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mainspring.core.declaring.registry import Registry
from mainspring.model.errors import ConfigurationError, InvalidValue


@pytest.mark.req("REG-12")
def test_modules_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_jobs_fine.py").write_text("loaded = True\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    Registry().import_modules(["shop_jobs_fine"])
    assert sys.modules["shop_jobs_fine"].loaded is True


@pytest.mark.req("REG-12")
@pytest.mark.parametrize("line", ["1 / 0", "import shop_nothing", "raise SystemExit(3)", "def"])
def test_a_failing_import_names_the_module_and_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    (tmp_path / "shop_jobs_broken.py").write_text(line + "\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=r"module 'shop_jobs_broken' could not be imported: [A-Z]") as raised:
        Registry().import_modules(["shop_jobs_broken"])
    assert raised.value.__cause__ is not None


@pytest.mark.req("REG-12")
def test_module_names_are_checked() -> None:
    with pytest.raises(InvalidValue, match=re.escape("Write jobs=['shop.jobs']")):
        Registry().import_modules("shop.jobs")
    with pytest.raises(InvalidValue, match="names of modules"):
        Registry().import_modules([5])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match=r"module 'shop_absent.jobs' could not be imported"):
        Registry().import_modules(["shop_absent.jobs"])
