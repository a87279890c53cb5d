"""Type checkers see the public interface as it is meant: they accept right calls and report wrong ones."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIGHT, WRONG, PLANTED = (HERE / name for name in ("right_calls.py", "wrong_calls.py", "planted_mistakes.py"))
QUICKSTART = HERE / "quickstart.py"
CHECKERS = ("mypy", "basedpyright")

Findings = dict[Path, dict[int, list[str]]]
"""The errors of each file by line."""


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy(*files: Path) -> Findings:
    found: Findings = defaultdict(lambda: defaultdict(list))
    arguments = ("--strict", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache" / "users"))
    for line in run("mypy", *arguments, *map(str, files), cwd=files[0].parent).splitlines():
        if match := re.match(r"(.+?):(\d+): error: (.+)", line):
            found[(files[0].parent / match[1]).resolve()][int(match[2])].append(match[3])
    return found


def basedpyright(*files: Path) -> Findings:
    found: Findings = defaultdict(lambda: defaultdict(list))
    arguments = ("--outputjson", "--level", "error", "--pythonpath", sys.executable)
    report = run("basedpyright", *arguments, *map(str, files), cwd=files[0].parent)
    for each in json.loads(report)["generalDiagnostics"]:
        if each["severity"] == "error":
            line = each["range"]["start"]["line"] + 1
            found[Path(each["file"]).resolve()][line].append(each["message"])
    return found


@pytest.fixture(scope="module", params=CHECKERS)
def findings(request: pytest.FixtureRequest, outside: Path) -> Findings:
    checker = mypy if request.param == "mypy" else basedpyright
    found = checker(*sorted(outside.glob("*.py")))
    return defaultdict(dict, {HERE / path.name: dict(by_line) for path, by_line in found.items()})


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a user, outside of this repository and its settings of type checkers: our files, and the first block
    of the README."""
    folder = tmp_path_factory.mktemp("outside").resolve()
    for file in (RIGHT, WRONG, PLANTED):
        shutil.copy(file, folder)
    (folder / "pyrightconfig.json").write_text('{"reportUnusedCoroutine": "error"}', encoding="utf-8")  # as in pyright
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    (folder / QUICKSTART.name).write_text(block[1], encoding="utf-8")
    return folder


@pytest.mark.req("DEV-1")
def test_right_calls_are_accepted(findings: Findings) -> None:
    assert findings[RIGHT] == {}


@pytest.mark.req("DEV-1")
@pytest.mark.parametrize(("file", "least"), [(WRONG, 30), (PLANTED, 350)], ids=["wrong_calls", "planted_mistakes"])
def test_wrong_calls_are_reported(findings: Findings, file: Path, least: int) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if "# wrong" in line}
    assert len(marked) >= least
    missed = {number: lines[number - 1] for number in marked - findings[file].keys()}
    assert missed == {}
    assert {number: text for number, text in findings[file].items() if number not in marked} == {}


def test_the_quickstart_of_the_readme_passes(findings: Findings) -> None:
    assert findings[QUICKSTART] == {}
