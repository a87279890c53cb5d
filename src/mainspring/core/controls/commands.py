"""Commands on queues, handlers and workers: pause, resume, limit, drain. Each is one compare-and-set of a control,
written together with its audit record; every node reads the controls once a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...model.controls import KIND, Control, Known, Subject, Walk, control_entry, key_of, known_control
from ...model.errors import CommandRefused, InvalidValue, NotFound, shown
from ...model.limits import MAX_CONCURRENCY, per_second
from ...model.store.entries import EntryWrite
from ...model.time.instants import Micros, maybe_datetime, seconds_to_micros, to_datetime, to_micros
from ...model.values.ids import Chance
from ...model.values.reading import SYSTEM_PREFIX, duration, identifier, instant, whole, words
from ..auditing import audit_record
from ..ports import Store
from ..queries.queries import Queries
from ..rules.controls import in_force, resumed

MAX_NOTE = 1_000
STEP = 500
"""How many controls are read at a time, so that other tasks get their turn in between."""


class WorkerNotFound(NotFound):
    noun = "worker"

    def __str__(self) -> str:
        return f"no running process has the worker id {shown(self.name)}; mainspring workers lists them"


async def read_controls(store: Store) -> list[Known]:
    """All controls, including those whose end has come."""
    found: list[Known] = []
    after = ""
    while entries := await store.list_entries(KIND, "", after=after, limit=STEP):
        found += [known for entry in entries if (known := known_control(entry)) is not None]
        if len(entries) < STEP:
            break
        after = entries[-1].key
    return found


async def read_control(store: Store, subject: Subject, name: str) -> Known:
    """One control, empty at version 0 if there is none."""
    for entry in await store.entries(KIND, "", [key_of(subject, name)]):
        if (found := known_control(entry)) is not None:
            return found
        raise InvalidValue(subject, name, "a control that this release can read", "Use the release that set it")
    return Known(subject, name, Control(), 0)


class Controls:
    def __init__(self, store: Store, queries: Queries, chance: Chance) -> None:
        self._store, self._queries, self._chance = store, queries, chance
        self.on_change: Callable[[], None] = lambda: None
        """Called after each change, so that the node of this process obeys it at once."""

    # --- queues and handlers ------------------------------------------------------------------------------
    async def pause(
        self, subject: Subject, name: str, *, by: str, note: str | None = None, until: Any = None, lasts: Any = None
    ) -> Control:
        """Pause a queue or a handler, or drain a worker, until it is resumed, until `until`, or for `lasts` from now by
        the store's clock. Pausing it again replaces note and end."""
        _check_name("pause", subject, name)
        if until is not None and lasts is not None:
            raise InvalidValue("resume_after", lasts, "no duration together with resume_at", "Give one of them")
        note = None if note is None else words("note", note, MAX_NOTE)
        length = None if lasts is None else seconds_to_micros(duration("resume_after", lasts))
        given = None if until is None else to_micros(instant("resume_at", until))

        def decide(before: Control, now: Micros) -> Control:
            end = given if length is None else now + length
            if end is not None and end <= now:
                allowed = f"an instant in the future; it is {to_datetime(now):%Y-%m-%dT%H:%M:%SZ}"
                raise InvalidValue("resume_at", str(until), allowed)
            since = now if before.paused is None else before.paused
            return msgspec.structs.replace(before, paused=since, by=words("by", by), note=note, until=end)

        return await self._change("pause", subject, name, by, decide)

    async def resume(self, subject: Subject, name: str, *, by: str) -> Control:
        """End a pause; refused if there is none."""
        _check_name("resume", subject, name)

        def decide(before: Control, now: Micros) -> Control:
            if before.paused is None:
                raise CommandRefused("resume", "not paused", ["paused"], f"{subject} {name!r}")
            return resumed(before)

        return await self._change("resume", subject, name, by, decide)

    async def limit(self, queue: str, *, by: str, concurrency: int | None = None, rate: Any = None) -> Control:
        """Set the ceilings of a queue over all processes, or remove them if none is given. Running executions are not
        stopped."""
        _check_name("limit", "queue", queue)
        most = None if concurrency is None else whole("concurrency", concurrency, 1, MAX_CONCURRENCY)
        each_second = None if rate is None else _rate(rate)

        def decide(before: Control, now: Micros) -> Control:
            if (most, each_second) == (before.concurrency, before.rate):
                return before
            limited, limited_by = (None, None) if most is None and each_second is None else (now, words("by", by))
            return msgspec.structs.replace(
                before,
                concurrency=most,
                rate=each_second,
                limited=limited,
                limited_by=limited_by,
                walk=Walk(since=now),
            )

        return await self._change("limit", "queue", queue, by, decide)

    # --- workers ------------------------------------------------------------------------------------------
    async def drain(self, id: str, *, by: str, note: str | None = None) -> str:
        """The worker takes no more work and finishes what it runs. `id` may be the beginning or the end of its id.
        Returns the full id."""
        worker = await self._worker(id)
        await self.pause("worker", worker, by=by, note=note)
        return worker

    async def undrain(self, id: str, *, by: str) -> str:
        worker = await self._worker(id)
        await self.resume("worker", worker, by=by)
        return worker

    async def _worker(self, id: str) -> str:
        ids = [worker.id for worker in await self._queries.workers()]
        found = [each for each in ids if id and (each.startswith(id) or each.endswith(id))]
        if len(found) > 1:
            raise InvalidValue("worker", id, f"the id of one worker; {len(found)} workers match", "Give more of it")
        if not found:
            raise WorkerNotFound(id)
        return found[0]

    # --- inside -------------------------------------------------------------------------------------------
    async def _change(
        self, action: str, subject: Subject, name: str, by: str, decide: Callable[[Control, Micros], Control]
    ) -> Control:
        """Change a control by compare-and-set. A command that loses a race starts again from the new control."""
        while True:
            found, now = await read_control(self._store, subject, name), await self._store.now()
            before = in_force(found.control, now)
            after = decide(before, now)
            if after == found.control:
                return after
            audit = audit_record(
                self._chance,
                _action(action, subject),
                key_of(subject, name),
                by,
                now,
                before=summary(before),
                after=summary(after),
            )
            if await write_control(self._store, found, after, audit=audit):
                self.on_change()
                return after


async def write_control(store: Store, seen: Known, control: Control, **fields: Any) -> bool:
    """Store this control if nobody has changed it since it was read. An empty control is removed."""
    entry = control_entry(seen.subject, seen.name, control)
    remove = control.empty and control.job_id is None
    if remove and not seen.version:
        return True
    write = EntryWrite(entry=entry, seen_version=seen.version, remove=remove, **fields)
    return (await store.write_entries([write]))[0]


def _action(action: str, subject: Subject) -> str:
    """The action of the audit record."""
    if subject == "worker":
        return {"pause": "drain_worker", "resume": "undrain_worker"}[action]
    return f"{action}_{subject}"


def summary(control: Control) -> str:
    fields = {
        "paused": maybe_datetime(control.paused),
        "note": control.note,
        "resume": maybe_datetime(control.until),
        "concurrency": control.concurrency,
        "rate": control.rate,
    }
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None}).decode()


def _check_name(action: str, subject: Subject, name: str) -> None:
    if identifier(subject, name).startswith(SYSTEM_PREFIX):
        raise CommandRefused(action, "Mainspring's own", (), f"{subject} {name!r}")


def _rate(value: Any) -> float:
    try:
        return per_second(value)
    except InvalidValue as error:
        raise InvalidValue("rate", error.value, error.allowed, error.remedy) from None
