"""Runs `mainspring import` in-process, on a SQLite file, for an application that the tests give."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mainspring.cli import main

Run = Callable[..., Any]


@contextmanager
def imports_into(
    source: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Gives a function that runs one command with `-o json` and returns its data; or, with another exit code than 0
    or 1, its error."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MAINSPRING_DATABASE_URL", raising=False)
    monkeypatch.setenv("MAINSPRING_APP", "import_shop:app")
    (folder / "import_shop.py").write_text(source)
    monkeypatch.syspath_prepend(folder)
    handlers = logging.getLogger("mainspring").handlers[:]

    def run(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        sys.modules.pop("import_shop", None)
        assert main([*arguments, "-o", "json"]) == code
        said = capsys.readouterr()
        return json.loads(said.out) if code < 2 else said.err

    yield run
    logging.getLogger("mainspring").handlers[:] = handlers
    sys.modules.pop("import_shop", None)


def jobs(run: Run) -> dict[str, Any]:
    """Without what ticks change."""
    changing = {"next_run_at", "updated_at", "version", "tag"}
    listed = run("jobs", "list")
    return {job["name"]: {k: v for k, v in job.items() if k not in changing} for job in listed}
