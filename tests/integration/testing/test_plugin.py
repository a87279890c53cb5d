"""The pytest plugin, in real runs of pytest: with nothing else installed, and in the hands of somebody who errs."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytestmark = pytest.mark.req("OPS-6")

JOBS = """
from mainspring import Mainspring, daily_at

app = Mainspring("sqlite:///never.db")
other = Mainspring("memory://")
other.job("elsewhere")(lambda: None)

@app.job("report", trigger=daily_at("02:00"))
async def report(ctx):
    await app.enqueue(mail, {"to": "ada"})

@app.job("mail")
def mail(to: str):
    if to == "nobody":
        raise ValueError("nobody is at home")
"""
RUNS_COROUTINES = """
import asyncio, inspect

def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        names = pyfuncitem._fixtureinfo.argnames
        asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
        return True
"""


class Project:
    """A folder with jobs and tests of somebody's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("jobs.py", JOBS)
        self.write("conftest.py", RUNS_COROUTINES)
        self.settings("mainspring_app = jobs:app")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def settings(self, *lines: str) -> None:
        strict = "addopts = --strict-markers --strict-config -p no:cacheprovider"
        self.write("pytest.ini", "\n".join(["[pytest]", strict, *lines]))

    def pytest(self, tests: str, *arguments: str, code: int = 0) -> str:
        self.write("test_jobs.py", tests)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "MAINSPRING"))}
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-m", "pytest", "-p", "mainspring_pytest", *arguments],
            cwd=self.folder,
            env=environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_pytest_finds_the_plugin_by_itself() -> None:
    assert [point.value for point in entry_points(group="pytest11") if point.name == "mainspring"] == [
        "mainspring_pytest"
    ]


def test_nothing_of_mainspring_is_imported_until_a_fixture_is_asked_for(project: Project) -> None:
    project.pytest("import sys\ndef test_it():\n    assert 'mainspring' not in sys.modules")


def test_plain_tests_and_async_tests(project: Project) -> None:
    told = project.pytest(
        """
import pytest
from datetime import UTC, datetime
from mainspring.testing import BlockingKit, FakeClock, Kit

def test_plain(mainspring_kit: BlockingKit, mainspring_clock: FakeClock):
    mainspring_kit.advance("1d")
    mainspring_kit.assert_ran("report", count=1)
    mainspring_kit.assert_ran("mail", {"to": "ada"})
    assert mainspring_clock.datetime == datetime(2026, 1, 2, tzinfo=UTC)

async def test_async(mainspring_kit: Kit):
    await mainspring_kit.advance("1d")
    mainspring_kit.assert_ran("report", count=1)

@pytest.mark.mainspring(start="2026-03-01T01:59:59Z", raise_errors=False)
class TestOptions:
    def test_of_the_class(self, mainspring_kit, mainspring_app):
        mainspring_kit.advance("1s")
        mainspring_kit.assert_ran("report", at="2026-03-01T02:00Z")
        mainspring_app.sync.enqueue("mail", {"to": "nobody"})
        mainspring_kit.run_until_idle()
        mainspring_kit.assert_failed("mail", error="nobody is at home")

    @pytest.mark.mainspring(start="2026-04-01T00:00Z")
    async def test_of_the_test(self, mainspring_kit):
        assert (f"{mainspring_kit.now:%m}", mainspring_kit.raise_errors) == ("04", False)
"""
    )
    assert "4 passed" in told
    assert not (project.folder / "never.db").exists()


def test_a_fixture_of_the_users_own_names_another_application(project: Project) -> None:
    project.pytest(
        """
import pytest
import jobs

@pytest.fixture
def mainspring_app():
    return jobs.other

def test_it(mainspring_kit):
    jobs.other.sync.enqueue("elsewhere")
    mainspring_kit.run_until_idle()
    mainspring_kit.assert_ran("elsewhere")
"""
    )


def test_what_a_handler_raises_is_shown_with_its_own_lines(project: Project) -> None:
    told = project.pytest(
        """
from jobs import app, mail

def test_it(mainspring_kit):
    app.sync.enqueue(mail, {"to": "nobody"})
    mainspring_kit.run_until_idle()
""",
        code=1,
    )
    assert 'raise ValueError("nobody is at home")' in told
    assert "raised by the handler of job 'mail' with params {'to': 'nobody'}" in told


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            "",
            "there is no application to test. Name it in your pytest settings, such as mainspring_app = shop.jobs:app",
        ),
        ("mainspring_app = jobs:ap", "Did you mean 'app'?"),
        ("mainspring_app = jbos:app", "There is no module 'jbos'"),
    ],
)
def test_errors_of_the_setting_are_one_clear_line(project: Project, setting: str, words: str) -> None:
    project.settings(setting)
    told = project.pytest("def test_it(mainspring_kit): ...", code=1)
    assert words in told
    assert "Traceback" not in told


def test_a_misspelt_option_of_the_marker_is_told(project: Project) -> None:
    tests = "import pytest\n@pytest.mark.mainspring(begin='now')\ndef test_it(mainspring_kit): ..."
    told = project.pytest(tests, code=1)
    assert "unexpected keyword argument 'begin'" in told
    assert "mainspring(start=..., raise_errors=..." in told
