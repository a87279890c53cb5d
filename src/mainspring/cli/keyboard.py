"""Single keys from a terminal, while the event loop runs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ESCAPES = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down"}
NAMES = {"\t": "tab", "\r": "enter", "\n": "enter", "\x1b": "escape", "\x7f": "escape"}


@contextmanager
def keys(press: Callable[[str], None]) -> Iterator[None]:
    """Calls `press` with each key that is typed: a character, or one of the names above. Lines are not echoed. Without
    a terminal as standard input there are no keys."""
    if not sys.stdin.isatty():
        yield
        return
    import termios  # not on Windows
    import tty

    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)
    loop = asyncio.get_running_loop()

    def read() -> None:
        typed = os.read(source, 1024).decode(errors="ignore")
        if not typed:  # the terminal is gone
            loop.remove_reader(source)
        for key in split(typed):
            press(key)

    tty.setcbreak(source)
    loop.add_reader(source, read)
    try:
        yield
    finally:
        loop.remove_reader(source)
        termios.tcsetattr(source, termios.TCSADRAIN, before)


def split(text: str) -> list[str]:
    """The keys of what was read at once. Sequences of keys that have no name here are left out.

    >>> split("q\\x1b[A\\x1b[B\\t\\x1b[5~p")
    ['q', 'up', 'down', 'tab', 'p']
    """
    found, at = [], 0
    while at < len(text):
        if text[at] == "\x1b" and text[at + 1 : at + 2] in ("[", "O"):
            end = at + 2
            while end < len(text) and not (text[end].isalpha() or text[end] == "~"):
                end += 1
            found.append(ESCAPES.get(text[at : end + 1], ""))
            at = end + 1
        else:
            found.append(NAMES.get(text[at], text[at]))
            at += 1
    return [key for key in found if key]
