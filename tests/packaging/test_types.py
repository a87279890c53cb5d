"""What a type checker sees of the installed wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import mainspring
from tests.packaging.distributions import Distributions

COMPLETE = 0.90
"""The share of names in all modules, public and internal, whose types are written down and not inferred."""


def test_every_public_name_of_the_wheel_has_a_type(distributions: Distributions, tmp_path: Path) -> None:
    place = tmp_path / "environment"
    venv.create(place, symlinks=True)
    command = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python"), "install", "-q", "--no-compile"]
    subprocess.run([*command, "--no-deps", "--no-index", str(distributions.wheel)], check=True)
    [packages] = place.glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    program = Path(sys.executable).with_name("basedpyright")
    report = subprocess.run(
        [program, "--verifytypes", "mainspring", "--ignoreexternal", "--outputjson"],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(place)},
        capture_output=True,
        text=True,
    )
    found = json.loads(report.stdout)["typeCompleteness"]
    assert found["completenessScore"] >= COMPLETE
    symbols = {each["name"]: each for each in found["symbols"]}
    missing = [name for name in mainspring.__all__ if f"mainspring.{name}" not in symbols and not name.startswith("__")]
    assert missing == []
    unknown = [
        name
        for name in mainspring.__all__
        if (each := symbols.get(f"mainspring.{name}")) and not each["isTypeKnown"] and not each["isTypeAmbiguous"]
    ]
    assert unknown == []
