"""Shell completion in real shells: commands, options, and names from the database."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from mainspring import Mainspring
from mainspring.cli import completion
from mainspring.cli.root import root, run_command

ASK = {
    "bash": """
        source ./script
        COMP_WORDS=({words}) COMP_CWORD={last}
        _mainspring_completion mainspring
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """
        compdef() {{ }}
        _describe() {{ print -l -- ${{(P)3}} }}
        compadd() {{ print -l -- "$@" }}
        source ./script
        words=({words}) CURRENT=$(({last} + 1))
        _mainspring_completion
    """,
    "fish": """
        source ./script
        complete -C "{line}"
    """,
}
PATIENT = "import sys; from mainspring.cli import completion, main; completion.PATIENCE = 60; sys.exit(main())"
"""`mainspring` on a busy machine: names are left out if the database takes longer than the patience."""


class Shell:
    """A folder with a database of three jobs, and `mainspring` on the path."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        program = folder / "bin" / "mainspring"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{PATIENT}" "$@"\n')
        program.chmod(0o755)
        url = f"sqlite:///{folder / 'jobs.db'}"
        app = Mainspring(url, roles=())
        for job in ("send-mail", "send-bill", "crawl"):
            app.job(job, queue="web")(lambda: None)
        with app.sync:
            app.sync.open()
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
        self._environ |= {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder)}
        self._environ |= {"MAINSPRING_DATABASE_URL": url}

    def completed(self, shell: str, *words: str) -> set[str]:
        line = " ".join(("mainspring", *words))
        quoted = " ".join(f"'{word}'" for word in ("mainspring", *words))
        script = ASK[shell].format(words=quoted, last=len(words), line=line)
        done = subprocess.run(
            [shell, "-c", script], cwd=self._folder, env=self._environ, capture_output=True, text=True, timeout=120
        )
        assert done.stderr == ""
        return {text.replace("\\", "").partition("\t")[0].partition(":")[0] for text in done.stdout.split("\n") if text}


@pytest.mark.req("OPS-4")
@pytest.mark.parametrize("shell", [pytest.param(name, marks=pytest.mark.needs_tool(name)) for name in ASK])
def test_a_shell_completes_commands_and_names(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    user = Shell(tmp_path)
    assert run_command(["completion", shell]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    assert user.completed(shell, "jobs", "pau") == {"pause"}
    assert user.completed(shell, "jobs", "pause", "send") == {"send-mail", "send-bill"}


def completions(*words: str) -> list[str]:
    """By click's own protocol, in this process."""
    found = ShellComplete(root, {}, "mainspring", "_MAINSPRING_COMPLETE").get_completions([*words[:-1]], words[-1])
    return [each.value for each in found]


async def filled(url: str) -> None:
    app = Mainspring(url, roles=())
    app.job("send", queue="mail")(lambda: None)
    app.job("crawl", queue="web")(lambda: None)
    await app.open()
    await app.templates.create("nightly", "send")
    await app.calendars.set("closed", ["2026-12-26"])
    await app.handlers.pause("send")
    await app.enqueue("send")
    await app.close()


@pytest.mark.req("OPS-4")
def test_names_come_from_the_database_and_applications_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(completion, "PATIENCE", 30.0)
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    monkeypatch.setenv("MAINSPRING_DATABASE_URL", url)
    asyncio.run(filled(url))
    assert completions("jobs", "pause", "") == ["crawl", "send"]
    assert completions("jobs", "pause", "crawl", "") == ["send"], "a name that was given is not offered again"
    assert completions("queues", "pause", "m") == ["mail"]
    assert completions("handlers", "resume", "") == ["send"]
    assert completions("templates", "show", "") == ["nightly"]
    assert completions("calendars", "show", "c") == ["closed"]
    assert completions("worker", "shop:app", "--queues", "web,m") == ["web,mail"]
    assert len(completions("executions", "show", "")) == 1

    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text("app: Mainspring = Mainspring(\n    'sqlite:///shop.db')\n")
    (tmp_path / "own.py").write_text("from mainspring import Mainspring\nscheduler = Mainspring()\nother = 1\n")
    assert completions("run", "") == ["own:scheduler", "shop.jobs:app"]
    assert completions("jobs", "list", "--app", "sh") == ["shop.jobs:app"]


@pytest.mark.req("OPS-4")
def test_errors_are_silent_and_nothing_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAINSPRING_DATABASE_URL", "sqlite:///none.db")
    (tmp_path / "foreign.db").touch()
    (tmp_path / "loud.py").write_text("print('loud')\nraise SystemExit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = sorted(tmp_path.iterdir())
    for options in ((), ("--database-url", "sqlite:///foreign.db"), ("--database-url", "nosuch://x")):
        assert completions("jobs", "pause", *options, "") == []
    assert completions("jobs", "pause", "--app", "loud:app", "") == []
    assert [each for each in sorted(tmp_path.iterdir()) if each.name != "__pycache__"] == before
    assert (tmp_path / "foreign.db").stat().st_size == 0
    assert capfd.readouterr() == ("", "")
