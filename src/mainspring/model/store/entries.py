"""Entries: small durable records beside jobs and executions, such as completed windows, backfills and calendars.

An entry is identified by its kind, its scope (a job's name, for example) and its key; entries of a scope are sorted by
key. The body is JSON text that only core reads.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeVar

import msgspec

from .messages import Audit, Change

T = TypeVar("T")

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
    "import",
    "webhook",
    "hook",
    "delivery",
    "failure",
    "error_group",
    "error_sample",
    "control",
    "bulk",
    "bulk_items",
    "process",
    "place",
    "activity",
]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """`version` starts at 1 and grows by one with every write."""

    kind: EntryKind
    scope: str = ""
    key: str
    version: int = 0
    body: str = "{}"

    def read(self, kind: type[T]) -> T | None:
        """The body; None if a newer release wrote it and this one cannot read it. Such an entry is left to nodes that
        can."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.MsgspecError:
            return None


def failure_entry(change: Change) -> Entry | None:
    """The entry that a store adds with this change: notes of failures are sorted by time, and an execution has one for
    each attempt that failed."""
    if change.failure is None:
        return None
    return Entry(kind="failure", key=f"{change.at:016d}/{change.id}", body=change.failure)


class EntryWrite(msgspec.Struct, frozen=True, kw_only=True):
    """Put this entry if the stored version is `seen_version`: 0 means that there must be none, None accepts any.

    With `remove` the entry is removed instead.
    """

    entry: Entry
    seen_version: int | None = None
    remove: bool = False
    audit: Audit | None = None
