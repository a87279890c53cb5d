"""The project under test, in processes of its own: Django's settings belong to a whole process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.contrib.django.forked_commands import END

PROJECT = Path(__file__).parent / "project"
FORKED_COMMANDS = Path(__file__).parent / "forked_commands.py"
PATIENCE = 120


class Project:
    """One project on one database. `environment` says which."""

    def __init__(self, folder: Path = PROJECT, settings: str = "settings", **environment: str) -> None:
        self._folder = folder
        self.cwd: Path | None = None
        """Where its commands are started; None for anywhere else."""
        own = {"DJANGO_SETTINGS_MODULE": settings, "PYTHONWARNINGS": "default"}
        self._environment = {**os.environ, **own, **environment}

    def run(self, *commands: str) -> list[str]:
        """What each command prints on both streams, one after the other, in a process of its own. All must succeed."""
        ended = subprocess.run(
            [sys.executable, FORKED_COMMANDS, self._folder, *commands],
            env=self._environment,
            cwd=self.cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert ended.returncode == 0, ended.stdout
        return ended.stdout.split(END)[:-1]

    @contextmanager
    def running(self, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """A command of manage.py that runs until it is told to stop, which it must do in good order."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(self._folder / "manage.py"), *arguments],
                env=self._environment,
                cwd=self.cwd,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(PATIENCE)
        assert code in (0, -signal.SIGTERM), log.read_text()
