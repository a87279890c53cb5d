"""How a child process finds the application: by the name it has in its module, or by one that is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.app.import_path import load_application, load_in_child, places_of
from mainspring.model.errors import ConfigurationError, InvalidValue

pytestmark = pytest.mark.req("EXE-9")

here = Mainspring("memory://")
"""An application of a test module that can be imported."""


@here.job("stop-me", isolation="process")
def stop_me() -> None: ...


APP = """
from mainspring import Mainspring
app = Mainspring("memory://")
@app.job("work", isolation="process")
def work() -> None: ...
"""
FACTORY = """
from mainspring import Mainspring
def create_app(**settings):
    made = Mainspring("memory://", **settings)
    @made.job("work", isolation="process")
    def work() -> None: ...
    return made
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module of this name that can be imported until the end of the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)

    def write(name: str, text: str) -> Path:
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    yield write
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_an_application_is_found_by_the_name_in_its_module() -> None:
    assert here._runtime.import_path == f"{__name__}:here"
    assert load_application(f"{__name__}:here") is here


def test_a_module_that_is_loaded_by_name(module: Any) -> None:
    module("shop.jobs", APP)
    app = load_application("shop.jobs:app")
    assert app._runtime.import_path == "shop.jobs:app"
    assert app._runtime.registry.names == {"work"}
    import shop.jobs  # type: ignore[import-not-found]

    assert shop.jobs.app is app, "nothing was imported twice"


def test_a_function_that_the_module_calls_while_it_is_imported(module: Any) -> None:
    """The name comes after the registration; the check waits for it."""
    module("factory", FACTORY)
    module("shop", "from factory import create_app\napp = create_app()")
    import shop

    assert shop.app._runtime.import_path == "shop:app"
    assert shop.app._runtime.declares == ("work",)
    module("nameless", "from factory import create_app\napps = [create_app()]")
    import nameless  # type: ignore[import-not-found]

    with pytest.raises(InvalidValue, match="isolation: 'process' is not valid"):
        _ = nameless.apps[0]._runtime.declares


def test_a_function_without_parameters_that_returns_the_application(module: Any) -> None:
    module("factory", FACTORY)
    app = load_application("factory:create_app")
    assert app._runtime.import_path == "factory:create_app"
    from factory import create_app  # type: ignore[import-not-found]

    given = create_app(import_path="factory:create_app")
    assert given._runtime.import_path == "factory:create_app"


def test_an_application_without_a_name_is_refused_at_registration() -> None:
    app = Mainspring("memory://")
    with pytest.raises(InvalidValue) as raised:
        app.job("work", isolation="process")(lambda: None)
    assert raised.value.field == "isolation"
    assert 'Mainspring(import_path="shop.jobs:app")' in raised.value.remedy
    with pytest.raises(InvalidValue, match="isolation"):
        Mainspring("memory://", default_isolation="process").job("work")(lambda: None)
    assert app._runtime.registry.names == frozenset()
    app.job("plain")(lambda: None)
    assert app._runtime.declares == ("plain",)


async def test_an_application_without_a_name_is_refused_when_a_start_changes_the_default() -> None:
    app = Mainspring("memory://")
    app.job("work")(lambda: None)
    with pytest.raises(InvalidValue, match="isolation"):
        await app.start(default_isolation="process")
    await app.close()


@pytest.mark.parametrize("given", ["shop", "shop.jobs", "shop:", ":app", "shop/jobs.py:app", "a b:c", 5])
def test_an_import_path_has_a_module_and_a_name(given: Any) -> None:
    with pytest.raises((InvalidValue, ConfigurationError), match=r"import_path.*a module, a colon and a name"):
        Mainspring("memory://", import_path=given)


def test_an_import_path_that_leads_nowhere_is_refused_at_registration() -> None:
    app = Mainspring("memory://", import_path="no_such_module.jobs:app")
    with pytest.raises(InvalidValue, match="There is no module 'no_such_module'"):
        app.job("work", isolation="process")(lambda: None)


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
        (APP, "shop:ap", "Did you mean 'app'?"),
        (APP, "shop:work", "'work' is of type JobHandle"),
        (APP, "shop", "a module, a colon and a name"),
        (APP + "\n1 / 0", "shop:app", "'shop' raised ZeroDivisionError"),
        (APP + "\napp.run()", "shop:app", 'put the call that runs it under: if __name__ == "__main__"'),
        (
            FACTORY + "\ndef broken(x): ...",
            "shop:broken",
            "a function without parameters. broken is called without arguments",
        ),
        (APP, "shopp:app", "There is no module 'shopp'"),
    ],
)
def test_what_cannot_be_loaded_says_why(module: Any, text: str, target: str, words: str) -> None:
    module("shop", text)
    with pytest.raises((InvalidValue, ConfigurationError)) as raised:
        load_application(target)
    assert words in str(raised.value)


def test_a_child_imports_the_modules_that_declared_handlers_elsewhere(module: Any) -> None:
    module("shop", APP)
    module("more", "from shop import app\n@app.job('more', isolation='process')\ndef more() -> None: ...")
    import shop

    assert places_of(shop.app._runtime.registry.modules) == {"shop": "work"}
    import more  # type: ignore[import-not-found]

    modules = places_of(more.app._runtime.registry.modules)
    assert modules == {"shop": "work", "more": "more"}
    for name in ("shop", "more"):
        del sys.modules[name]  # as in a child that is new
    app = load_in_child("shop:app", modules)
    assert app._runtime.registry.names == {"work", "more"}


CHILD = """
import subprocess, sys
if __name__ == "__main__":
    load = "import sys; from mainspring.app.import_path import load_application as load; print(load(sys.argv[1]).sync)"
    found = app._runtime.import_path
    print(found)
    subprocess.run([sys.executable, "-c", load, found], check=True)
"""


def test_scripts_are_found_by_module_or_path(tmp_path: Path) -> None:
    """The child imports the script without running what stands under `if __name__ == "__main__"`."""
    (tmp_path / "script.py").write_text(APP + CHILD)
    for how, expected in (
        (["script.py"], str(tmp_path / "script.py")),
        (["-m", "script"], "script"),
    ):
        done = _python(how, tmp_path)
        assert done.returncode == 0, done.stderr
        named, loaded = done.stdout.splitlines()
        assert (named, "SyncMainspring" in loaded) == (f"{expected}:app", True)
    refused = _python(["-c", APP], tmp_path)
    assert refused.returncode == 1
    assert "allowed: an application that a child process can import by name" in refused.stderr


def _python(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
