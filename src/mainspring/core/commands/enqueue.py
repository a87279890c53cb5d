"""Making executions: enqueue and trigger, from code, API, CLI or dashboard alike."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import timedelta
from inspect import isawaitable
from typing import Any

import msgspec

from ...model.errors import CommandRefused, HandlerNotFound, InvalidValue, JobNotFound
from ...model.events import Skipped
from ...model.execution import ExecutionRow, State
from ...model.job import Job
from ...model.policies import Unique
from ...model.store.messages import Added, Audit
from ...model.time.instants import Micros, seconds_to_micros, to_micros
from ...model.values.ids import Chance, random_id
from ...model.values.payload import encode_payload, presentable
from ...model.values.reading import duration, identifier, instant, whole, words
from ..cancelling import cancel_superseded
from ..declaring.registry import Registry
from ..declaring.signature import Signature
from ..declaring.tenant_options import check_tenant
from ..emitting import tell_enqueued
from ..jobs.job_cache import JobCache
from ..loops import Emit
from ..ports import CallerTransaction, Store
from ..queries.queries import Queries
from ..request_context import REQUEST_ID
from ..rules import new_execution
from ..store_clock import StoreClock
from .batches import Draft, Series, made_of, overlapped, read_item, series_of
from .retry_claims import RetryClaims
from .trigger import Triggering
from .unique_periods import UniquePeriods, check_lasting, refuse_lasting

MANY = 10_000
"""Executions handed to the store at once: it may send them in parts that overlap, but commits no more at a time."""
PART = 2_000
"""Of a large batch, made while the store adds the part before."""
LOOK_AGAIN = 1_000
SERIES_AT_MOST = 1_000
_DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("start_at", "priority", "queue", "unique", "traceparent", "metadata", "tenant", "share")),
    "by": "system",
}
NO_DELAY = 1_000_000_000
"""Smaller numbers are before 2001 as instants: somebody meant a delay."""


class _Known:
    """The job that the items of a batch are for: looked up again when another one is named, and now and then."""

    handler: object = None
    job: Job
    series: Series
    left = 0


class Enqueuer(Triggering):
    def __init__(
        self,
        store: Store,
        registry: Registry,
        job_cache: JobCache,
        queries: Queries,
        clock: StoreClock,
        chance: Chance,
        emit: Emit,
        payload_limit: int,
    ) -> None:
        self._store, self._registry, self._job_cache, self._queries = store, registry, job_cache, queries
        self._clock, self._chance, self._emit = clock, chance, emit
        self._payload_limit = payload_limit
        self._series: dict[str, Series] = {}
        self._periods = UniquePeriods(store, clock, emit)
        self.retries = RetryClaims(store, clock)

    # --- enqueue ------------------------------------------------------------------------------------------
    async def enqueue(
        self, handler: object, params: Mapping[str, Any] | None = None, *, connection: Any = None, **options: Any
    ) -> ExecutionRow | None:
        """Add one execution; None when its unique key is taken."""
        if connection is None and not options:  # nearly always
            series = self._series_of(await self._enqueueable(handler))
            return (await self._add(series.made_together((series.draft(params).params,), series.now())))[0]
        execution = await self.prepare(handler, params, **options)
        unique = options.get("unique")
        if isinstance(unique, Unique) and unique.lasting:
            return await self._enqueue_lasting(execution, unique, connection, options.get("start_at"))
        if connection is not None:
            added = self._add_in(connection, [execution])
            return self._results([execution], await added if isawaitable(added) else added)[0]
        return (await self._add([execution]))[0]

    async def _enqueue_lasting(
        self, execution: ExecutionRow, unique: Unique, connection: Any, start_at: Any
    ) -> ExecutionRow | None:
        check_lasting(unique, connection, start_at)

        async def add(made: ExecutionRow) -> ExecutionRow | None:
            return (await self._add([made]))[0]

        return await self._periods.enqueue(execution, unique, add)

    async def enqueue_many(
        self, items: Iterable[Sequence[Any]], *, connection: Any = None, **options: Any
    ) -> list[ExecutionRow | None]:
        """Add many: each item is (handler, params) or (handler, params, options)."""
        if connection is not None:
            prepared = await self.prepare_many(items, **options)
            added = self._add_in(connection, prepared)
            return self._results(prepared, await added if isawaitable(added) else added)
        drafts = await self._drafts(items, options)
        series = series_of(drafts) if len(drafts) > PART else None
        if series is not None and all(each.independent for each in series):
            return await overlapped(self._add_drafts, drafts, PART)
        results: list[ExecutionRow | None] = []
        for start in range(0, len(drafts), MANY):
            results += await self._add_drafts(drafts[start : start + MANY])
        return results

    async def prepare_many(self, items: Iterable[Sequence[Any]], **options: Any) -> list[ExecutionRow]:
        return made_of(await self._drafts(items, options))

    async def _drafts(self, items: Iterable[Sequence[Any]], options: dict[str, Any]) -> list[Draft | ExecutionRow]:
        """All of them checked: what is wrong with the last one keeps the first one from being stored."""
        if not isinstance(items, Iterable):
            raise InvalidValue("items", presentable(items), "a list of (handler, params)")
        known, drafts = _Known(), list[Draft | ExecutionRow]()
        for item in items:
            handler, params, own = read_item(item)
            if known.handler is not handler or not known.left:
                known.handler, known.job, known.left = handler, await self._enqueueable(handler), LOOK_AGAIN
                known.series = self._series_of(known.job)
            known.left -= 1
            if own or options:
                refuse_lasting({**options, **own}.get("unique"))
                drafts.append(self._prepared(known.job, params, **{**options, **own}))
            else:
                drafts.append(known.series.draft(params))
        return drafts

    async def _add_drafts(self, drafts: Sequence[Draft | ExecutionRow]) -> list[ExecutionRow | None]:
        return await self._add(made_of(drafts))

    async def prepare(self, handler: object, params: Mapping[str, Any] | None = None, **options: Any) -> ExecutionRow:
        """The execution an enqueue would add, checked and rendered, but not stored yet."""
        job = await self._enqueueable(handler)
        if options.items() <= _DEFAULTS.items():
            series = self._series_of(job)
            return series.made(series.draft(params).params, series.now())
        return self._prepared(job, params, **options)

    def _series_of(self, job: Job) -> Series:
        """What executions of this job, as it is now, have in common."""
        series = self._series.get(job.name)
        if series is None or (series.job is not job and series.job != job):
            if len(self._series) >= SERIES_AT_MOST:
                self._series.clear()
            series = self._series[job.name] = Series(job, self.encode_params, self._clock, self._chance)
        series.job = job  # it may have been read again, and be the same as before
        return series

    async def _enqueueable(self, handler: object) -> Job:
        job = self._job_cache.at_hand(handler) if isinstance(handler, str) else None
        if job is None:
            job = await self._job_of(handler)
        if not self._clock.fresh:
            await self._clock.follow(self._store)
        if job.cancelled is not None:
            raise CommandRefused("enqueue", "cancelled", ["the job is reactivated"], f"job {job.name!r}")
        return job

    def _prepared(
        self,
        job: Job,
        params: Mapping[str, Any] | None,
        *,
        start_at: Any = None,
        priority: int | None = None,
        queue: str | None = None,
        unique: str | Unique | None = None,
        by: str = "system",
        traceparent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        share: str | None = None,
    ) -> ExecutionRow:
        fields: dict[str, Any] = {}
        if tenant is not None:
            fields["tenant"] = check_tenant("tenant", tenant)
            self._refuse_unknown(job, tenant)
        if share is not None:
            fields["share"] = words("share", share)
        if by != "system":
            fields["triggered_by"] = words("by", by)
        if priority is not None:
            fields["priority"] = whole("priority", priority, -32_768, 32_767)
        if queue is not None:
            fields["queue"] = identifier("queue", queue)
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InvalidValue("metadata", presentable(metadata), "a mapping of names to values")
        if metadata is not None:
            fields["metadata_json"] = encode_payload("metadata", dict(metadata), self._payload_limit)
        return new_execution.new_execution(
            job,
            trigger="enqueue",
            now=self._clock.now(),
            chance=self._chance,
            params=self.encode_params(job, params),
            due=self._due(start_at),
            unique=unique,
            traceparent=traceparent,
            **fields,
        )

    def enqueue_in(self, connection: Any, executions: Sequence[ExecutionRow]) -> list[ExecutionRow | None]:
        """Store prepared executions inside the caller's own transaction, in the caller's thread."""
        added = self._add_in(connection, executions)
        if isawaitable(added):
            getattr(added, "close", lambda: None)()
            raise InvalidValue("connection", type(connection).__name__, "a blocking connection, or `await app.enqueue`")
        return self._results(executions, added)

    def _add_in(self, connection: Any, executions: Sequence[ExecutionRow]) -> list[Added] | Awaitable[list[Added]]:
        """Awaitable when the connection is one that must be awaited."""
        store: Any = self._store
        if not hasattr(store, "add_in"):
            raise InvalidValue(
                "connection", type(connection).__name__, "None for this store", "It has no transactions of callers"
            )
        caller: CallerTransaction = store
        return caller.add_in(connection, executions)

    def _results(self, executions: Sequence[ExecutionRow], added: Sequence[Added]) -> list[ExecutionRow | None]:
        tell_enqueued(self._emit, executions, added)
        return [
            each.execution or execution if each.outcome == "added" else self._result(execution, each)
            for execution, each in zip(executions, added, strict=True)
        ]

    async def _job_of(self, handler: object) -> Job:
        """The job of a handler, or any job by name: also of handlers that only other processes have."""
        name = handler if isinstance(handler, str) else self._name_of(handler)
        try:
            return await self._job_cache.get(name)
        except JobNotFound as missing:
            if name in self._registry.names:
                raise
            known = [*self._registry.names, missing.suggestion or ""]
            raise HandlerNotFound(name, known) from None

    def _name_of(self, handler: object) -> str:
        """The name a handler is registered under; of a class that only other processes construct, its own."""
        try:
            return self._registry.resolve(handler).name
        except HandlerNotFound:
            own = getattr(handler, "name", None)
            if not isinstance(own, str):
                raise
            return own

    def _due(self, start_at: Any) -> Micros | None:
        """An instant, or a delay from now such as "10m" or a timedelta."""
        if start_at is None:
            return None
        if isinstance(start_at, timedelta) or (isinstance(start_at, str) and start_at[-1:] in "smhdw"):
            return self._clock.now() + seconds_to_micros(duration("start_at", start_at, allow_zero=True))
        if isinstance(start_at, int | float) and start_at < NO_DELAY:
            allowed = "a datetime, ISO 8601 text, seconds since 1970, or a delay such as '10m'"
            raise InvalidValue("start_at", start_at, allowed, f"Write a delay as '{start_at}s'")
        return to_micros(instant("start_at", start_at))

    def signature_of(self, job: Job) -> Signature | None:
        """What the job's handler takes; None when this process does not have it."""
        handler = job.spec.handler
        return self._registry.get(handler).signature if handler in self._registry.names else None

    def encode_params(self, job: Job, params: Mapping[str, Any] | None) -> str:
        """Parameters on top of the job's own, checked against the handler's signature where it is known here."""
        signature = self.signature_of(job)
        given: Any
        if type(params) is dict and not job.spec.params:  # nearly always, and reading it is all that is done
            given = params
        elif params is None or isinstance(params, Mapping):
            given = {**job.spec.params, **(params or {})}
        elif signature is None:
            raise InvalidValue("params", presentable(params), "a mapping of parameter names to values")
        else:
            given = params  # a record of the handler's own type
        if signature is None:
            return encode_payload("params", given, self._payload_limit)
        return signature.encode(given, self._payload_limit)

    async def _add(self, executions: Sequence[ExecutionRow], audit: Sequence[Audit] = ()) -> list[ExecutionRow | None]:
        added = await self._store.add(executions, audit)
        results = self._results(executions, added)
        for execution in results:
            if execution is not None and execution.staged and not execution.state.final:
                await self._cancel_superseded(execution)
        return results

    async def _cancel_superseded(self, execution: ExecutionRow) -> None:
        if execution.rules.overlap == "cancel_running":
            await cancel_superseded(self._store, execution, self._emit)

    def _result(self, given: ExecutionRow, added: Added) -> ExecutionRow | None:
        execution = added.execution or given
        if added.outcome == "added":
            return execution
        if added.outcome == "unique_taken":
            return None
        if added.outcome == "skipped":
            self._emit(Skipped(execution, "overlap", added.holder))
            return msgspec.structs.replace(execution, state=State.SKIPPED, reason="overlap")
        return execution

    def audit(
        self, action: str, target: str, by: str, now: Micros, before: str | None = None, after: str | None = None
    ) -> Audit:
        actor = words("by", by)
        return Audit(
            id=random_id(now, self._chance),
            at=now,
            actor=actor,
            action=action,
            target=target,
            request_id=REQUEST_ID.get(),
            before=before,
            after=after,
        )
