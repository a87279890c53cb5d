"""Importing jobs from other schedulers: planned first, applied through the usual commands, and reversible.

A plan says for each row what it becomes: a job is created, an existing one is edited, it is already so, or somebody has
to review it; and whether the job does exactly what the original did. Applying it again changes nothing. Before each
change an entry records how the job was; `undo` puts that back, except for jobs that have been changed since, which are
listed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from ...model.defaults import ENQUEUED_ATTEMPTS, SCHEDULED_ATTEMPTS
from ...model.errors import CommandRefused, HandlerNotFound, InvalidValue, MainspringError, NotFound
from ...model.job import Job
from ...model.policies import Retry
from ...model.store.entries import Entry, EntryKind, EntryWrite
from ...model.time.instants import Micros, to_datetime
from ...model.time.zones import zone
from ...model.triggers import Trigger
from ...model.triggers.codec import decode_trigger
from ...model.triggers.interval import interval_pair
from ...model.values.ids import Chance, random_id
from ...model.values.payload import encode_payload
from ...model.values.reading import identifier, is_identifier
from ..auditing import audit_record
from ..jobs.job_cache import JobCache
from ..ports import Store
from ..rules.importing.cron_intervals import Conversion, converted
from ..rules.importing.rows import ImportRow, NeedsReview, handler_names, named_params
from ..rules.secret_params import hide, mask
from .job_creation import Creation
from .steering import Steering

KIND: EntryKind = "import"
ALL = ""
"""The scope of the list of imports; the changes of one import are in a scope of their own, by job."""
PAGE = 500

Action: TypeAlias = Literal["create", "update", "unchanged", "review"]
Result: TypeAlias = Literal["exact", "changed", "needs review"]
Undone: TypeAlias = Literal["removed", "restored", "gone", "kept"]


class ImportNotFound(NotFound):
    noun = "import"

    def __str__(self) -> str:
        return f"no import with id {self.name!r} that could be undone" if self.name else "there is no import to undo"


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What a row becomes. The reason says what is different, why a schedule stays cron, or what has to be reviewed."""

    row: ImportRow
    action: Action
    trigger: Trigger | None = None
    handler: str | None = None
    options: Mapping[str, Any] = {}
    shown_params: Mapping[str, Any] = {}
    """Its parameters without their secrets; none of a row for review, whose secrets may be unknown."""
    reason: str | None = None

    @property
    def result(self) -> Result:
        """Whether the job does exactly what the original did."""
        if self.action == "review":
            return "needs review"
        return "changed" if self.row.changes else "exact"

    @property
    def becomes(self) -> str:
        if self.trigger is None:
            return "-"
        minutes = self.interval_minutes
        return self.trigger.expression() if minutes is None else f"every {minutes} min"

    @property
    def interval_minutes(self) -> int | None:
        pair = interval_pair(self.trigger, "minutes")
        return None if pair is None else pair[0]


class UndoneJob(msgspec.Struct, frozen=True, kw_only=True):
    job: str
    outcome: Undone
    reason: str | None = None


