"""A virtual environment for each peer, with the versions pinned in its `requirements.txt`; made when asked for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "benchmarks" / "peers"
BENCH = ROOT / ".bench"


class NotInstalled(Exception):
    """A peer that cannot be measured here; the report says why."""


@cache
def peer_python(peer: str) -> Path:
    """The interpreter of a peer's environment, with exactly what its requirements name."""
    wanted = (PEERS / peer / "requirements.txt").read_text()
    folder = BENCH / "venvs" / peer
    python, installed = folder / "bin" / "python", folder / "installed.txt"
    if installed.exists() and installed.read_text() == wanted:
        return python
    print(f"  installing {peer}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)], peer)
    requirements = str(PEERS / peer / "requirements.txt")
    _run([str(python), "-m", "pip", "install", "-q", "--no-input", "-r", requirements], peer)
    installed.write_text(wanted)
    return python


def version_of(peer: str) -> str:
    """The pinned version, as the first line of the requirements says."""
    first = (PEERS / peer / "requirements.txt").read_text().split()[0]
    return first.partition("==")[2]


def _run(command: list[str], peer: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        reason = (ended.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise NotInstalled(f"{peer} cannot be installed: {reason[:200]}")
