"""The schema: indexes and a version, created by the first store that opens and checked by every later one.

Any number of starting processes may create them at once: creating an index that exists does nothing, and the numbers
only grow. A release that adds indexes or changes documents raises `NEWEST` and adds its step to `_apply`; a step only
adds, so that the release before works on (see `model.store.schema`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from pymongo import IndexModel, UpdateOne
from pymongo.errors import OperationFailure

from ...model.errors import StoreError
from ...model.store.schema import SchemaAt, SchemaSteps
from .connection.database import Database
from .connection.errors import repeated
from .documents import job_of

NEWEST = 2
STEPS = SchemaSteps(base=1, newest=NEWEST, oldest=NEWEST)
PLACE = "prefix"
_MIGRATE = "run `mainspring db migrate`"
_REPAIR = f"drop that index and {_MIGRATE}"
_JOBS_AT_ONCE = 500
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
    # Since step 2. Counts by lane: planned rows, while the others are counted along `ready` and `wait_lines`;
    # counts by tenant.
    _executions("labels", ("labels", 1), ("_id", -1), only={"labels": _EXISTS}),
    _executions("notes", ("notes.key", 1), only={"notes.key": _EXISTS}),
    Index("entries", "failures", (("kind", 1), ("key", 1)), {"kind": "failure", "version": {"$gt": 0}}),
    Index("entries", "forgotten", (("removed", 1),), {"removed": _EXISTS}),
    _executions("planned", ("future", 1), ("lane", 1), ("due", 1), only={"future": True}),
    Index("incarnations", "last_state", (("stats.last_state", 1), ("_id", 1)), {"stats.last_state": _EXISTS}),
    _executions("live_tenant", ("live", 1), ("tenant", 1), only={"live": True, "tenant": _EXISTS}),
    Index("jobs", "labels", (("labels", 1), ("_id", 1)), {"labels": _EXISTS}),
)

CONTRACTIONS: dict[int, Callable[[Database], Awaitable[None]]] = {}
"""What each contracting step does; each is safe to repeat."""

_COLLECTIONS = sorted({index.collection for index in INDEXES})


async def prepare(db: Database, *, migrates: bool = True) -> None:
    """For a store that opens: create the schema of a new or older database, or check it."""
    found = await schema_at(db)
    STEPS.refuse_newer(found, PLACE)
    if not migrates:
        STEPS.refuse_older(found)
    if migrates and STEPS.pending(found):
        await _apply(db)
    else:
        await _check(db)


async def migrate(db: Database, *, contract: bool = False) -> SchemaAt:
    """For an administrator: also creates indexes that were dropped."""
    found = await schema_at(db)
    STEPS.refuse_newer(found, PLACE)
    await _apply(db)
    for step in STEPS.contractions(found) if contract else ():
        await CONTRACTIONS[step](db)
        await _raise_numbers(db, {"version": step})
    return await schema_at(db)


async def schema_at(db: Database) -> SchemaAt:
    found = await db.meta.find_one({"_id": "schema"}) or {}
    required = int(found.get("version", 0))
    return SchemaAt(required, max(required, int(found.get("expanded", 0))))


async def _apply(db: Database) -> None:
    """Steps that change documents go between the indexes and the numbers, in order, each safe to repeat."""
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
    await _label_jobs(db)
    numbers = {"version": STEPS.base, "expanded": STEPS.pending(SchemaAt())[-1]}
    await _raise_numbers(db, numbers)


async def _raise_numbers(db: Database, numbers: dict[str, int]) -> None:
    await repeated(lambda: db.meta.update_one({"_id": "schema"}, {"$max": numbers}, upsert=True))


async def _label_jobs(db: Database) -> None:
    """Step 2: jobs have labels. Those that a release before writes keep the labels they had."""
    after = ""
    while found := await db.jobs.find({"_id": {"$gt": after}}, sort={"_id": 1}, limit=_JOBS_AT_ONCE):
        after = found[-1]["_id"]
        jobs = [job for doc in found if "labels" not in doc and (job := job_of(doc)).readable]
        writes = [
            UpdateOne({"_id": job.name, "version": job.version}, {"$set": {"labels": sorted(set(job.labels))}})
            for job in jobs
            if job.labels
        ]
        if writes:
            await repeated(partial(db.jobs.bulk_write, writes))


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
