"""What new users do first, in an environment in which Mainspring is installed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from mainspring.version import VERSION
from tests.packaging.distributions import ROOT
from tests.support import until_blocking

PATIENCE = 60.0


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and a folder to work in."""

    place: Path
    folder: Path

    def run(self, program: str, *arguments: str, code: int = 0, folder: Path | None = None, **variables: str) -> str:
        """What it says, on both of its outputs."""
        done = subprocess.run(
            [self.place / "bin" / program, *arguments],
            cwd=folder or self.folder,
            env=self._variables() | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == code, f"{program} {' '.join(arguments)} ended with {done.returncode}: {done.stdout}"
        return done.stdout

    @contextmanager
    def running(self, program: str, *arguments: str) -> Iterator[Path]:
        """The file with what it says; in the end it has to stop in good order."""
        log = self.folder / "log.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [self.place / "bin" / program, *arguments],
                cwd=self.folder,
                env=self._variables(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            yield log
            assert process.poll() is None, log.read_text()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, log.read_text()
        finally:
            process.kill()
            process.wait()

    def _variables(self) -> dict[str, str]:
        """Those of this process, without what would let the source tree in."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MAINSPRING_"))}
        return kept | {"PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": ""}


def walk(here: Environment) -> None:
    """What works without any extra."""
    where = here.run("python", "-c", "import mainspring; print(mainspring.__file__, mainspring.__version__)")
    assert where.split() == [str(next(here.place.glob("lib/*/site-packages/mainspring/__init__.py"))), VERSION]
    assert here.run("mainspring", "--version") == f"mainspring {VERSION}\n"
    _quickstart(here)
    here.run("mainspring", "init", "shop")
    said = here.run(
        "mainspring", "exec", "greet", "--app", "jobs:app", "--param", "name=Ada", folder=here.folder / "shop"
    )
    assert "greeted Ada" in said


def _quickstart(here: Environment) -> None:
    """The first block of the README runs its jobs, and a second process sees them."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    (here.folder / "jobs.py").write_text(block[1], encoding="utf-8")
    with here.running("python", "jobs.py") as log:
        for words in ("reminding 42", "crawling page 1"):
            until_blocking(lambda words=words: words in log.read_text(), words, PATIENCE)  # type: ignore[misc]
        listed = here.run("mainspring", "jobs", "list", MAINSPRING_DATABASE_URL="sqlite:///jobs.db")
        assert "hourly-stats" in listed


def walk_without_extras(here: Environment) -> None:
    """Whatever needs an extra names it. Needs the jobs.py of the walk."""
    said = here.run("mainspring", "run", "jobs:app", "--roles", "api", "--port", "0", code=2)
    assert 'pip install "mainspring[server]"' in said, said
    for extra, url in {"postgres": "postgresql://127.0.0.1:1/x", "mongo": "mongodb://127.0.0.1:1/x"}.items():
        said = here.run("mainspring", "jobs", "list", "--database-url", url, code=2)
        assert f"pip install 'mainspring[{extra}]'" in said, said


def walk_with_server(here: Environment) -> None:
    """The dashboard answers. Needs the jobs.py of the walk."""
    with here.running("mainspring", "run", "jobs:app", "--roles", "scheduler,worker,api", "--port", "0") as log:
        address = re.compile(r"http://[\w.]+:[1-9]\d*")
        [url, *_] = until_blocking(lambda: address.findall(log.read_text()), "it serves", PATIENCE)
        with urlopen(f"{url}/dashboard", timeout=PATIENCE) as page:
            assert (page.status, "Overview" in page.read().decode()) == (200, True)
