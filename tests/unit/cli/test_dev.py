"""`mainspring dev`: what it watches, which saves count, and the line of a run."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.cli import main
from mainspring.cli.dev import reloader
from mainspring.cli.dev.child import short_traceback
from mainspring.cli.dev.watching import counts, folders_of, own_folders
from mainspring.cli.load import load_app
from mainspring.model.errors import InvalidValue
from mainspring.model.events import AttemptEnded, RowEvent, Skipped
from mainspring.model.execution import ExecutionRow, State
from mainspring.observe.logs.run_lines import RunLineFormatter
from tests.unit.observe.test_log_lines import one

FAILURE = {"error": "ValueError: no", "reason": "error"}
DASHBOARD = "http://127.0.0.1:8700/dashboard"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with folders below it, and a module beside it."""
    for name in ("dev_shop/__init__.py", "dev_shop/lib/__init__.py", "dev_shop/lib/deep/late.py", "dev_beside.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("dev_shop/__pycache__", "dev_shop/.git", "data"):
        (tmp_path / name).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [each for each in sys.modules if each.startswith("dev_")]:
        del sys.modules[name]


@pytest.mark.req("DEV-2")
def test_it_watches_the_folders_of_own_modules_and_of_packages_all_below(shop: Path) -> None:
    names = ["dev_shop.lib", "dev_beside", "json", "msgspec", "mainspring.app.mainspring"]
    modules = {name: importlib.import_module(name) for name in names}
    below = ("dev_shop", "dev_shop/lib", "dev_shop/lib/deep")
    assert own_folders(modules) == {str(shop), *(str(shop / name) for name in below)}
    assert folders_of([str(shop / "data"), str(shop / "dev_beside.py")]) == {str(shop / "data"), str(shop)}


@pytest.mark.req("DEV-2")
@pytest.mark.parametrize("name", ["jobs.py", "mainspring.toml", "pyproject.toml", ".env", "data/rates.csv"])
def test_saves_of_code_settings_and_watched_files_count(name: str) -> None:
    assert counts(f"/shop/{name}", ["/shop/data"])


@pytest.mark.req("DEV-2")
@pytest.mark.parametrize(
    "name",
    [
        *("report.csv", "data-of-yesterday/rates.csv", "data/jobs.db", "data/jobs.db-wal", "data/jobs.db-shm"),
        *(".#jobs.py", "#jobs.py#", "jobs.py~", ".jobs.py.swp", "jobs.pyc", "jobs.py___jb_tmp___", "data/a.log"),
    ],
)
def test_what_jobs_tools_and_editors_write_does_not(name: str) -> None:
    assert not counts(f"/shop/{name}", ["/shop/data"])


@pytest.mark.req("DEV-2")
def test_an_error_of_the_import_is_shown_with_own_lines_only(shop: Path) -> None:
    (shop / "dev_broken.py").write_text("import json\n\n\ndef read():\n    json.loads('{')\n\n\nread()\n")
    with pytest.raises(InvalidValue) as caught:
        load_app("dev_broken:app")
    shown = short_traceback(caught.value)
    assert [line.strip() for line in shown.splitlines() if "File" in line] == [
        f'File "{shop}/dev_broken.py", line 8, in <module>',
        f'File "{shop}/dev_broken.py", line 5, in read',
    ]
    assert shown.splitlines()[-1].startswith("json.decoder.JSONDecodeError: ")
    with pytest.raises(InvalidValue) as missing:
        load_app("dev_missing:app")
    assert short_traceback(missing.value) == str(missing.value)


@pytest.mark.req("DEV-2")
def test_without_the_extra_one_line_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "mainspring.cli.commands.dev.find_spec", lambda name: None if name == "watchfiles" else real(name)
    )
    assert main(["dev", "jobs:app"]) == 2
    assert capsys.readouterr().err == 'error: mainspring dev needs watchfiles; run: pip install "mainspring[server]"\n'


@pytest.mark.req("DEV-2")
async def test_a_watch_that_fails_says_so_and_one_that_lost_a_folder_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = [FileNotFoundError("a folder"), OSError("inotify watch limit reached")]

    async def failing(*_: str, **__: Any) -> AsyncIterator[Any]:
        raise failures.pop(0)
        yield

    monkeypatch.setattr(reloader, "awatch", failing)
    await reloader.Reloader([], "jobs:app", [])._watch()
    assert failures == []
    assert capsys.readouterr().err.endswith("so a save changes nothing: inotify watch limit reached\n")


@pytest.mark.req("DEV-2")
@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"state": State.COMPLETED, "reason": "completed"}, "completed in 501 ms"),
        (
            {"state": State.FAILED, **FAILURE, "traceback": "...\nValueError: no"},
            "failed in 501 ms",
        ),
        (
            {"state": State.PENDING, **FAILURE, "retry_in": 4.0, "reason": "error"},
            "failed, again in 4 s",
        ),
        ({"state": State.PENDING, "reason": "handed_back"}, "handed back"),
        ({"state": State.CANCELLED, "reason": "too slow"}, "cancelled in 501 ms"),
    ],
)
def test_a_run_is_one_line_with_its_address_and_an_error_below(event: dict[str, Any], words: str) -> None:
    run = ExecutionRow(id="01a1ef02-d546-8e01-ad42-bc056b60ef7e", job="send-mail", job_id="j", handler="h")
    first, *more = line_of(AttemptEnded(run, attempt=1, duration_ms=501.091, **event))
    assert first[9:] == f"send-mail {words}  {DASHBOARD}/executions/bc056b60ef7e"
    assert len(first) <= 100
    assert (more[-1].strip() if more else "") == event.get(
        "error", "too slow" if event["state"] is State.CANCELLED else ""
    )
    assert line_of(Skipped(run, "overlap"))[0][9:].startswith("send-mail skipped (overlap)  http")


def line_of(event: RowEvent) -> list[str]:
    return RunLineFormatter(DASHBOARD).format(one(event)).splitlines()
