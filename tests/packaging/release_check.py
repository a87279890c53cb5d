"""Install both distributions on every supported Python that is found, and try them as a new user does.

    python -m tests.packaging.release_check dist

Interpreters are found by name (`python3.12`) and below PYENV_ROOT. Each supported version that is missing is reported,
and with --all it is a failure.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.packaging.distributions import ROOT, Distributions
from tests.packaging.walk import Environment, walk, walk_with_server, walk_without_extras

EXTRAS = "postgres,mongo,redis,server,mcp,otel,calendars,uvloop"
SUPPORTED = sorted(set(re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())))
CONSTRAINTS = ["-c", str(ROOT / "constraints.txt")]


def interpreters(version: str) -> Iterator[str]:
    if named := shutil.which(f"python{version}"):
        yield named
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from map(str, sorted(versions.glob(f"{version}.*/bin/python"), reverse=True))


def find(version: str) -> str | None:
    """The first that starts: version managers leave names on PATH that only print an error."""
    for python in interpreters(version):
        command = [python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode == 0 and said.stdout.strip() == version:
            return python
    return None


def check(python: str, distributions: Distributions, folder: Path) -> None:
    """The wheel alone, then with the server, then with everything; and the source distribution beside it."""
    here = _new_environment(python, folder / "wheel")
    install(here, str(distributions.wheel))
    walk(here)
    walk_without_extras(here)
    install(here, f"{distributions.wheel}[server]")
    walk_with_server(here)
    install(here, f"{distributions.wheel}[{EXTRAS}]")
    here.run("python", "-m", "pip", "check")
    names = "stores.postgres, stores.mongo, redis.client, server.api, assistants.server, model.calendars.ics"
    here.run("python", "-W", "error", "-c", "; ".join(f"import mainspring.{name}" for name in names.split(", ")))
    there = _new_environment(python, folder / "sdist")
    install(there, str(distributions.sdist))
    walk(there)


def _new_environment(python: str, folder: Path) -> Environment:
    (folder / "work").mkdir(parents=True)
    subprocess.run([python, "-m", "venv", str(folder / "environment")], check=True)
    return Environment(folder / "environment", folder / "work")


def install(here: Environment, what: str) -> None:
    command = [str(here.place / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*command, *CONSTRAINTS, what], check=True, env=os.environ | {"PIP_CONSTRAINT": CONSTRAINTS[1]})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the wheel and the source distribution are")
    parser.add_argument("--all", action="store_true", help="fail if an interpreter is missing")
    arguments = parser.parse_args()
    distributions = Distributions.found_in(arguments.folder.resolve())
    missing = []
    for version in SUPPORTED:
        python = find(version)
        if python is None:
            missing.append(version)
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mainspring-release-") as folder:
            check(python, distributions, Path(folder))
        print(f"Python {version}: installed and tried in {time.monotonic() - began:.0f} s", flush=True)
    for version in missing:
        print(f"Python {version}: NOT CHECKED, no interpreter was found", flush=True)
    return 1 if len(missing) == len(SUPPORTED) or (missing and arguments.all) else 0


if __name__ == "__main__":
    sys.exit(main())
