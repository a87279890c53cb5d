"""Fingerprints: which failures are the same error.

Two failures belong to one error group if they have the same type of exception, the same deepest frame of the
application's own code, and the same message apart from numbers, ids, quoted text, addresses and the like. The frame is
a module and a function, without a line number, so that edits elsewhere in the file do not split a group. Failures
without an exception (a timeout, a lost worker, too much memory) are grouped by reason and handler.
"""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from ...model.error_groups import FailureNote, Fingerprint
from ...model.execution import ExecutionRow, Outcome
from ...model.values.payload import storable

LONGEST_MESSAGE = 300
"""How many characters of a message are kept, with placeholders."""
LONGEST_NAME = 200
_LOOKED_AT = 2_000
"""How many characters of a message are read. This bounds the time that a message takes."""

# Compiled at the first failure: that takes longer than any other line of `import mainspring`. The first alternative
# skips plain words, in which none of the others can begin: without it, each is tried at each letter, which takes three
# to nine times as long.
_PLACEHOLDERS = r"""
      (?<![a-z_])(?:[a-z_]++(?![\w+@-]|[.:](?!\s|\Z))[\s,;()]*+)++
    | (?P<url> [a-z][a-z0-9+.-]{1,20}://[^\s"'<>]+ )
    | (?P<email> [\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+ )
    | (?P<text> "[^"\n]*" | (?<!\w)'[^'\n]*'(?!\w) | `[^`\n]*` | «[^«»\n]*» | [“„][^“”\n]*[“”] )
    | (?P<uuid> [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12} )
    | (?P<time> \d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?)?
              | (?<!\d)\d{1,2}:\d\d:\d\d(?:[.,]\d+)? )
    | (?P<address> 0x[0-9a-f]+ )
    | (?P<ip> (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.])
            | (?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{1,4}(?!\w) )
    | (?P<path> (?<![\w/.])(?:~|\.{1,2})?(?:/[\w.@+-]+)+/? | (?<!\w)[a-z]:\\[^\s"'<>]+ )
    | (?P<mixed> (?<![^\W_])(?:(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8,} | (?=\d*[a-z])(?=[a-z]*\d)[a-z0-9]{16,})(?![^\W_]) )
    | (?P<n> (?:(?<![\w.])[+-])?\d+(?:[.,_]\d+)*(?:e[+-]?\d+(?!\w))? )
    """
_NAMES = {"uuid": "id", "mixed": "id"}
_REPEATED = re.compile(r"(<[a-z]+>)(?:[,;\s]+\1)+")
"""A list of numbers or texts, however long it is."""
_SHOWN_AS_DOTS = re.compile("<(?:url|email|text|id|time|address|ip|path|n)>")

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")
_STANDARD = tuple(
    f"{path}{os.sep}" for name in ("stdlib", "platstdlib") if (path := sysconfig.get_path(name)) is not None
)
_OURS = f"{Path(__file__).parents[2]}{os.sep}"


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A frame of a traceback."""

    file: str
    module: str
    function: str


def fingerprint(kind: str, message: str, frames: Iterable[Frame] = ()) -> Fingerprint:
    """The fingerprint of an exception of this qualified type, with its traceback from the outermost frame on.

    >>> first = fingerprint("KeyError", "'order 4711'", [Frame("/srv/shop/billing.py", "shop.billing", "charge")])
    >>> second = fingerprint("KeyError", "'order 4712'", [Frame("/opt/app/billing.py", "shop.billing", "charge")])
    >>> first == second, first.message, first.frame
    (True, '<text>', 'shop.billing:charge')
    """
    return _made(kind, normalised(message), own_frame(frames))


def without_exception(reason: str, handler: str, message: str = "") -> Fingerprint:
    """The fingerprint of a failure that no exception of the handler describes."""
    group = _hash(reason, handler)
    return Fingerprint(group, storable(reason[:LONGEST_NAME]), normalised(message))


def failure_note(
    execution: ExecutionRow, outcome: Outcome | None, *, at: int, reason: str, error: str | None, final: bool
) -> FailureNote:
    """The note about a failed attempt, or about an execution that failed between attempts."""
    found = None if outcome is None else outcome.fingerprint
    if found is None:
        found = without_exception(reason, execution.handler, error or "")
    return FailureNote(
        group=found.group,
        type=found.type,
        message=found.message,
        frame=found.frame,
        job=execution.job,
        tenant=execution.tenant,
        release="" if outcome is None else outcome.release,
        execution=execution.id,
        at=at,
        final=final,
    )


def normalised(message: str) -> str:
    """The message with placeholders for what differs between failures of the same kind.

    >>> normalised("Order 4711 of 'ada' not found at 2026-01-02 10:00:00 by 10.0.0.7:5432")
    'Order <n> of <text> not found at <time> by <ip>'
    """
    return _normalised(message[:_LOOKED_AT])


def readable(message: str) -> str:
    """A normalised message as people read it.

    >>> readable("Order <n> of <text> not found in <b>"), readable("<path>: <n>, <n>")
    ('Order … of … not found in <b>', '…: …, …')
    """
    return _SHOWN_AS_DOTS.sub("…", message)


@lru_cache(maxsize=256)
def _normalised(message: str) -> str:
    text = _placeholders().sub(_placeholder, message)
    if text.count(">") > 1:
        text = _REPEATED.sub(r"\1", text)
    return storable(" ".join(text.split())[:LONGEST_MESSAGE])


@cache
def _placeholders() -> re.Pattern[str]:
    return re.compile(_PLACEHOLDERS, re.IGNORECASE | re.VERBOSE)


def _placeholder(found: re.Match[str]) -> str:
    name = found.lastgroup
    return found[0] if name is None else f"<{_NAMES.get(name, name)}>"


def own_frame(frames: Iterable[Frame]) -> str:
    """The deepest frame of the application's own code; without one, the deepest frame of all.

    If the application is an installed package itself, its own frames are those of the package of the first frame, which
    is the handler's.
    """
    return _own_frame(tuple(frames))


@lru_cache(maxsize=256)
def _own_frame(frames: tuple[Frame, ...]) -> str:
    own: Frame | None = None
    last: Frame | None = None
    home: str | None = None
    for frame in frames:
        last = frame
        foreign, package = _place(frame.file)
        if foreign:
            continue
        if home is None:
            home = package
        if package in ("", home):
            own = frame
    shown = own or last
    return "" if shown is None else storable(f"{_module(shown)}:{shown.function}"[:LONGEST_NAME])


def _module(frame: Frame) -> str:
    """The module of a frame, or the file name of a script."""
    if frame.module and frame.module != "__main__":
        return frame.module
    return frame.file.replace("\\", "/").rpartition("/")[2].removesuffix(".py")


@lru_cache(maxsize=4096)
def _place(file: str) -> tuple[bool, str]:
    """Whether a file is part of Python or of Mainspring; and the installed package that it belongs to, if any."""
    if (found := _INSTALLED.search(file)) is not None:
        return file.startswith(_OURS), found[1]
    return file.startswith(("<", _OURS, *_STANDARD)), ""


@lru_cache(maxsize=256)
def _made(kind: str, message: str, frame: str) -> Fingerprint:
    kind = storable(kind[:LONGEST_NAME])
    return Fingerprint(_hash(kind, frame, message), kind, message, frame)


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=6).hexdigest()
