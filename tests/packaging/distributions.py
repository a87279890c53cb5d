"""The wheel and the source distribution, built by the pinned backend of this environment."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Distributions:
    wheel: Path
    sdist: Path

    @classmethod
    def found_in(cls, folder: Path) -> Distributions:
        [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
        return cls(wheel, sdist)

    def wheel_files(self) -> set[str]:
        with ZipFile(self.wheel) as archive:
            return set(archive.namelist())

    def sdist_files(self) -> set[str]:
        """Paths below the one folder that it unpacks to."""
        with tarfile.open(self.sdist) as archive:
            return {name.partition("/")[2] for name in archive.getnames()}

    def metadata(self) -> bytes:
        [name] = [name for name in self.wheel_files() if name.endswith(".dist-info/METADATA")]
        with ZipFile(self.wheel) as archive:
            return archive.read(name)


def build(source: Path, folder: Path, *targets: str) -> None:
    chosen = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *chosen]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
