"""The messages between a worker and a child process, and how they travel: four bytes of length, then msgpack.

A handler can write anything to any file descriptor. What does not decode, or claims to be too long, breaks the channel;
the worker then ends the child.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

from ..core.ports import StopKind
from ..model.errors import MainspringError
from ..model.execution import ExecutionRow, Outcome
from ..model.store.messages import LogLine
from ..model.time.instants import Micros

M = TypeVar("M")

LARGEST_TO_CHILD = 256 * 1024 * 1024
"""Bytes. Parameters may have 64 MiB, and stand in it as text."""
LARGEST_FROM_CHILD = 32 * 1024 * 1024
CHUNK = 64 * 1024
"""Bytes that are read at a time. A buffer of twice that size is asked of the kernel each time, which takes longer."""

_length = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()


class BrokenChannel(MainspringError):
    """What came through the channel is no message."""


# --- from the worker --------------------------------------------------------------------------------------------------


class Setup(msgspec.Struct, tag="setup"):
    """The first message: what to import, and how the worker is set up."""

    import_path: str
    modules: dict[str, str]
    """Modules that declare handlers, each with one of these: imported if the application does not import them."""
    python_path: list[str]
    username: str
    channel: str | None
    log_levels: dict[str, int]


class Start(msgspec.Struct, tag="start"):
    """Begin an attempt. `number` tells the attempts of one child apart. `offset` is the store's time at 0 of the
    monotonic clock, which all processes of a machine share."""

    number: int
    execution: ExecutionRow
    worker: str
    started: Micros
    began: float
    limit: float | None
    offset: Micros
    trace: dict[str, str]


class Cancel(msgspec.Struct, tag="cancel"):
    number: int
    kind: StopKind
    reason: str


class Leave(msgspec.Struct, tag="leave"):
    """End in good order: nothing else will come."""


# --- from the child ---------------------------------------------------------------------------------------------------


class Ready(msgspec.Struct, tag="ready"):
    """The application is imported. `cpu` counts seconds since the child began."""

    cpu: float
    size: int | None


class Refused(msgspec.Struct, tag="refused"):
    """The application cannot be imported, or its setup hook fails."""

    imported: bool
    error: str


class ForwardedRecord(msgspec.Struct):
    """A record of `logging`, for the handlers that the worker has."""

    name: str
    level: int
    message: str
    created: float
    path: str
    line: int
    function: str | None
    exception: str | None
    extra: dict[str, Any]

    def record(self, pid: int) -> logging.LogRecord:
        return logging.makeLogRecord(
            {
                **self.extra,
                "name": self.name,
                "levelno": self.level,
                "levelname": logging.getLevelName(self.level),
                "msg": self.message,
                "args": None,
                "created": self.created,
                "msecs": self.created % 1 * 1000,
                "pathname": self.path,
                "filename": self.path.rpartition("/")[2],
                "module": self.path.rpartition("/")[2].removesuffix(".py"),
                "lineno": self.line,
                "funcName": self.function,
                "exc_text": self.exception,
                "process": pid,
            }
        )


class Report(msgspec.Struct, tag="report"):
    """What the handler has reported since the last report. It is also a heartbeat: one comes every second at least,
    unless something in the handler holds the interpreter's lock. Where the worker cannot read them itself, `size` and
    `cpu` are what the child holds and has used."""

    number: int
    progress: str | None = None
    counters: str | None = None
    lines: tuple[LogLine, ...] = ()
    records: tuple[ForwardedRecord, ...] = ()
    size: int | None = None
    cpu: float = 0.0
    labels: tuple[str, ...] = ()


class Result(msgspec.Struct, tag="result"):
    """The attempt is over. `reusable` is false if the handler was interrupted, or left something behind."""

    report: Report
    outcome: Outcome
    reusable: bool


ToChild = Setup | Start | Cancel | Leave
FromChild = Ready | Refused | Report | Result


def encode(message: ToChild | FromChild) -> bytes:
    body = _encoder.encode(message)
    return _length.pack(len(body)) + body


class Decoder(Generic[M]):
    """Turns what arrives, in pieces of any size, into messages."""

    def __init__(self, kinds: Any, largest: int) -> None:
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(kinds)
        self._largest = largest
        self._waiting = bytearray()

    def feed(self, data: bytes) -> Iterator[M]:
        waiting = self._waiting
        waiting += data
        at, end = 0, len(waiting)
        try:
            while end - at >= _length.size:
                (length,) = _length.unpack_from(waiting, at)
                if length > self._largest:
                    raise BrokenChannel(f"a message of {length} bytes was announced")
                if end - at < _length.size + length:
                    return
                at += _length.size + length
                yield self._decode(bytes(waiting[at - length : at]))
        finally:
            del waiting[:at]

    def _decode(self, body: bytes) -> M:
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BrokenChannel(f"a message could not be read: {error}") from None


def from_worker() -> Decoder[ToChild]:
    return Decoder(ToChild, LARGEST_TO_CHILD)


def from_child() -> Decoder[FromChild]:
    return Decoder(FromChild, LARGEST_FROM_CHILD)
