"""The tutorial, followed from an empty folder: its files, its commands, its terminals and what they print.

A block with a title is a file, a change of a file, or a terminal whose command goes on running until the terminal is
used again. All other console blocks are typed into one shell. Lines below a command are what it prints, in this order;
`...` stands for any text, and a line of its own for any lines.
"""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_pages import ROOT
from tests.servers import free_port, postgres
from tests.support import until_blocking

PAGE = (ROOT / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
ANSWERS_LATER = re.compile(r"mainspring (jobs|executions|errors) list|mainspring (windows|problems)|curl")
"""Commands that only read, or that may be sent again: repeated until they print what the page shows."""
RELOADING = "no job named"
"""What a command prints about a job that was just added, until `mainspring dev` has loaded the new code."""
NOT_YET = "not yet"
PATIENCE = 60.0
END = "-- end of command --"


class Tutorial:
    def __init__(self, folder: Path) -> None:
        self.folder, self.deadline = folder, 0.0
        self.port, self.database = str(free_port()), postgres().new_database()
        self.terminals: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAINSPRING_", "PYTEST_"))}
        self.environment = kept | {"PATH": programs, "COLUMNS": "250", "NO_PROXY": "*", "no_proxy": "*"}
        self.shell = subprocess.Popen(
            ["bash"], cwd=folder, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def follow(self) -> None:
        for kind, title, text in BLOCK.findall(PAGE):
            if title.startswith("Terminal"):
                self.start(title, text)
            elif kind == "console":
                for command, expected in commands(text):
                    self.type(command, expected)
            else:
                self.write(title, text)

    def write(self, title: str, text: str) -> None:
        name, _, change = title.partition(", ")
        path = self.folder / "shop" / name
        if change == "add":
            text = f"{path.read_text()}\n\n{text}"
        elif change:
            text = replaced(path.read_text(), change.removeprefix("replace "), text)
        path.write_text(text)

    def type(self, command: str, expected: str) -> None:
        if command.startswith("pip install"):
            return
        command = command.replace("8700", self.port).replace("postgresql://localhost/shop", self.database)
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self.environment[name] = value
        self.deadline = time.monotonic() + PATIENCE / 2
        until_blocking(lambda: NOT_YET not in self.attempt(command, expected), f"{NOT_YET}: {command}", PATIENCE)

    def attempt(self, command: str, expected: str) -> str:
        """What a command printed, which is what the page shows; `NOT_YET` if it may be so later."""
        if matches(printed := self.run(command), expected):
            return printed
        if RELOADING in printed or (ANSWERS_LATER.match(command) and time.monotonic() < self.deadline):
            return NOT_YET
        raise AssertionError(f"{command}\n{printed}\nis not\n{expected}\n{self.logs()}")

    def run(self, command: str) -> str:
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f"{command} </dev/null\necho; echo '{END}'\n")
        self.shell.stdin.flush()
        lines = []
        while (line := self.shell.stdout.readline()).strip() != END:
            assert line, f"the shell has ended: {command}"
            lines.append(line)
        return "".join(lines).removesuffix("\n")

    def start(self, title: str, text: str) -> None:
        """Interrupt what the terminal runs, start its next command, and wait until that has printed its lines."""
        self.stop(title)
        [(command, expected)] = commands(text)
        if re.search(r"mainspring dev|,api", command):
            command += f" --port {self.port}"
        log = self.folder / f"{title}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}" if command.startswith(("mainspring", "sh")) else command],
                cwd=self.folder / "shop", env=self.environment | {"COLUMNS": "120"},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        self.terminals[title] = process, log
        expected = expected.replace("8700", self.port)
        until_blocking(
            lambda: matches(log.read_text(), f"...\n{expected}...\n") or process.poll() is not None, command, PATIENCE
        )
        assert process.poll() is None, log.read_text()

    def stop(self, title: str) -> None:
        if title in self.terminals:
            process, log = self.terminals.pop(title)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) in (0, 130, -signal.SIGKILL), log.read_text()

    def logs(self) -> str:
        return "\n".join(log.read_text() for _, log in self.terminals.values())

    def close(self) -> None:
        for process in (self.shell, *(process for process, _ in self.terminals.values())):
            if process.poll() is None:
                process.kill()
            process.communicate()


def commands(text: str) -> list[tuple[str, str]]:
    return [
        (command, expected) for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    ]


def matches(printed: str, expected: str) -> bool:
    """Whether what was printed is what the page shows. Runs of spaces count as one: the widths of columns vary."""
    pattern = ""
    for line in expected.splitlines():
        words = re.sub(r"(\\ )?\\\.\\\.\\\.(\\ )?", ".*", re.escape(" ".join(line.split())))
        pattern += r"(?:.*\n)*?" if line == "..." else f"{words}\n"
    lines = (" ".join(line.split()) + "\n" for line in printed.splitlines())
    return re.fullmatch(pattern, "".join(lines).rstrip("\n") + "\n" if printed.strip() else "") is not None


def replaced(source: str, name: str, text: str) -> str:
    """The source with another function of that name, or another `import of` that module."""
    module = name.removeprefix("import of ")
    [node] = [
        node
        for node in ast.parse(source).body
        if (isinstance(node, ast.FunctionDef) and node.name == name)
        or (isinstance(node, ast.Import) and node.names[0].name == module != name)
        or (isinstance(node, ast.ImportFrom) and node.module == module != name)
    ]
    lines = source.splitlines(keepends=True)
    return "".join([*lines[: node.lineno - 1], text, *lines[node.end_lineno :]])


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Tutorial]:
    made = Tutorial(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.needs_tool("curl")
@pytest.mark.req("OPS-6")
def test_the_tutorial_works_as_shown(tutorial: Tutorial) -> None:
    tutorial.follow()
    for title in ("Terminal 1", "Terminal 2"):
        tutorial.stop(title)
