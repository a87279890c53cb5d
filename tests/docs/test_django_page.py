"""The page about Django, followed from an empty folder: its project, its tests, its two terminals and its order."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import django
import pytest

from tests.integration.contrib.django.project_runs import Project
from tests.servers import free_port
from tests.support import until_blocking

PAGE = (Path(__file__).parents[2] / "docs" / "django.md").read_text()
BLOCK = re.compile(r'^```(python|bash) title="(.*?)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
BEFORE_TASKS = """
INSTALLED_APPS += ["django_tasks"]
"""


def blocks(kind: str) -> list[tuple[str, str]]:
    return [(title, text) for found, title, text in BLOCK.findall(PAGE) if found == kind]


def commands(title: str) -> list[str]:
    [text] = [text for name, text in blocks("bash") if name == title]
    return [line.partition(" #")[0].strip() for line in text.splitlines()]


def write_files(project: Path) -> None:
    """Each file with its blocks, one after the other; those of the settings follow what Django has written."""
    written = {"shop/settings.py": (project / "shop/settings.py").read_text()}
    for title, text in blocks("python"):
        if django.VERSION < (6,):
            text = text.replace("django.tasks", "django_tasks")
            text = BEFORE_TASKS + text if "TASKS = {" in text else text
        written[title] = f"{written.get(title, '')}\n{text}"
    for name, text in written.items():
        (project / name).write_text(text)


@pytest.mark.req("DEV-3")
def test_the_walk_works_as_pasted(tmp_path: Path) -> None:
    install, start, change, app = commands("start")
    assert (install, change) == ('pip install "mainspring[server]" django', "cd shop")
    subprocess.run([sys.executable, "-m", "django", *shlex.split(start)[1:]], cwd=tmp_path, check=True)
    folder = tmp_path / "shop"
    shop = Project(folder, "shop.settings")
    shop.cwd = folder
    subprocess.run([sys.executable, *shlex.split(app)[1:]], cwd=folder, check=True)
    write_files(folder)
    *_, tested = shop.run(*(each.removeprefix("python ") for each in commands("test")))
    assert re.search(r"Ran 5 tests in .*\n\nOK", tested)
    order_through_two_terminals(shop, tmp_path)
    served = "import shop.asgi as site; print(type(site.application).__name__, len(site.application.routes))"
    assert subprocess.check_output([sys.executable, "-c", served], cwd=folder, text=True).split() == ["Starlette", "2"]


def order_through_two_terminals(shop: Project, folder: Path) -> None:
    address, log = f"127.0.0.1:{free_port()}", folder / "jobs.log"
    [serve], [work], [order] = commands("terminal 1"), commands("terminal 2"), commands("order")
    _, data, url = shlex.split(order)[1:]
    with (
        shop.running(*shlex.split(serve)[2:], "--noreload", address, log=folder / "server.log"),
        shop.running(*shlex.split(work)[2:], "--port", "0", log=log),
    ):
        until_blocking(lambda: answers(f"http://{address}/admin/login/"), "the server answers", deadline=60)
        with urlopen(url.replace("127.0.0.1:8000", address), data.encode()) as answer:
            assert json.load(answer) == {"order": 1}
        until_blocking(lambda: "Thank you for ordering tea." in log.read_text(), log.read_text(), deadline=60)


def test_the_commands_of_the_page_exist() -> None:
    from click.testing import CliRunner

    from mainspring.cli.preset import preset_root

    root = preset_root("mainspring.contrib.django:load", "manage.py mainspring")
    for line in commands("commands"):
        words = [word for word in shlex.split(line)[3:] if not word.startswith("-")]
        name = words[:2] if words[0] in ("jobs", "executions") else words[:1]
        assert CliRunner().invoke(root, [*name, "--help"]).exit_code == 0, line


def answers(url: str) -> bool:
    try:
        with urlopen(url) as answer:
            return bool(answer.status == 200)
    except (URLError, ConnectionError):
        return False
