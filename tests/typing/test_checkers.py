"""Type checkers see the public interface as it is meant: they accept right calls and report wrong ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIGHT, WRONG = HERE / "right_calls.py", HERE / "wrong_calls.py"
CHECKERS = ("mypy", "basedpyright")

Findings = dict[Path, dict[int, list[str]]]
"""The errors of each file by line."""


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy(*files: Path) -> Findings:
    found: Findings = defaultdict(lambda: defaultdict(list))
    for line in run("mypy", "--strict", "--no-error-summary", *map(str, files)).splitlines():
        if match := re.match(r"(.+?):(\d+): error: (.+)", line):
            found[(ROOT / match[1]).resolve()][int(match[2])].append(match[3])
    return found


def basedpyright(*files: Path) -> Findings:
    found: Findings = defaultdict(lambda: defaultdict(list))
    arguments = ("--outputjson", "--level", "error", "--pythonpath", sys.executable)
    for each in json.loads(run("basedpyright", *arguments, *map(str, files)))["generalDiagnostics"]:
        if each["severity"] == "error":
            line = each["range"]["start"]["line"] + 1
            found[Path(each["file"]).resolve()][line].append(each["message"])
    return found


@pytest.fixture(scope="module", params=CHECKERS)
def findings(request: pytest.FixtureRequest, quickstart: Path) -> Findings:
    checker = mypy if request.param == "mypy" else basedpyright
    return checker(RIGHT, WRONG, quickstart)


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first block of the README, as a file."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert block is not None
    file = tmp_path_factory.mktemp("quickstart") / "jobs.py"
    file.write_text(block[1], encoding="utf-8")
    return file


@pytest.mark.req("DEV-1")
def test_right_calls_are_accepted(findings: Findings) -> None:
    assert findings[RIGHT] == {}


@pytest.mark.req("DEV-1")
def test_wrong_calls_are_reported(findings: Findings) -> None:
    lines = WRONG.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "# wrong:" in line}
    assert len(marked) >= 30
    missed = {number: lines[number - 1] for number in marked - findings[WRONG].keys()}
    assert missed == {}
    assert {number: text for number, text in findings[WRONG].items() if number not in marked} == {}


def test_the_quickstart_of_the_readme_passes(findings: Findings, quickstart: Path) -> None:
    assert findings[quickstart.resolve()] == {}