class _Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job was before its import, and the fingerprint of what the import made of it; none until that is known."""

    created: bool
    fields: dict[str, Any] = {}
    after: str | None = None


class _Import(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: Micros
    by: str
    source: str
    undone: bool = False


class Imports:
    def __init__(
        self, store: Store, creation: Creation, steering: Steering, job_cache: JobCache, chance: Chance, timezone: str
    ) -> None:
        self._store, self._creation, self._steering = store, creation, steering
        self._job_cache, self._chance, self._timezone = job_cache, chance, timezone

    # --- plan -----------------------------------------------------------------------------------------------
    async def plan(self, rows: Iterable[ImportRow]) -> list[Planned]:
        """What an import would do. Nothing is changed."""
        wanted = list(rows)
        known = await self._known([row.name for row in wanted if row.reason is None])
        handlers = await self._creation.known_handlers()
        now = await self._store.now()
        seen: dict[str, str] = {}
        return [await self._planned(row, known, handlers, now, seen) for row in wanted]

    async def _known(self, names: Sequence[str]) -> dict[str, Job]:
        found: dict[str, Job] = {}
        for at in range(0, len(names), PAGE):
            found |= {job.name: job for job in await self._store.jobs(names[at : at + PAGE])}
        return found

    async def _planned(
        self,
        row: ImportRow,
        known: Mapping[str, Job],
        handlers: frozenset[str],
        now: Micros,
        seen: dict[str, str],
    ) -> Planned:
        if row.reason is not None:
            return Planned(row=row, action="review", reason=row.reason)
        try:
            found, tz = self._schedule(row, now, seen)
            job = known.get(row.name)
            handler = _handler(row, job, handlers)
            secret = await self._creation.secrets_of(handler)
            options = {"trigger": found.trigger, "tz": tz, "enabled": row.enabled, **row.options}
            if row.params or row.args or job is None:
                options["params"] = self._params(row, handler, secret)
        except MainspringError as error:
            return Planned(row=row, action="review", handler=row.handler, reason=str(error))
        action: Action = "create" if job is None else "unchanged" if _is_so(job, options) else "update"
        return Planned(
            row=row,
            action=action,
            trigger=found.trigger,
            handler=handler,
            options={**await self._retries(handler), **options} if job is None else options,
            shown_params=mask(options.get("params", {}), secret),
            reason="; ".join(filter(None, [*row.changes, *row.notes, found.reason])) or None,
        )

    def _schedule(self, row: ImportRow, now: Micros, seen: dict[str, str]) -> tuple[Conversion, str]:
        """The trigger of a row and its zone, once its name is known to be good and its own."""
        name, tz = identifier("name", row.name), row.tz or self._timezone
        zone("timezone", tz)
        if name in seen:
            raise InvalidValue("name", name, f"another name than that of {seen[name]}")
        seen[name] = row.source
        return converted(row.schedule, tz, to_datetime(now)) if row.trigger is None else Conversion(row.trigger), tz

    def _params(self, row: ImportRow, handler: str, secret: tuple[str, ...]) -> dict[str, Any]:
        """The parameters by name, as the handler takes them."""
        signature = self._creation.signature(handler)
        names = None if signature is None else [field.name for field in signature.parameters.fields]
        params = named_params(row.args, row.params, names)
        try:
            if signature is not None:
                return signature.validate(params, limit=self._creation.payload_limit)
            encode_payload("params", params, self._creation.payload_limit)
        except InvalidValue as error:
            raise hide(error, secret) from None
        return params

    async def _retries(self, handler: str) -> dict[str, Any]:
        """A failed run is tried again as the handler's own job says: other schedulers have no rule of their own. Where
        nobody chose that, the job has the attempts of one that is declared with a schedule."""
        own = await self._creation.own_job(handler)
        chosen = own is not None and own.spec.max_attempts != ENQUEUED_ATTEMPTS
        return {
            "max_attempts": own.spec.max_attempts if own is not None and chosen else SCHEDULED_ATTEMPTS,
            "retry": Retry("queue") if own is None else own.spec.retry,
        }

    # --- apply ----------------------------------------------------------------------------------------------
    async def apply(self, planned: Sequence[Planned], *, by: str, source: str) -> tuple[str | None, list[Planned]]:
        """Carry out a plan; a row that is refused is then one to look at. Returns the id of the import, if it changed
        anything, and what became of the rows."""
        if all(each.action in ("unchanged", "review") for each in planned):
            return None, list(planned)
        now = await self._store.now()
        id = random_id(now, self._chance)
        counts = {action: sum(each.action == action for each in planned) for action in ("create", "update", "review")}
        audit = audit_record(self._chance, "import", f"import:{id}", by, now, after=_json({"source": source, **counts}))
        await self._put(ALL, id, _Import(at=now, by=by, source=source), audit=audit)
        return id, [await self._applied(id, each, by) for each in planned]

    async def _applied(self, id: str, planned: Planned, by: str) -> Planned:
        name = planned.row.name
        try:
            if planned.action == "create":
                await self._put(id, name, _Change(created=True))
                assert planned.handler is not None, "a planned job has one"
                await self._creation.create(name, planned.handler, planned.options, by=by, run=False)
            elif planned.action == "update":
                before = await self._job_cache.read(name)
                await self._put(id, name, _Change(created=False, fields=before.changed_fields))
                await self._steering.update_job(name, planned.options, by=by)
            else:
                return planned
        except (InvalidValue, CommandRefused, NotFound) as error:
            await self._remove(id, name)
            return msgspec.structs.replace(planned, action="review", reason=str(error))
        made = await self._job_cache.read(name)
        [entry] = await self._store.entries(KIND, id, [name])
        change = msgspec.json.decode(entry.body, type=_Change)
        await self._put(id, name, msgspec.structs.replace(change, after=_fingerprint(made)))
        return planned

    # --- undo -----------------------------------------------------------------------------------------------
    async def undo(self, id: str | None, *, by: str, dry_run: bool = False) -> tuple[str, list[UndoneJob]]:
        """Put the jobs of an import back to how they were before it: of this one, or of the last that was not undone
        yet."""
        entry, known = await self._to_undo(id)
        now = await self._store.now()
        done: list[UndoneJob] = []
        after = ""
        while changes := await self._store.list_entries(KIND, entry.key, after=after, limit=PAGE):
            after = changes[-1].key
            done += [await self._undone(change, by, dry_run) for change in changes]
        if not dry_run:
            counts = {outcome: sum(each.outcome == outcome for each in done) for outcome in ("removed", "restored")}
            audit = audit_record(self._chance, "undo_import", f"import:{entry.key}", by, now, after=_json(counts))
            await self._put(ALL, entry.key, msgspec.structs.replace(known, undone=True), audit=audit)
        return entry.key, done

    async def _to_undo(self, id: str | None) -> tuple[Entry, _Import]:
        if id is not None:
            entries = await self._store.entries(KIND, ALL, [id])
        else:
            entries = await self._all(ALL)
        for entry in reversed(entries):  # ids are ordered by time
            known = msgspec.json.decode(entry.body, type=_Import)
            if id is not None or not known.undone:
                return entry, known
        raise ImportNotFound(id or "")

    async def _undone(self, entry: Entry, by: str, dry_run: bool) -> UndoneJob:
        name, change = entry.key, msgspec.json.decode(entry.body, type=_Change)
        jobs = await self._store.jobs([name])
        if not jobs:
            await self._forget(entry, dry_run)
            return UndoneJob(job=name, outcome="gone", reason="the job was removed since")
        if change.after is None:
            return UndoneJob(job=name, outcome="kept", reason="the import was interrupted at this job; look at it")
        if _fingerprint(jobs[0]) != change.after:
            return UndoneJob(job=name, outcome="kept", reason="the job was changed since its import")
        try:
            if not dry_run and change.created:
                await self._steering.remove_job(name, by=by)
            elif not dry_run:
                await self._steering.restore_job(name, change.fields, by=by)
        except CommandRefused as error:
            return UndoneJob(job=name, outcome="kept", reason=str(error))
        await self._forget(entry, dry_run)
        return UndoneJob(job=name, outcome="removed" if change.created else "restored")

    async def _forget(self, entry: Entry, dry_run: bool) -> None:
        if not dry_run:
            await self._remove(entry.scope, entry.key)

    # --- entries --------------------------------------------------------------------------------------------
    async def _all(self, scope: str) -> list[Entry]:
        found: list[Entry] = []
        while page := await self._store.list_entries(KIND, scope, after=found[-1].key if found else "", limit=PAGE):
            found += page
        return found

    async def _put(self, scope: str, key: str, body: msgspec.Struct, audit: Any = None) -> None:
        entry = Entry(kind=KIND, scope=scope, key=key, body=msgspec.json.encode(body).decode())
        await self._store.write_entries([EntryWrite(entry=entry, audit=audit)])

    async def _remove(self, scope: str, key: str) -> None:
        await self._store.write_entries([EntryWrite(entry=Entry(kind=KIND, scope=scope, key=key), remove=True)])


def _handler(row: ImportRow, job: Job | None, handlers: frozenset[str]) -> str:
    """The handler that the row names, or that of the job, or one with the name of the row's task, or the usual one."""
    alike = next((name for name in handler_names(row.task or "") if name in handlers), None)
    named = row.handler or alike
    if job is not None:
        if named not in (None, job.spec.handler):
            raise InvalidValue("handler", named, f"{job.spec.handler!r}, which the job {job.name!r} has")
        return job.spec.handler
    handler = named or row.usual_handler
    if handler is None:
        raise _without_handler(row)
    if handler not in handlers:
        raise HandlerNotFound(handler, handlers)
    return handler


def _without_handler(row: ImportRow) -> MainspringError:
    if row.task is None:
        return InvalidValue("handler", None, "the name of a handler", "Give it with --handler, or in the row")
    names = " or ".join(repr(name) for name in handler_names(row.task) if is_identifier(name))
    return NeedsReview(
        f"no handler is called {names}: give --map '{row.task}=HANDLER', or --handler for all; "
        "handlers are known with --app, or while a worker runs"
    )


def _is_so(job: Job, options: Mapping[str, Any]) -> bool:
    """Whether the job is already as the options want it."""
    spec = job.spec
    trigger = None if spec.trigger is None else decode_trigger(spec.trigger)
    return all((trigger if name == "trigger" else getattr(spec, name)) == value for name, value in options.items())


def _fingerprint(job: Job) -> str:
    """Of everything that people decide about a job; ticks do not change it."""
    control = [job.id, job.declared, job.changed_fields, job.paused is not None, job.cancelled is not None]
    return hashlib.sha256(msgspec.json.encode(control, order="sorted")).hexdigest()[:32]


def _json(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()
