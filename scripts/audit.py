"""What known tools say about the security of the code and of its dependencies: `make audit`.

    python scripts/audit.py [--offline]

ruff (its rules S are among those of `make lint`) and bandit read the code; the exceptions, each with its reason, are in
pyproject.toml. pip-audit looks up every pinned version in a public list of vulnerabilities. Ends with 1 if one of them
finds something, or if the list cannot be reached: `--offline` reports that without failing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PYTHON, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)


def read_code() -> list[str]:
    """The tools that found something."""
    commands = {
        "ruff": ("ruff", "check", "-q", "src"),
        "bandit": ("bandit", "-q", "-r", "src", "-c", "pyproject.toml"),
    }
    failed = []
    for name, command in commands.items():
        done = run(*command)
        print(f"{name}: {'ok' if done.returncode == 0 else done.stdout + done.stderr}".strip())
        failed += [name] if done.returncode else []
    return failed


def read_versions() -> tuple[list[str], int]:
    """Vulnerabilities of pinned versions, and how many versions were found in the list."""
    done = run(
        "pip_audit", "-r", "constraints.txt", "--no-deps", "--disable-pip", "-f", "json", "--progress-spinner=off"
    )
    pinned: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"] if done.stdout.startswith("{") else []
    looked_up = [each for each in pinned if "skip_reason" not in each]
    found = [
        f"{each['name']} {each['version']}: {entry['id']}, mended in {', '.join(entry['fix_versions']) or 'no version'}"
        for each in looked_up
        for entry in each["vulns"]
    ]
    return found, len(looked_up)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--offline", action="store_true", help="do not fail if no list of vulnerabilities can be reached"
    )
    arguments = parser.parse_args()
    failed = read_code()
    vulnerable, looked_up = read_versions()
    for line in vulnerable:
        print(f"pip-audit: {line}")
    if not looked_up:
        print("pip-audit: NOT CHECKED, because no list of vulnerabilities can be reached from here")
    else:
        print(f"pip-audit: {looked_up} pinned versions looked up, {len(vulnerable)} vulnerabilities")
    return 1 if failed or vulnerable or not (looked_up or arguments.offline) else 0


if __name__ == "__main__":
    sys.exit(main())
