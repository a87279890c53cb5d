"""The schema: indexes and a version, created by the first store that opens and checked by every later one.

Any number of starting processes may create them at once: creating an index that exists does nothing, and the version
only grows. A release that changes indexes or documents raises `NEWEST` and adds its step to `_apply`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from pymongo import IndexModel
from pymongo.errors import OperationFailure

from ...model.errors import SchemaMismatch, StoreError
from .connection.database import Database

NEWEST = 1
_MIGRATE = "run `mainspring db migrate`"
_REPAIR = f"drop that index and {_MIGRATE}"
_CONFLICTS = (85, 86)  # an index of that name or those keys exists, with other options


class Index(msgspec.Struct, frozen=True):
    collection: str
    name: str
    keys: tuple[tuple[str, int], ...]
    only: dict[str, Any] = {}
    unique: bool = False
    expires: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """In the form in which the server lists them."""
        found: dict[str, Any] = {"key": dict(self.keys)}
        if self.only:
            found["partialFilterExpression"] = self.only
        if self.unique:
            found["unique"] = True
        if self.expires is not None:
            found["expireAfterSeconds"] = self.expires
        return found

    def model(self) -> IndexModel:
        options = {name: value for name, value in self.options.items() if name != "key"}
        return IndexModel(list(self.keys), name=self.name, **options)


def _executions(name: str, *keys: tuple[str, int], only: dict[str, Any] | None = None, unique: bool = False) -> Index:
    return Index("executions", name, keys, only or {}, unique)


_EXISTS = {"$exists": True}

INDEXES = (
    # Claims: the best rows of each lane, without reading a document; the greatest tag of each share.
    _executions(
        "ready",
        *(("ready", 1), ("priority", -1), ("tag", 1), ("_id", 1), ("staged", 1), ("limited", 1)),
        only={"ready": _EXISTS},
    ),
    _executions(
        "shares",
        *(("ready", 1), ("priority", -1), ("share", 1), ("tag", -1)),
        only={"ready": _EXISTS, "share": _EXISTS},
    ),
    _executions("future", ("due", 1), only={"future": True}),
    _executions("lease", ("lease", 1), only={"state": "running"}),
    _executions("waiters", ("waits_for", 1), ("priority", -1), ("_id", 1), only={"waits_for": _EXISTS}),
    _executions(
        "wait_lines",
        *(("wait_line", 1), ("priority", -1), ("place", 1), ("_id", 1)),
        only={"wait_line": _EXISTS},
    ),
    _executions(
        "wait_shares",
        *(("wait_line", 1), ("priority", -1), ("share", 1), ("place", -1)),
        only={"wait_line": _EXISTS, "share": _EXISTS},
    ),
    _executions("slots", ("slots.key", 1), ("slots.number", 1), only={"slots.key": _EXISTS}, unique=True),
    _executions("unique_key", ("unique_key", 1), only={"live": True, "unique_key": _EXISTS}, unique=True),
    _executions("overlap_key", ("overlap_key", 1), only={"live": True, "overlap_key": _EXISTS}, unique=True),
    _executions("cancels", ("owner", 1), ("_id", 1), only={"live": True, "cancel_requested": _EXISTS}),
    # Lists: newest first by job, by rare state, by tenant, parent and foreign trace.
    _executions("live", ("state", 1), ("_id", -1), only={"live": True}),
    _executions("job", ("job_id", 1), ("live", 1), ("_id", -1), ("state", 1)),
    _executions("job_rare", ("job_id", 1), ("state", 1), ("_id", -1), only={"rare": True}),
    _executions("rare", ("state", 1), ("_id", -1), only={"rare": True}),
    _executions("tenant", ("tenant", 1), ("_id", -1), only={"tenant": _EXISTS}),
    _executions("trigger", ("trigger", 1), ("_id", -1), only={"trigger": _EXISTS}),  # all but enqueued ones
    _executions("parent", ("parent_id", 1), ("_id", -1), ("state", 1), only={"parent_id": _EXISTS}),
    _executions("trace", ("trace_id", 1), ("_id", -1), only={"trace_id": _EXISTS}),
    _executions("stray", ("stray", 1), ("_id", -1), only={"stray": True}),
    # Work that is left: follow-ups, statistics, drafts, audit records.
    _executions("todo", ("todo", 1), ("_id", 1), only={"todo": True}),
    _executions("delta", ("delta", 1), ("job_id", 1), ("_id", 1), only={"delta": True}),
    _executions("drafts", ("drafts.stamp", 1), only={"drafts": _EXISTS}),
    _executions("audits", ("audits", 1), only={"audits": _EXISTS}),
    Index("jobs", "due", (("due", 1), ("_id", 1)), {"due": _EXISTS}),
    Index("jobs", "sweep", (("sweep", 1), ("_id", 1)), {"sweep": True}),
    Index("jobs", "outbox", (("outbox.id", 1),), {"outbox.id": _EXISTS}),
    # Lists of jobs: ticks change none of these.
    *(Index("jobs", name, ((f"list.{name}", 1), ("_id", 1))) for name in ("handler", "queue", "origin", "search")),
    *(Index("jobs", name, ((name, 1), ("_id", 1))) for name in ("created", "updated")),
    Index("jobs", "handler_back", (("list.handler", -1), ("_id", 1))),
    *(Index("jobs", f"{name}_back", ((name, -1), ("_id", 1))) for name in ("created", "updated")),
    *(Index("jobs", name, ((name, 1), ("_id", 1)), {name: _EXISTS}) for name in ("paused", "cancelled")),
    Index("incarnations", "job", (("job", 1),)),
    Index("audits", "target", (("target", 1), ("_id", -1))),
    Index("workers", "seen", (("seen", 1),)),
    Index("locks", "expires", (("expires", 1),)),
    Index("locks", "audits", (("audits", 1),), {"audits": _EXISTS}),
    Index("entries", "audits", (("audits", 1),), {"audits": _EXISTS}),
    Index("entries", "removed", (("version", 1),), {"version": 0}),
    Index("limits", "recheck_at", (("recheck_at", 1),), {"recheck_at": _EXISTS}),
    Index("limits", "full", (("full", 1),), {"full": _EXISTS}),
    Index("wakeups", "at", (("at", 1),), expires=120),
)

_COLLECTIONS = sorted({index.collection for index in INDEXES})


class Status(msgspec.Struct, frozen=True):
    """The version of a database; `current` is 0 for one without our collections."""

    prefix: str
    current: int
    newest: int = NEWEST

    @property
    def pending(self) -> list[int]:
        return list(range(self.current + 1, self.newest + 1))


async def prepare(db: Database) -> None:
    """For a store that opens: create the schema of a new or older database, or check it."""
    found = await status(db)
    if found.current < NEWEST:
        await _apply(db)
    else:
        _refuse_newer(found)
        await _check(db)


async def migrate(db: Database) -> Status:
    """For an administrator: also creates indexes that were dropped."""
    _refuse_newer(await status(db))
    await _apply(db)
    return await status(db)


async def status(db: Database) -> Status:
    found = await db.meta.find_one({"_id": "schema"})
    return Status(db.prefix, int(found["version"]) if found else 0)


def _refuse_newer(found: Status) -> None:
    if found.current > NEWEST:
        remedy = "update this installation of mainspring, or use a prefix of its own"
        raise SchemaMismatch(found.current, NEWEST, remedy)


async def _apply(db: Database) -> None:
    """Steps that change documents go between the indexes and the version, in order, each safe to repeat."""
    for collection in _COLLECTIONS:
        models = [index.model() for index in INDEXES if index.collection == collection]
        try:
            await getattr(db, collection).create_indexes(models)
        except StoreError as error:
            if not isinstance(error.__cause__, OperationFailure) or error.__cause__.code not in _CONFLICTS:
                raise
            raise StoreError(f"{error}; {_REPAIR}") from error
    for collection in ("logs", "purges"):  # a transaction can only write to collections that exist
        await getattr(db, collection).create_indexes([IndexModel("_id")])
    await db.meta.update_one({"_id": "schema"}, {"$max": {"version": NEWEST}}, upsert=True)


async def _check(db: Database) -> None:
    for collection in _COLLECTIONS:
        there = await getattr(db, collection).indexes()
        for index in INDEXES:
            if index.collection == collection:
                _check_one(db, index, there.get(index.name))


def _check_one(db: Database, index: Index, found: Any) -> None:
    place = f"{db.name}: the index {index.name!r} of {db.prefix}.{index.collection}"
    if found is None:
        raise StoreError(f"{place} is missing; {_MIGRATE}")
    known = ("key", "unique", "partialFilterExpression", "expireAfterSeconds", "sparse", "collation", "hidden")
    options = {name: dict(found[name]) if name == "key" else found[name] for name in known if name in found}
    if options != index.options or list(options["key"]) != [name for name, _ in index.keys]:
        raise StoreError(f"{place} is {options}, not {index.options}; {_REPAIR}")
