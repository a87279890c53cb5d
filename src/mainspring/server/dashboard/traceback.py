"""A traceback in parts: the frames of the application's own code, and those of libraries, which pages fold away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Literal, TypeAlias

import msgspec

PartKind: TypeAlias = Literal["text", "own", "library"]

_FRAME = re.compile(r'^([ |]*)File "(.+)", line \d+')
_REPEATED = re.compile(r"^[ |]*\[Previous line repeated ")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")
_STANDARD = re.compile(r"[/\\]lib[/\\]python3(?:\.\d+)?[/\\]|[/\\]Python3\d+[/\\]Lib[/\\]|^<frozen ")
_HEAD = "Traceback (most recent call last):"
_EDGE = " |"
"""What stands before a line: exception groups draw their nesting with bars."""


class Part(msgspec.Struct, frozen=True):
    """Lines of a traceback. `text` is what stands between frames: headings and the exceptions themselves; `packages`
    are those that frames of libraries belong to."""

    kind: PartKind
    text: str
    frames: int = 0
    packages: tuple[str, ...] = ()


def split_traceback(text: str | None) -> list[Part]:
    """The parts in the order of the text; neighbouring frames of one kind are one part. The text may come from another
    machine, so only its paths say which frames are a library's.

    >>> trace = '''Traceback (most recent call last):
    ...   File "/srv/shop/pay.py", line 3, in charge
    ...     get(url)
    ...   File "/venv/lib/python3.12/site-packages/httpx/_api.py", line 9, in get
    ...     return send()
    ... OSError: refused'''
    >>> [(part.kind, part.packages) for part in split_traceback(trace)]
    [('text', ()), ('own', ()), ('library', ('httpx',)), ('text', ())]
    """
    blocks = list(_blocks(text or ""))
    home = _home(blocks)
    parts = []
    for kind, group in groupby(blocks, key=lambda block: _kind(block[0], home)):
        members = list(group)
        names = dict.fromkeys(_package(file) or "Python" for file, _ in members if file is not None)
        parts.append(
            Part(
                kind,
                "\n".join(line for _, lines in members for line in lines),
                0 if kind == "text" else len(members),
                tuple(names) if kind == "library" else (),
            )
        )
    return parts


def _blocks(text: str) -> Iterator[tuple[str | None, list[str]]]:
    """The lines of each frame with its file, and the lines between frames without one."""
    file: str | None = None
    depth, lines = 0, list[str]()
    for line in text.rstrip("\n").split("\n"):
        found = _FRAME.match(line)
        deeper = len(line) - len(line.lstrip(_EDGE)) > depth or _REPEATED.match(line)
        if found is None and (file is None or deeper):
            lines.append(line)
            continue
        if lines:
            yield file, lines
        file, depth, lines = (found[2], len(found[1]), [line]) if found is not None else (None, 0, [line])
    if lines and lines != [""]:
        yield file, lines


def _home(blocks: list[tuple[str | None, list[str]]]) -> str | None:
    """The package of the handler, if it is an installed one. Of a chain of exceptions, the last one was raised by the
    handler: the traceback of a cause may begin inside a library."""
    heads = [place for place, (file, lines) in enumerate(blocks) if file is None and lines[-1].endswith(_HEAD)]
    files = [file for file, _ in blocks[heads[-1] if heads else 0 :] if file is not None]
    return _package(files[0]) if files else None


def _kind(file: str | None, home: str | None) -> PartKind:
    """An application that is an installed package itself is `home`: the handler's frame is the first."""
    if file is None:
        return "text"
    package = _package(file)
    if package is not None:
        return "own" if package == home else "library"
    return "library" if _STANDARD.search(file) else "own"


def _package(file: str) -> str | None:
    found = _INSTALLED.search(file)
    return None if found is None else found[1].removesuffix(".py")
