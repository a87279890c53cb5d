"""Entries: small durable records beside jobs and executions, such as completed windows, backfills and calendars.

An entry is identified by its kind, its scope (a job's name, for example) and its key; entries of a scope are sorted by
key. The body is JSON text that only core reads.
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
    """`version` starts at 1 and grows by one with every write."""

    kind: EntryKind
    scope: str = ""
    key: str
    version: int = 0
    body: str = "{}"


class EntryWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Put this entry if the stored version is `seen_version`: 0 means that there must be none, None accepts any.

    With `remove` the entry is removed instead.
    """

    entry: Entry
    seen_version: int | None = None
    remove: bool = False
    audit: Audit | None = None
