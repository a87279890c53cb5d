"""The test run's own bookkeeping: nothing that did not run may look like success."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts import check

REPORT = """
<testsuites><testsuite>
  <testcase classname="tests.unit.test_a" name="test_good"/>
  <testcase classname="tests.unit.test_a.TestB" name="test_bad"><failure/></testcase>
  <testcase classname="" name="tests.unit.test_c"><error/></testcase>
  <testcase classname="tests.unit.test_a" name="test_tool"><skipped message="missing tool: x"/></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.xml"
    path.write_text(REPORT)
    return path


def test_a_report_is_counted(report: Path) -> None:
    outcome = check.read_report(report, ["unit"])
    assert outcome.passed == 1
    assert outcome.failures == ["tests.unit.test_a.TestB.test_bad", "tests.unit.test_c"]
    assert outcome.skips == {"missing tool: x": 1}


def test_a_suite_that_collected_nothing_is_a_failure(report: Path) -> None:
    assert "tests/crash collected no tests" in check.read_report(report, ["unit", "crash"]).failures


def test_a_suite_that_does_not_exist_is_a_failure() -> None:
    assert check.run_suites(["nowhere"]).failures == ["tests/nowhere does not exist"]


async def _nothing() -> None: ...


async def test_coroutine_tests_really_run(request: pytest.FixtureRequest) -> None:
    await _nothing()
    request.node.user_properties.append(("ran", "yes"))


@given(st.integers())
async def test_coroutine_tests_with_examples_really_run(number: int) -> None:
    await _nothing()
    assert isinstance(number, int)


@pytest.mark.parametrize(("ci", "verdict"), [("true", "1 error"), ("", "1 skipped")])
def test_failing_coroutines_fail_and_missing_tools_fail_only_in_ci(tmp_path: Path, ci: str, verdict: str) -> None:
    (tmp_path / "conftest.py").write_text((check.ROOT / "tests/conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = needs_tool(*names): x\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\nfrom hypothesis import given, strategies as st\n\n"
        "@pytest.mark.needs_tool('no-such-program')\ndef test_tool(): ...\n\n"
        "async def test_coroutine(): assert False\n\n"
        "@given(st.none())\nasync def test_examples(nothing): assert False\n"
    )
    environment = {"CI": ci, "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
    assert said.splitlines()[-1].startswith(f"2 failed, {verdict}"), said
