"""The examples of docs/testing.md are tests: they are run as tests, those with fixtures too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_pages import BLOCK, ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text()
RUNS_COROUTINES = """
import asyncio, inspect

def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True
"""


@pytest.mark.req("OPS-6")
def test_the_examples_of_the_page_pass(tmp_path: Path) -> None:
    examples = BLOCK.findall(PAGE)
    (tmp_path / "test_page.py").write_text("\n".join(examples))
    passed(tmp_path, count("\n".join(examples)))


@pytest.mark.req("OPS-6")
def test_the_examples_with_fixtures_pass(tmp_path: Path) -> None:
    (tests,) = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (settings,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text(BLOCK.findall(PAGE)[0])
    (tmp_path / "pyproject.toml").write_text(settings)
    (tmp_path / "test_shop.py").write_text(tests)
    passed(tmp_path, count(tests))


def count(tests: str) -> int:
    return len(re.findall(r"^(?:async )?def test_", tests, re.MULTILINE))


def passed(folder: Path, tests: int) -> None:
    (folder / "conftest.py").write_text(RUNS_COROUTINES)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "mainspring_pytest", "-p", "no:cacheprovider"],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert tests > 0
    assert f"{tests} passed" in ended.stdout, ended.stdout + ended.stderr
    assert ended.returncode == 0
    assert not (folder / "shop.db").exists()
