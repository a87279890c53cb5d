"""The fenced blocks of README.md and every page under docs/: one reader for all tests of the documentation."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


SHELLS = ("console", "bash", "sh")
"""Languages of blocks that are typed into a shell: with prompts and output (`console`), or every line a command."""


@dataclass(frozen=True)
class Block:
    page: str
    """The path below the root of the repository, such as `docs/cli.md`."""
    line: int
    language: str
    title: str
    text: str

    @property
    def first(self) -> str:
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    name = page.relative_to(ROOT).as_posix()
    return [
        Block(
            page=name,
            line=text.count("\n", 0, found.start()) + 1,
            language=found["info"].split()[0] if found["info"].split() else "",
            title="".join(re.findall(r'title="(.*?)"', found["info"])),
            text=textwrap.dedent(found["text"]),
        )
        for found in FENCE.finditer(text)
    ]


ALL = [block for page in PAGES for block in blocks(page)]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def commands(block: Block) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines shown below it."""
    lines = [line for line in block.text.splitlines() if line.strip()]
    prompt = ""
    if block.language == "console":
        prompt = next((each for each in ("$ ", "# ") if any(line.startswith(each) for line in lines)), "$ ")
    command, shown = "", list[str]()
    for line in lines:
        if command and not complete(command):
            command += f"\n{line}"
        elif not prompt and line.startswith("# "):
            continue
        elif line.startswith(prompt):
            if command:
                yield command, shown
            command, shown = line.removeprefix(prompt), []
        else:
            shown.append(line)
    if command:
        yield command, shown


def complete(command: str) -> bool:
    if document := re.search(r"<<['\"]?(\w+)", command):
        return command.endswith(f"\n{document[1]}")
    return not command.endswith("\\") and first_words(command).count("'") % 2 == 0


def first_words(command: str) -> str:
    """The command without its comment."""
    return re.sub(r"\s+# .*", "", command).strip()
