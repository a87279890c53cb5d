"""How the command line writes to the terminal: every text goes through here or through `screens.output.console`.

Names, errors, log lines and answers of foreign servers are the words of strangers. What could steer the terminal, or
hide or reorder what people read, is escaped; in JSON by the rules of JSON. A test keeps other ways to print out of this
package.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from types import TracebackType
from typing import Any

import click

from ..model.values.terminal_text import on_terminal, one_line

_BEYOND_ASCII = re.compile(r"[^ -~\n]+")


def echo(text: str = "", *, err: bool = False, nl: bool = True, colour: str | None = None) -> None:
    """Print text; line breaks and tabs stay."""
    safe = on_terminal(text, keep="\n\t")
    click.echo(safe if colour is None else click.style(safe, fg=colour), err=err, nl=nl)


def confirm(question: str, *, err: bool = False) -> None:
    """Ask, and end the command unless the answer is yes."""
    click.confirm(one_line(question), abort=True, err=err)


def json_text(data: Any, indent: int | None = None) -> str:
    r"""JSON with readable text in it, and `\u` escapes for all that is not printable. It is ASCII alone where standard
    output does not take every character, so that programs lose none.

    >>> json_text({"naïve": "\x1b\x9b\u202e"})
    '{"naïve": "\\u001b\\u009b\\u202e"}'
    """
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    text = json.dumps(data, indent=indent, ensure_ascii=not unicode, default=str)
    return _BEYOND_ASCII.sub(lambda found: "".join(map(_in_json, found[0])), text)


def _in_json(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]


def show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """For `sys.excepthook`."""
    echo("".join(traceback.format_exception(kind, error, trace)), err=True, nl=False)
