"""The shelf: small durable records beside jobs and executions, such as windows done, backfills and calendars.

An entry is known by its kind, its scope (a job's name, say) and its key; within a scope entries lie in the order of
their keys. What it says is JSON text that only core reads.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .messages import Audit

EntryKind: TypeAlias = Literal[
    "window",
    "revision",
    "backfill",
    "backfill_plan",
    "calendar",
    "token",
    "idempotency",
    "unique",
    "tenants",
    "join",
    "template",
    "expected",
    "logins",
    "retry",
]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """`version` grows by one with every write, from 1."""

    kind: EntryKind
    scope: str = ""
    key: str
    version: int = 0
    body: str = "{}"


class EntryWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Put this entry where the stored version is `seen_version`: 0 if there must be none, None for whatever is there.

    With `remove` the entry goes instead.
    """

    entry: Entry
    seen_version: int | None = None
    remove: bool = False
    audit: Audit | None = None
