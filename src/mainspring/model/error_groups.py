"""What failures have in common: the fingerprint of a failed attempt, and the note that is stored about it."""

from __future__ import annotations

import msgspec

from .time.instants import Micros


class Fingerprint(msgspec.Struct, frozen=True, gc=False):
    """What the failures of one error group have in common. `group` is the id of the group, a hash of the rest; `frame`
    is where the application's own code failed, as module and function; the message has placeholders for what differs
    from failure to failure."""

    group: str
    type: str
    message: str = ""
    frame: str = ""


class FailureNote(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One failed attempt, kept until it has been counted in its error group. `final` says that no further attempt
    follows."""

    group: str
    type: str
    message: str = ""
    frame: str = ""
    job: str
    tenant: str | None = None
    release: str = ""
    execution: str
    at: Micros
    final: bool = False
