"""Text from elsewhere on a terminal: what could steer the terminal, or hide or reorder what people read, is escaped.

Messages of handlers, error texts, answers of foreign servers, names of jobs and tenants: everything that reaches a
console log or a screen of the command line goes through here.
"""

from __future__ import annotations


def on_terminal(text: str, keep: str = "\n") -> str:
    """The text with control characters (ESC, CR, C1 and so on), marks of direction and all else that is not printable
    as escapes; those in `keep` stay.

    >>> on_terminal("done\\x1b[2J\\r")
    'done\\\\x1b[2J\\\\x0d'
    >>> on_terminal("user\\u202egpj.exe", keep="")
    'user\\\\u202egpj.exe'
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _escaped(char) for char in text)


def one_line(value: object) -> str:
    """The same for a line of ours: a line break in it would let it pass for another line.

    >>> one_line("done\\n12:00:00 INFO     paid")
    'done\\\\x0a12:00:00 INFO     paid'
    """
    return on_terminal(str(value), keep="")


def _escaped(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
